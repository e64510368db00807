//! The states that a unit can be in, whatever manages it.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// The phase of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It runs, listens, waits, is mounted: it does what it is for.
    Up,
    /// It is being started.
    Coming,
    /// It is being stopped.
    Going,
    /// It does not run.
    Down,
    /// It does not run, and not because it was asked to end.
    Failed,
    /// It has failed, and will be tried again.
    Restarting,
}

/// The result of reading a unit's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Loaded,
    Missing,
    /// Nobody has the name of the user whose unit it is.
    NoUser,
    Masked,
    Broken,
}

/// The enablement of a unit: the way in which it is started at boot, if it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enablement {
    Enabled,
    /// Until the next boot.
    EnabledForNow,
    /// For all users, and so for one who has not enabled it.
    EnabledForAll,
    Disabled,
    /// Its file is elsewhere, and a symlink leads there, which disabling it would remove.
    Linked,
    Masked,
    /// Until the next boot.
    MaskedForNow,
    /// It can neither be enabled nor disabled; the reason.
    Never(&'static str),
    /// No file, no enablement.
    None,
}

/// The aspects of a unit that have to be known, beside its phase and whether there is such a unit. A manager may leave out what costs more than
/// these, and says so by [`UnitState::is_brief`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Aspects {
    /// The way in which it is enabled or masked.
    pub(crate) enablement: bool,
    /// Its ability to read its configuration again.
    pub(crate) reloading: bool,
    /// How it starts, although it may run already.
    pub(crate) starting: bool,
    /// The use of its files, although nothing has read them yet. Starting it would tell.
    pub(crate) loading: bool,
}

/// The state of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnitState {
    /// Its phase, if that can be told.
    pub(crate) phase: Option<Phase>,
    pub(crate) load: Load,
    /// The reason why its files are of no use, if they are not.
    pub(crate) load_error: String,
    pub(crate) enablement: Enablement,
    /// The runlevels in which it is enabled, where there are such.
    pub(crate) runlevels: BTreeSet<String>,
    /// True if it is down because it came to a good end, as it is meant to.
    pub(crate) has_run: bool,
    /// True if it is meant to come to an end, and is down then.
    pub(crate) comes_to_an_end: bool,
    /// True if it counts as started before anything can have gone wrong.
    pub(crate) starts_unseen: bool,
    /// True if its files have changed since they were read.
    pub(crate) is_outdated: bool,
    pub(crate) can_reload: bool,
    /// The file that keeps it from being masked, if there is one.
    pub(crate) mask_obstacle: Option<PathBuf>,
    /// True if only those [aspects](Aspects) are known that were asked for.
    pub(crate) is_brief: bool,
    /// True if it does not exist, and is assumed to come from a command that was only printed.
    pub(crate) is_imagined: bool,
    /// In the provider's words.
    pub(crate) words: String,
}

impl Default for UnitState {
    /// A unit that there is nothing of.
    fn default() -> Self {
        UnitState {
            phase: None,
            load: Load::Missing,
            load_error: String::new(),
            enablement: Enablement::None,
            runlevels: BTreeSet::new(),
            has_run: false,
            comes_to_an_end: false,
            starts_unseen: false,
            is_outdated: false,
            can_reload: false,
            mask_obstacle: None,
            is_brief: false,
            is_imagined: false,
            words: String::new(),
        }
    }
}

impl UnitState {
    /// Returns true if a unit that is so runs as much, and has the same files, as in another state.
    pub(crate) fn is_like(&self, other: &UnitState) -> bool {
        let runs = |state: &UnitState| state.phase.map(|phase| (phase.is_up(), phase.is_down()));
        runs(self) == runs(other)
            && (self.load, self.has_run) == (other.load, other.has_run)
            && (self.enablement == other.enablement || self.is_brief || other.is_brief)
            && (self.runlevels == other.runlevels || self.is_brief || other.is_brief)
            && self.is_outdated == other.is_outdated
    }
}

impl Phase {
    /// Returns true if it runs, or will without further action.
    pub(crate) fn is_up(self) -> bool {
        matches!(self, Phase::Up | Phase::Coming)
    }

    /// Returns true if nothing of it runs, and nothing will.
    pub(crate) fn is_down(self) -> bool {
        matches!(self, Phase::Down | Phase::Failed)
    }
}

impl Enablement {
    /// Returns the reason why it can never be enabled, if there is one.
    pub(crate) fn why_never(self) -> Option<&'static str> {
        match self {
            Enablement::Never(why) => Some(why),
            Enablement::None => Some("has no file"),
            _ => None,
        }
    }

    pub(crate) fn is_masked(self) -> bool {
        matches!(self, Enablement::Masked | Enablement::MaskedForNow)
    }
}
