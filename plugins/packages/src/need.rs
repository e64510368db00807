//! The difference between a package and its desired state.

use crate::model::{Installed, Instance, Key, Kind, Mark, Status};
use crate::pattern::VersionPattern;
use crate::provider::PackageProvider;
use crate::wanted::{Ensure, Wanted};

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
