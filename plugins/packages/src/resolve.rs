//! Decides what to do for each package: which version to install, whether it is allowed, and how it is described.

use crate::action::Action;
use crate::model::{Answers, Installed, Item, Key, Kind, Mark, Offers, Status};
use crate::pattern::VersionPattern;
use crate::providers::PackageProvider;
use crate::wanted::{Ensure, Main, Need, Wanted, newest};
use holo_plugin::index::define_index;

define_index! {
    /// The index of a request.
    pub(crate) RequestIndex
}

/// What to do for a package that is not in its desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) request: RequestIndex,
    /// The kind of the transaction that it is part of, or `None` if only marks change.
    pub(crate) kind: Option<Kind>,
    pub(crate) item: Item,
    pub(crate) is_held: bool,
    pub(crate) is_downgrade: bool,
    /// How to complete the installation, if this version is already unpacked.
    pub(crate) completion: Option<Completion>,
    pub(crate) is_orphan: bool,
    pub(crate) marks: Vec<Mark>,
    pub(crate) actions: Vec<Action>,
    /// True if it may remove any other package.
    pub(crate) force: bool,
    /// Whether to install recommended packages, or `None` for the default of the package manager.
    pub(crate) recommends: Option<bool>,
    /// The names of packages that were installed along with it.
    pub(crate) brought: Vec<String>,
    /// The answers to debconf questions of the package.
    pub(crate) answers: Option<Answers>,
}

/// How to complete the installation of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Completion {
    /// All of its files are in place.
    Configure,
    /// Some of its files may be missing.
    Reinstall,
}

/// The decision about a requested package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// It is in its desired state.
    Nothing,
    /// This has to be done.
    Task(Task),
    /// The orphan can never be handled again, for this reason.
    Forgotten(String),
    /// `--force` is required, for this reason.
    NeedsForce(String),
    /// It is not available in the index, which may be outdated.
    Unknown(OfferError),
    /// It is impossible, for this reason.
    Impossible(String),
}

/// A package or version that is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OfferError {
    #[error("{manager} has no package {key}")]
    Package { manager: &'static str, key: Key },
    #[error("{manager} has no {key} {asked}, only {}", offered.join(", "))]
    Version { manager: &'static str, key: Key, asked: String, offered: Vec<String> },
    #[error("{manager} has no version of {key} that may be installed")]
    Candidate { manager: &'static str, key: Key },
}

/// The input of a decision.
pub(crate) struct Knowledge<'a> {
    pub(crate) provider: &'a dyn PackageProvider,
    pub(crate) installed: &'a Installed,
    /// `None` if the package manager was not queried.
    pub(crate) offers: Option<&'a Offers>,
    /// True if every version is available, as the package manager is mocked.
    pub(crate) is_mock: bool,
    pub(crate) force: bool,
}

/// Returns true if the decision depends on the available versions.
pub(crate) fn needs_offers(wanted: &Wanted, provider: &dyn PackageProvider, installed: &Installed) -> bool {
    let need = Need::new(wanted, &installed.instances(&wanted.key), None, provider);
    wanted.ensure == Ensure::Latest || matches!(need.main, Some(Main::Install | Main::Version(_)))
}

/// Decides what to do for a package.
pub(crate) fn resolve(request: RequestIndex, wanted: &Wanted, known: &Knowledge<'_>) -> Resolved {
    let Knowledge { provider, installed, offers, force, .. } = known;
    if let Some(problem) = &wanted.problem {
        return Resolved::Impossible(problem.clone());
    }
    if let Err(error) = provider.validate(&wanted.key) {
        return Resolved::Impossible(error.to_string());
    }
    if let Some(arch) = installed.unknown_arch(&wanted.key).filter(|_| wanted.is_orphan && !known.is_mock) {
        let why = format!("{} is not configured for {arch} any more", provider.name());
        return Resolved::Forgotten(format!("{why}; {} is left as it is and no longer managed", wanted.key));
    }
    if wanted.hold == Some(true) && !provider.marks().contains(&Mark::Held) && !wanted.is_orphan {
        return Resolved::Impossible(format!("{} cannot hold packages", provider.name()));
    }
    if wanted.recommends.is_some() && !provider.knows_recommendations() {
        return Resolved::Impossible(format!("recommends: {} does not support recommended packages", provider.name()));
    }
    if wanted.answers.is_some() && !provider.takes_answers() {
        return Resolved::Impossible(format!("debconf: packages of {} ask no questions", provider.name()));
    }
    let instances = installed.instances(&wanted.key);
    let candidate = offers.and_then(|offers| offers.candidate.as_deref());
    let need = Need::new(wanted, &instances, candidate, *provider);
    if need.is_nothing() {
        return Resolved::Nothing;
    }
    let present = installed.present(&wanted.key);
    let current = newest(&present, *provider);
    let is_held = present.iter().any(|instance| instance.held);
    let name = wanted.key.to_string();
    let mut task = Task {
        request,
        kind: None,
        item: Item { key: wanted.key.clone(), version: current.map(str::to_owned), exactly: false, file: None },
        is_held,
        is_downgrade: false,
        completion: None,
        is_orphan: wanted.is_orphan,
        marks: need.marks.clone(),
        actions: Vec::new(),
        force: *force,
        recommends: wanted.recommends,
        brought: wanted.brought.clone(),
        answers: wanted.answers.clone(),
    };
    match &need.main {
        None => {}
        Some(Main::Gone(kind)) => {
            task.kind = Some(*kind);
            task.actions.push(Action::remove(&name, current, *kind == Kind::Purge));
        }
        Some(Main::Install | Main::Version(_)) => {
            let asked = if let Some(Main::Version(asked)) = &need.main { Some(asked) } else { None };
            let unconfigured = present.iter().find(|instance| instance.status == Status::Unconfigured);
            let unconfigured = unconfigured.map(|instance| instance.version.as_str());
            let version = match version(wanted, asked, unconfigured, known) {
                Ok(version) => version,
                Err(problem) => return Resolved::Unknown(problem),
            };
            let file = wanted.file.as_ref().filter(|file| known.is_mock || version.as_ref() == Some(&file.version));
            task.kind = Some(Kind::Install);
            task.item = Item {
                key: wanted.key.clone(),
                version: version.clone(),
                exactly: matches!(wanted.ensure, Ensure::Version(_)),
                file: file.map(|file| file.path.clone()),
            };
            match (current, &version) {
                (Some(from), Some(to)) if provider.compare(to, from).is_eq() => {
                    let is_partial = present.iter().any(|instance| instance.status == Status::Partial);
                    let completion = if is_partial { Completion::Reinstall } else { Completion::Configure };
                    task.completion = Some(completion);
                    task.actions.push(Action::complete(&name, to));
                }
                (Some(from), Some(to)) => {
                    task.is_downgrade = provider.compare(to, from).is_lt();
                    task.actions.push(Action::replace(&name, from, to, task.is_downgrade));
                }
                _ => task.actions.push(Action::install(&name, version.as_deref())),
            }
        }
    }
    if let Some(reason) = refusal(wanted, &task, current, *provider).filter(|_| !force) {
        return Resolved::NeedsForce(reason);
    }
    task.actions.extend(task.marks.iter().map(|&mark| Action::mark(&name, mark)));
    Resolved::Task(task)
}

/// Returns the version to install, or `None` if the mock manager has none. A version that only has to be configured is preferred to the
/// candidate.
fn version(
    wanted: &Wanted,
    asked: Option<&VersionPattern>,
    unconfigured: Option<&str>,
    known: &Knowledge<'_>,
) -> Result<Option<String>, OfferError> {
    if let (true, Some(asked)) = (known.is_mock, asked) {
        let (manager, key) = (known.provider.name(), wanted.key.clone());
        return asked.example(known.provider).map(Some).ok_or(OfferError::Candidate { manager, key });
    }
    if known.is_mock {
        return Ok(wanted.preferred.clone());
    }
    let (manager, key) = (known.provider.name(), wanted.key.clone());
    let versions = known.offers.map_or(&[][..], |offers| &offers.versions);
    let best = |asked: &VersionPattern| {
        let fitting = versions.iter().filter(|version| asked.fits(version, known.provider));
        fitting.max_by(|a, b| known.provider.compare(a, b)).cloned()
    };
    if versions.is_empty() {
        return Err(OfferError::Package { manager, key });
    }
    if let Some(asked) = asked {
        return best(asked).map(Some).ok_or_else(|| OfferError::Version {
            manager,
            key,
            asked: asked.to_string(),
            offered: versions.to_vec(),
        });
    }
    // Restoring the original version of an orphan is a downgrade, which needs force.
    let preferred = match wanted.preferred.as_deref() {
        Some(preferred) if known.force => Some(preferred),
        preferred => unconfigured.or(preferred),
    };
    let preferred = preferred.and_then(|version| best(&VersionPattern::Exact(version.to_owned())));
    let candidate = known.offers.and_then(|offers| offers.candidate.clone());
    preferred.or(candidate).map(Some).ok_or(OfferError::Candidate { manager, key })
}

/// Returns the reason why a task needs force, if any.
fn refusal(wanted: &Wanted, task: &Task, current: Option<&str>, provider: &dyn PackageProvider) -> Option<String> {
    let (name, current) = (&wanted.key, current?);
    // A restore may replace versions that holo installed, but no others.
    if task.is_downgrade && wanted.ours.iter().all(|ours| ours != current) {
        let to = task.item.version.as_deref().unwrap_or_default();
        return Some(format!("{name} {current} is newer than {to}"));
    }
    // The original state of an orphan does not override the administrator's wishes, and holo's own hold does not protect it.
    if wanted.is_orphan {
        return None;
    }
    let is_our_pin = provider.pins() && task.item.exactly;
    if task.is_held && task.kind.is_some() && wanted.hold.is_none() && !is_our_pin && task.completion.is_none() {
        return Some(format!("{name} is held at {current}"));
    }
    None
}
