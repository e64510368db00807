//! Packages and their desired states, and the difference between a package and its desired state.

use crate::intent::Intent;
use crate::model::{Answers, Installed, Instance, Key, Kind, Mark, PackageFile, Status};
use crate::pattern::VersionPattern;
use crate::providers::PackageProvider;
use holo_download::Checksum;
use holo_plugin::Kept;
use std::time::Duration;

/// The name of the value with the installed version.
pub(crate) const VERSION: &str = "version";
/// The name of the value with the version that holo installed.
pub(crate) const OURS: &str = "installed";

/// The desired state of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ensure {
    /// Any version is installed.
    Present,
    /// It is not installed.
    Absent,
    /// Neither the package nor its configuration is installed.
    Purged,
    /// The newest available version is installed.
    Latest,
    /// One of these versions is installed.
    Version(VersionPattern),
}

impl Ensure {
    pub(crate) fn parse(text: &str) -> Ensure {
        match text {
            "present" => Ensure::Present,
            "absent" => Ensure::Absent,
            "purged" => Ensure::Purged,
            "latest" => Ensure::Latest,
            version => Ensure::Version(VersionPattern::parse(version)),
        }
    }

    /// Returns true if the package must not be installed.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Ensure::Absent | Ensure::Purged)
    }
}

/// A package and its desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) id: String,
    pub(crate) key: Key,
    pub(crate) ensure: Ensure,
    /// True if its installation may stay incomplete, as it was originally.
    pub(crate) may_be_unfinished: bool,
    /// The versions that holo installed last, or intended to, while the system is restored to an earlier state. They may be downgraded.
    pub(crate) ours: Vec<String>,
    /// The version to prefer if any version is accepted and this one is available.
    pub(crate) preferred: Option<String>,
    pub(crate) hold: Option<bool>,
    /// Whether it is marked as installed as a dependency, or `None` if the mark is not managed.
    pub(crate) automatic: Option<bool>,
    pub(crate) is_orphan: bool,
    pub(crate) timeout: Option<Duration>,
    /// Whether to install recommended packages, or `None` for the default of the package manager.
    pub(crate) recommends: Option<bool>,
    /// The maximum age of the index that decides about the version.
    pub(crate) refresh: Option<Duration>,
    /// The names of packages that were installed along with it, if it is to be removed.
    pub(crate) brought: Vec<String>,
    pub(crate) answers: Option<Answers>,
    /// The path or URL of a package file, and its expected digest.
    pub(crate) source: Option<String>,
    pub(crate) checksum: Option<Checksum>,
    /// The package in that file, once it has been read.
    pub(crate) file: Option<PackageFile>,
    /// The URL, without secrets, that an apply would download, if this run downloads nothing.
    pub(crate) fetches: Option<String>,
    /// The reason why the desired state is impossible.
    pub(crate) problem: Option<String>,
}

impl Wanted {
    /// Requests the version of the state that the system is restored to, unless the definition requests another one.
    pub(crate) fn recall(&mut self, kept: &Kept, intent: &Intent) {
        self.recall_ours(kept, intent);
        let is_open = match &self.ensure {
            Ensure::Present | Ensure::Latest => true,
            Ensure::Version(pattern) => pattern.is_open(),
            Ensure::Absent | Ensure::Purged => false,
        };
        if let Some(version) = kept.then(&self.id, VERSION).filter(|_| is_open) {
            self.ensure = Ensure::Version(VersionPattern::Exact(version));
        }
    }

    /// Like `recall`, but for a package that has no definition in that state: if holo has changed it, its original version is requested.
    pub(crate) fn recall_orphan(&mut self, kept: &Kept, intent: &Intent) {
        self.recall_ours(kept, intent);
        if let (false, Some(found)) = (self.ours.is_empty(), &self.preferred) {
            self.ensure = Ensure::Version(VersionPattern::Exact(found.clone()));
        }
    }

    fn recall_ours(&mut self, kept: &Kept, intent: &Intent) {
        let intended = intent.version(&self.id).filter(|_| !kept.is_empty()).map(str::to_owned);
        self.ours = kept.last(&self.id, OURS).into_iter().chain(intended).collect();
    }
}

/// The changes that a package needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) main: Option<Main>,
    pub(crate) marks: Vec<Mark>,
}

/// The main change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Main {
    /// Install any version.
    Install,
    /// Install one of these versions.
    Version(VersionPattern),
    /// Remove the package.
    Gone(Kind),
}

impl Need {
    /// Compares the installed instances with the desired state. The candidate matters only if the latest version is wanted.
    pub(crate) fn new(
        wanted: &Wanted,
        instances: &[&Instance],
        candidate: Option<&str>,
        provider: &dyn PackageProvider,
    ) -> Need {
        let there: Vec<&Instance> = instances.iter().copied().filter(|instance| instance.is_there()).collect();
        let suffices = |instance: &&Instance| instance.is_complete() || wanted.may_be_unfinished;
        let present: Vec<&Instance> = there.iter().copied().filter(suffices).collect();
        let main = match &wanted.ensure {
            Ensure::Present => present.is_empty().then_some(Main::Install),
            Ensure::Latest => match (newest(&present, provider), candidate) {
                (None, None) => Some(Main::Install),
                (None, Some(candidate)) => Some(Main::Version(VersionPattern::Exact(candidate.to_owned()))),
                (Some(newest), Some(candidate)) if provider.compare(newest, candidate).is_lt() => {
                    Some(Main::Version(VersionPattern::Exact(candidate.to_owned())))
                }
                // An installed version that is newer than all available ones is kept.
                (Some(_), _) => None,
            },
            Ensure::Version(asked) => {
                let is_there = present.iter().any(|instance| asked.fits(&instance.version, provider));
                (!is_there).then(|| Main::Version(asked.clone()))
            }
            Ensure::Absent => {
                let is_there = instances.iter().any(|instance| instance.status != Status::Leftovers);
                is_there.then_some(Main::Gone(Kind::Remove))
            }
            Ensure::Purged => (!instances.is_empty()).then_some(Main::Gone(Kind::Purge)),
        };
        Need { main, marks: marks(wanted, &there, provider) }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        *self == Need::default()
    }
}

/// Returns the missing marks. A package that is not installed yet gets them after its installation.
fn marks(wanted: &Wanted, present: &[&Instance], provider: &dyn PackageProvider) -> Vec<Mark> {
    let mut marks = Vec::new();
    if wanted.ensure.is_gone() {
        return marks;
    }
    let is_held = present.iter().any(|instance| instance.held);
    let is_automatic = present.iter().all(|instance| instance.automatic) && !present.is_empty();
    match wanted.hold {
        Some(true) if !is_held => marks.push(Mark::Held),
        Some(false) if is_held => marks.push(Mark::Released),
        _ => {}
    }
    match wanted.automatic {
        Some(true) if !is_automatic => marks.push(Mark::Automatic),
        Some(false) if is_automatic => marks.push(Mark::ByHand),
        _ => {}
    }
    // Marks that the manager does not support are skipped. An unsupported hold is reported elsewhere.
    marks.retain(|mark| provider.marks().contains(mark));
    marks
}

/// Returns the newest version of the instances.
pub(crate) fn newest<'a>(present: &[&'a Instance], provider: &dyn PackageProvider) -> Option<&'a str> {
    present.iter().map(|instance| instance.version.as_str()).max_by(|a, b| provider.compare(a, b))
}

/// Returns the installed version of a package, the newest one if there are several. It is empty if the mock manager has none.
pub(crate) fn installed_version<'a>(
    installed: &'a Installed,
    key: &Key,
    provider: &dyn PackageProvider,
) -> Option<&'a str> {
    let mut present = installed.present(key);
    present.retain(|instance| instance.is_complete());
    newest(&present, provider)
}
