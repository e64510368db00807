//! The states of units, independent of their manager.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// The phase of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is running, listening, waiting or mounted: its normal operation.
    Up,
    /// It is being started.
    Coming,
    /// It is being stopped.
    Going,
    /// It is not running.
    Down,
    /// It is not running, although it was not stopped.
    Failed,
    /// It has failed, and will be restarted.
    Restarting,
}

/// The result of loading a unit's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Loaded,
    Missing,
    /// The user of the unit does not exist.
    NoUser,
    Masked,
    Broken,
}

/// The enablement of a unit, which determines whether it is started at boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enablement {
    Enabled,
    /// Until the next boot.
    EnabledForNow,
    /// For all users, and therefore also for one who has not enabled it.
    EnabledForAll,
    Disabled,
    /// Its file is elsewhere and linked by a symlink, which disabling it would remove.
    Linked,
    Masked,
    /// Until the next boot.
    MaskedForNow,
    /// It can neither be enabled nor disabled, for this reason.
    Never(&'static str),
    /// There is no file, and therefore no enablement.
    None,
}

/// The aspects of a unit's state that must be known, in addition to its phase and existence. A manager may omit others
/// that are expensive, which [`UnitState::is_brief`] indicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Aspects {
    /// Whether it is enabled or masked.
    pub(crate) enablement: bool,
    /// Whether it can reload its configuration.
    pub(crate) reloading: bool,
    /// How it starts, even if it is already running.
    pub(crate) starting: bool,
    /// When it was last started.
    pub(crate) time: bool,
    /// Whether its files are valid, even if they are not loaded yet. Starting it would show it too.
    pub(crate) loading: bool,
}

/// The state of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnitState {
    /// Its phase, if it can be determined.
    pub(crate) phase: Option<Phase>,
    pub(crate) load: Load,
    /// The reason why its files are invalid; empty if they are valid.
    pub(crate) load_error: String,
    pub(crate) enablement: Enablement,
    /// The runlevels in which it is enabled, if the manager has them.
    pub(crate) runlevels: BTreeSet<String>,
    /// True if it is down because it has run to completion, as intended.
    pub(crate) has_run: bool,
    /// True if it runs to completion and is then down.
    pub(crate) comes_to_an_end: bool,
    /// The time at which it was last started, in seconds since the epoch, if it was and the manager tells.
    pub(crate) begun: Option<i64>,
    /// True if it counts as started before it can have failed.
    pub(crate) starts_unseen: bool,
    /// True if its files have changed since they were loaded.
    pub(crate) is_outdated: bool,
    pub(crate) can_reload: bool,
    /// The file that prevents it from being masked, if any.
    pub(crate) mask_obstacle: Option<PathBuf>,
    /// True if only the requested [aspects](Aspects) are known.
    pub(crate) is_brief: bool,
    /// True if it does not exist, but is assumed to result from a command that was only printed.
    pub(crate) is_imagined: bool,
    /// The provider's words.
    pub(crate) words: String,
}

impl Default for UnitState {
    /// Returns the state of a unit that does not exist.
    fn default() -> Self {
        UnitState {
            phase: None,
            load: Load::Missing,
            load_error: String::new(),
            enablement: Enablement::None,
            runlevels: BTreeSet::new(),
            has_run: false,
            comes_to_an_end: false,
            begun: None,
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
    /// Returns true if it was started after a change, given in seconds since the epoch and rounded down. A second is left for clocks that
    /// are set in small steps.
    pub(crate) fn was_started_after(&self, change: Option<i64>) -> bool {
        self.begun.zip(change).is_some_and(|(begun, change)| begun > change + 1)
    }

    /// Returns true if both states are the same with regard to running and files.
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
    /// Returns true if it is running, or will be without further action.
    pub(crate) fn is_up(self) -> bool {
        matches!(self, Phase::Up | Phase::Coming)
    }

    /// Returns true if it is not running, and will not be.
    pub(crate) fn is_down(self) -> bool {
        matches!(self, Phase::Down | Phase::Failed)
    }
}

impl Enablement {
    /// Returns the reason why it can never be enabled, if it cannot.
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
