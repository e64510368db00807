//! From what is wanted to what has to be done: which version, whether it may be, and in which words it is told.

use crate::declaration::{Ensure, Wanted};
use crate::deed::Deed;
use crate::model::{Installed, Instance, Item, Kind, Mark, Offers, Status};
use crate::need::{Main, Need, newest};
use crate::provider::PackageProvider;

/// A package that is not as it is wanted, and what is done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    /// The place of the package among those that are wanted.
    pub(crate) place: usize,
    /// The transaction that it is part of, if any.
    pub(crate) kind: Option<Kind>,
    pub(crate) item: Item,
    pub(crate) is_held: bool,
    pub(crate) is_downgrade: bool,
    pub(crate) is_orphan: bool,
    pub(crate) marks: Vec<Mark>,
    pub(crate) deeds: Vec<Deed>,
    /// True if everything that it would take away may go.
    pub(crate) force: bool,
}

/// The decision about a package that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// It is as it is wanted.
    Nothing,
    /// This has to be done.
    Task(Task),
    /// Nothing is done unless it is forced; why.
    NeedsForce(String),
    /// Nobody offers it: this is said, and the index may be old.
    Unknown(String),
    /// It cannot be done; why.
    Impossible(String),
}

/// The data that the decision is based on.
pub(crate) struct Knowledge<'a> {
    pub(crate) provider: &'a dyn PackageProvider,
    pub(crate) installed: &'a Installed,
    /// Nothing if nobody was asked.
    pub(crate) offers: Option<&'a Offers>,
    /// True if every version can be had, as there is no package manager to ask.
    pub(crate) is_mock: bool,
    pub(crate) force: bool,
}

/// Returns true if the decision depends on the versions that are offered.
pub(crate) fn needs_offers(wanted: &Wanted, provider: &dyn PackageProvider, installed: &Installed) -> bool {
    let need = Need::of(wanted, &installed.instances(&wanted.key), None, provider);
    wanted.ensure == Ensure::Latest || matches!(need.main, Some(Main::Install | Main::Version(_)))
}

/// Decides what has to be done.
pub(crate) fn resolve(place: usize, wanted: &Wanted, known: &Knowledge<'_>) -> Resolved {
    let Knowledge { provider, installed, offers, force, .. } = known;
    if let Err(problem) = provider.validate(&wanted.key) {
        return Resolved::Impossible(problem);
    }
    if wanted.hold == Some(true) && !provider.marks().contains(&Mark::Held) && !wanted.is_orphan {
        return Resolved::Impossible(format!("{} cannot hold packages", provider.name()));
    }
    let instances = installed.instances(&wanted.key);
    let candidate = offers.and_then(|offers| offers.candidate.as_deref());
    let need = Need::of(wanted, &instances, candidate, *provider);
    if need.is_nothing() {
        return Resolved::Nothing;
    }
    let present: Vec<&Instance> =
        instances.iter().copied().filter(|instance| instance.status == Status::Installed).collect();
    let current = newest(&present, *provider);
    let is_held = present.iter().any(|instance| instance.held);
    let name = wanted.key.to_string();
    let mut task = Task {
        place,
        kind: None,
        item: Item { key: wanted.key.clone(), version: current.map(str::to_owned), exactly: false },
        is_held,
        is_downgrade: false,
        is_orphan: wanted.is_orphan,
        marks: need.marks.clone(),
        deeds: Vec::new(),
        force: *force,
    };
    match &need.main {
        None => {}
        Some(Main::Gone(kind)) => {
            task.kind = Some(*kind);
            task.deeds.push(Deed::remove(&name, current, *kind == Kind::Purge));
        }
        Some(Main::Install | Main::Version(_)) => {
            let asked = if let Some(Main::Version(asked)) = &need.main { Some(asked.as_str()) } else { None };
            let version = match version(wanted, asked, known) {
                Ok(version) => version,
                Err(problem) => return Resolved::Unknown(problem),
            };
            task.kind = Some(Kind::Install);
            task.item = Item {
                key: wanted.key.clone(),
                version: version.clone(),
                exactly: matches!(wanted.ensure, Ensure::Version(_)),
            };
            match (current, &version) {
                (Some(from), Some(to)) => {
                    task.is_downgrade = provider.compare(to, from).is_lt();
                    task.deeds.push(Deed::replace(&name, from, to, task.is_downgrade));
                }
                _ => task.deeds.push(Deed::install(&name, version.as_deref())),
            }
        }
    }
    if let Some(reason) = refusal(wanted, &task, current, *provider).filter(|_| !force) {
        return Resolved::NeedsForce(reason);
    }
    task.deeds.extend(task.marks.iter().map(|&mark| Deed::mark(&name, mark)));
    Resolved::Task(task)
}

/// The version to install; none where nobody knows any.
fn version(wanted: &Wanted, asked: Option<&str>, known: &Knowledge<'_>) -> Result<Option<String>, String> {
    let name = &wanted.key;
    if known.is_mock {
        return Ok(asked.or(wanted.preferred.as_deref()).map(str::to_owned));
    }
    let manager = known.provider.name();
    let versions = known.offers.map_or(&[][..], |offers| &offers.versions);
    let best = |asked: &str| {
        let fitting = versions.iter().filter(|version| known.provider.matches(asked, version));
        fitting.max_by(|a, b| known.provider.compare(a, b)).cloned()
    };
    if versions.is_empty() {
        return Err(format!("{manager} knows no package {name}"));
    }
    if let Some(asked) = asked {
        let offered = || versions.join(", ");
        return best(asked).map(Some).ok_or_else(|| format!("{manager} has no {name} {asked}, only {}", offered()));
    }
    let preferred = wanted.preferred.as_deref().and_then(best);
    let candidate = known.offers.and_then(|offers| offers.candidate.clone());
    preferred.or(candidate).map(Some).ok_or_else(|| format!("{manager} has no version of {name} that may be installed"))
}

/// Returns the reason why a person has to decide about a task, if there is one.
fn refusal(wanted: &Wanted, task: &Task, current: Option<&str>, provider: &dyn PackageProvider) -> Option<String> {
    // The state that an orphan was found in is not a person's present wish; neither is our hold.
    if wanted.is_orphan {
        return None;
    }
    let (name, current) = (&wanted.key, current?);
    if task.is_downgrade {
        let to = task.item.version.as_deref().unwrap_or_default();
        return Some(format!("{name} {current} is newer than {to}"));
    }
    let is_our_pin = provider.pins() && task.item.exactly;
    if task.is_held && task.kind.is_some() && wanted.hold.is_none() && !is_our_pin {
        return Some(format!("{name} is held at {current}"));
    }
    None
}
