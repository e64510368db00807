//! The difference between a package and its desired state.

use crate::model::{Installed, Instance, Key, Kind, Mark, Status};
use crate::pattern::VersionPattern;
use crate::provider::PackageProvider;
use crate::wanted::{Ensure, Wanted};

/// The actions that a package needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) main: Option<Main>,
    pub(crate) marks: Vec<Mark>,
}

/// The main thing that has to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Main {
    /// Some version has to come.
    Install,
    /// One of these versions has to come.
    Version(VersionPattern),
    /// The package has to go.
    Gone(Kind),
}

impl Need {
    /// Compares what there is with what is wanted. The candidate only matters if the latest version is wanted.
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
                // A version that is newer than all that are offered stays.
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

/// The marks that are missing. What is not there yet gets them after it was installed.
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
    // That a hold cannot be had is said before; who wants a package needs no mark where there is none.
    marks.retain(|mark| provider.marks().contains(mark));
    marks
}

/// The newest version among instances.
pub(crate) fn newest<'a>(present: &[&'a Instance], provider: &dyn PackageProvider) -> Option<&'a str> {
    present.iter().map(|instance| instance.version.as_str()).max_by(|a, b| provider.compare(a, b))
}

/// Returns the version in which a package is installed, the newest one if there are several; empty if a stand-in has none.
pub(crate) fn installed_version<'a>(
    installed: &'a Installed,
    key: &Key,
    provider: &dyn PackageProvider,
) -> Option<&'a str> {
    let mut present = installed.present(key);
    present.retain(|instance| instance.is_complete());
    newest(&present, provider)
}
