//! The interface to a service manager.

use crate::notice::Noticed;
use crate::plan::{Step, Wanted};
use crate::record::Record;
use crate::scope::Scope;
use crate::state::{Aspects, UnitState};
use crate::unit::{UnitName, UnitNameError};
use holo_change::PathError;
use holo_plugin::process::ProgramError;
use holo_plugin::provider::Provider;
use holo_plugin::system::Root;
use holo_plugin::{Edges, Host};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Stands for a directory of units itself, from which something may have been taken away.
pub(crate) const FOLDER: &str = "";

/// The ID of a process that a command would have started, where commands are only printed.
pub(crate) const PID_IN_TEST_MODE: u32 = 999;

/// Symlinks, by their paths below the root, with what each leads to.
pub(crate) type Links = BTreeMap<PathBuf, PathBuf>;

/// A kind of service manager: what its units are called, and the files that they stand in.
pub(crate) trait ServiceProvider: Provider {
    /// Returns true if users have services of their own.
    fn has_users(&self) -> bool;

    /// Completes the name of a unit as people write it.
    ///
    /// # Errors
    /// If it would not take it.
    fn unit_name(&self, name: &str) -> Result<UnitName, UnitNameError>;

    /// Returns the name of a unit as people write it.
    fn short_name<'a>(&self, name: &'a UnitName) -> &'a str {
        name.as_str()
    }

    /// Returns the main name of a unit: what the name is an alias of, or the name itself.
    fn main_name(&self, root: &Root, name: &UnitName) -> UnitName;

    /// Returns the units that are enabled and disabled along with a unit, and those that are so along with these.
    fn also(&self, root: &Root, name: &UnitName) -> Vec<UnitName>;

    /// Returns the symlinks by which a unit is enabled.
    fn links(&self, root: &Root, name: &UnitName) -> Links;

    /// Makes and removes symlinks until a unit is enabled by these alone; returns true if there was anything to do.
    ///
    /// # Errors
    /// If one cannot be made or removed.
    fn relink(&self, root: &Root, name: &UnitName, links: &Links) -> io::Result<bool>;

    /// Returns the names of the files and directories that are about a unit of the system, as [`Manager::unread_files`] has them.
    fn file_names(&self, name: &UnitName) -> Vec<String>;

    /// Returns the key of a definition that it can do nothing about, and the reason.
    fn unsupported(&self, scope: &Scope, wanted: &Wanted) -> Option<(&'static str, &'static str)>;

    /// Adds what a unit needs of others, and the files to look at again when they change. `given` is its name in the definition.
    fn add_edges(&self, root: &Root, name: &UnitName, given: &UnitName, edges: &mut Edges);

    /// Returns the ID of the step that has the files of units read again, if the manager runs on this host and keeps them in mind.
    fn reading_files(&self, host: &Host) -> Option<&'static str>;

    /// Lists the units of a host that a person may want to keep as they are, in the order of their names.
    ///
    /// # Errors
    /// If they cannot be listed.
    fn noticed(&self, host: &Host) -> Result<Vec<Noticed>, ManagerError>;

    /// Says what happens to units of a host as it happens, for as long as `hear` returns true; for ever, if nothing can happen there.
    ///
    /// # Errors
    /// If it cannot be heard of any more.
    fn listen(&self, host: &Host, hear: &mut dyn FnMut(UnitEvent<'_>) -> bool) -> Result<(), ManagerError>;

    /// The programs that it needs.
    fn programs(&self) -> &'static [&'static str];

    /// Returns the command that has the files of units read again.
    fn how_to_read_files(&self) -> &'static str;

    /// Returns what manages the units of a host.
    fn manager(&self, host: &Host) -> Box<dyn Manager>;
}

/// Something that happens to units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnitEvent<'a> {
    /// Nothing is missed from now on.
    Listening,
    /// The unit of this main name has another state.
    State { unit: &'a str, words: &'a str },
    /// Something has happened that may be about any unit.
    Any { words: &'a str },
}

/// A unit of which the state is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) unit: &'a UnitName,
    pub(crate) record: &'a Record,
    pub(crate) aspects: Aspects,
}

/// A unit to which something is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) unit: &'a UnitName,
    pub(crate) state: &'a UnitState,
    pub(crate) wanted: &'a Wanted,
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

/// A reason why a service manager cannot tell or do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ManagerError {
    /// In the words of its tool, or of the system.
    #[error("{0}")]
    Failed(String),
    /// A state that only a newer manager has.
    #[error("{property} {word:?} is unknown to this version of holo")]
    UnknownWord { property: &'static str, word: String },
}

impl From<ProgramError> for ManagerError {
    fn from(error: ProgramError) -> ManagerError {
        ManagerError::Failed(error.to_string())
    }
}

impl From<PathError> for ManagerError {
    fn from(error: PathError) -> ManagerError {
        ManagerError::Failed(error.to_string())
    }
}

/// Manages the units of a host.
pub(crate) trait Manager {
    /// The states of all these units, in their order; what is wrong with one is its own.
    ///
    /// # Errors
    /// If nothing can be told of any.
    fn states(&self, subjects: &[Subject<'_>]) -> Result<Vec<Result<UnitState, ManagerError>>, ManagerError>;

    /// The names of files and directories of any units of the system that have changed since they were read.
    ///
    /// # Errors
    /// If it cannot be told.
    fn unread_files(&self) -> Result<BTreeSet<String>, ManagerError> {
        Ok(BTreeSet::new())
    }

    /// Has a manager read all files of its units again.
    ///
    /// # Errors
    /// If that fails.
    fn read_files(&self, scope: &Scope) -> Result<(), ManagerError>;

    /// Does one thing to all these units, and says what became of each.
    fn act(&self, step: Step, tasks: &[Task<'_>], timeout: Option<Duration>) -> Vec<Done>;

    /// Returns the last lines that a unit has logged.
    fn last_words(&self, unit: &UnitName) -> Vec<String>;

    /// Returns the ID of the main process of a unit, if it has one. Asks anew: what was known may be a process that has ended since.
    fn main_pid(&self, unit: &UnitName) -> Option<u32>;

    /// Returns the ID of the present boot.
    fn boot(&self) -> Option<String>;
}
