//! The service managers of a host. There is one so far; another would be a file beside it that ranks itself for the host.

pub(crate) mod systemd;

pub(crate) use systemd::files::{FOLDER, main_name};
pub(crate) use systemd::state;

use crate::plan::Step;
use crate::record::Record;
use crate::unit::UnitName;
use holo_plugin::Host;
use state::{Enablement, Load, Phase};
use std::collections::BTreeSet;
use std::time::Duration;

/// The names that a definition's `provider` may have.
pub(crate) const NAMES: [&str; 1] = [systemd::NAME];

/// The state of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnitState {
    /// Its phase, if that can be told.
    pub(crate) phase: Option<Phase>,
    pub(crate) load: Load,
    /// The reason why its files are of no use, if they are not.
    pub(crate) load_error: String,
    pub(crate) enablement: Enablement,
    /// True if it is down because it came to a good end, as it is meant to.
    pub(crate) has_run: bool,
    /// True if it is meant to come to an end, and is down then.
    pub(crate) comes_to_an_end: bool,
    /// True if it counts as started before anything can have gone wrong.
    pub(crate) starts_unseen: bool,
    /// True if its files have changed since they were read.
    pub(crate) is_outdated: bool,
    pub(crate) can_reload: bool,
    /// True if it does not exist, and is assumed to come from a command that was only printed.
    pub(crate) is_imagined: bool,
    /// In the provider's words: `failed (failed), exit-code 3`.
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
            has_run: false,
            comes_to_an_end: false,
            starts_unseen: false,
            is_outdated: false,
            can_reload: false,
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
            && (self.load, self.enablement, self.has_run) == (other.load, other.enablement, other.has_run)
            && self.is_outdated == other.is_outdated
    }
}

/// A unit of which the state is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) unit: &'a UnitName,
    pub(crate) record: &'a Record,
}

/// A unit to which something is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) unit: &'a UnitName,
    pub(crate) state: &'a UnitState,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// It was done, as far as anybody said.
    Really,
    /// It was not done, as this is not the real system; what would have been run.
    Mocked(String),
    /// It failed, for this reason; the first line reads after "cannot start X: ".
    Failed(Vec<String>),
}

/// Rules the units of a host.
pub(crate) trait Manager {
    /// The states of all these units, in their order; what is wrong with one is its own.
    ///
    /// # Errors
    /// If nothing can be told of any.
    fn states(&self, subjects: &[Subject<'_>]) -> Result<Vec<Result<UnitState, String>>, String>;

    /// The names of files and directories of any units that have changed since they were read.
    ///
    /// # Errors
    /// If it cannot be told.
    fn unread_files(&self) -> Result<BTreeSet<String>, String> {
        Ok(BTreeSet::new())
    }

    /// Reads all files of units again.
    ///
    /// # Errors
    /// If that fails.
    fn read_files(&self) -> Result<(), String>;

    /// Does one thing to all these units, and says what became of each.
    fn act(&self, step: Step, tasks: &[Task<'_>], timeout: Option<Duration>) -> Vec<Done>;

    /// Returns the last lines that a unit has logged.
    fn last_words(&self, unit: &UnitName) -> Vec<String>;

    /// Returns the ID of the present boot.
    fn boot(&self) -> Option<String>;
}

/// Returns true if a service manager runs on this host that caches the files of units.
pub(crate) fn keeps_files_in_mind(host: &Host) -> bool {
    systemd::is_live(host)
}

/// Returns the service manager of this host.
pub(crate) fn manager(host: &Host) -> Box<dyn Manager> {
    systemd::manager(host)
}
