//! The interface to a service manager, and the kinds of service managers, one per file.

mod openrc;
mod systemd;

use crate::plan::{Step, Wanted};
use crate::record::Record;
use crate::state::{Aspects, UnitState};
use crate::unit::{Scope, UnitName, UnitNameError};
use holo_change::PathError;
use holo_plugin::process::ProgramError;
use holo_plugin::provider::{Provider, Providers};
use holo_plugin::system::Root;
use holo_plugin::{Asset, Edges, Host};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// All kinds of service managers.
pub(crate) static ALL: Providers<dyn ServiceProvider> = Providers::new(&[&systemd::Systemd, &openrc::OpenRc]);

/// Returns the one for a host.
pub(crate) fn for_host(host: &Host) -> &'static dyn ServiceProvider {
    ALL.best(host).unwrap_or(&systemd::Systemd)
}

/// Checks that a unit name is valid.
///
/// # Errors
/// If it is invalid for all service managers.
pub(crate) fn check_name(name: &str) -> Result<(), UnitNameError> {
    let mut complaint = Ok(());
    for result in ALL.iter().map(|provider| provider.unit_name(name)) {
        match result {
            Ok(_) => return Ok(()),
            Err(error) => complaint = complaint.and(Err(error)),
        }
    }
    complaint
}

/// Represents a directory of units itself, from which a file may have been removed.
pub(crate) const FOLDER: &str = "";

/// The PID of a process that a command would have started in test mode.
const PID_IN_TEST_MODE: u32 = 999;

/// Symlinks by their paths below the root, with their targets.
pub(crate) type Links = BTreeMap<PathBuf, PathBuf>;

/// A kind of service manager: its naming of units, and their files.
pub(crate) trait ServiceProvider: Provider {
    /// Returns true if users have their own services.
    fn has_users(&self) -> bool;

    /// Completes the name of a unit in a definition.
    ///
    /// # Errors
    /// If the name is invalid.
    fn unit_name(&self, name: &str) -> Result<UnitName, UnitNameError>;

    /// Returns the shortest name of a unit that is valid in definitions.
    fn short_name<'a>(&self, name: &'a UnitName) -> &'a str {
        name.as_str()
    }

    /// Returns the main name of a unit: the target of an alias, or the name itself.
    fn main_name(&self, root: &Root, name: &UnitName) -> UnitName;

    /// Returns the units that are enabled and disabled together with a unit, directly or indirectly.
    fn also(&self, root: &Root, name: &UnitName) -> Vec<UnitName>;

    /// Returns the symlinks that enable a unit.
    fn links(&self, root: &Root, name: &UnitName) -> Links;

    /// Creates and removes symlinks until exactly these enable a unit. Returns true if any were changed.
    ///
    /// # Errors
    /// If a symlink cannot be created or removed.
    fn relink(&self, root: &Root, name: &UnitName, links: &Links) -> io::Result<bool>;

    /// Returns the names of the files and directories that affect a unit of the system, in the form of
    /// [`Manager::unread_files`].
    fn file_names(&self, name: &UnitName) -> Vec<String>;

    /// Returns a key of the definition that this manager does not support, and the reason.
    fn unsupported(&self, scope: &Scope, wanted: &Wanted) -> Option<(&'static str, &'static str)>;

    /// Adds the assets that a unit needs, and the files to watch. `given` is its name in the definition.
    fn add_edges(&self, root: &Root, name: &UnitName, given: &UnitName, edges: &mut Edges);

    /// Returns the users and groups as which units run, as far as their files tell, by the keys of their names.
    fn accounts(&self, _root: &Root, _names: &BTreeMap<String, UnitName>) -> BTreeMap<String, Vec<Asset>> {
        BTreeMap::new()
    }

    /// Returns the ID of the step that reloads units' files, if the manager runs on this host and caches them.
    fn reading_files(&self, host: &Host) -> Option<&'static str>;

    /// Lists the units of a host that users may want to adopt, ordered by name.
    ///
    /// # Errors
    /// If they cannot be listed.
    fn noticed(&self, host: &Host) -> Result<Vec<Noticed>, ManagerError>;

    /// Reports events of a host's units as long as `hear` returns true; blocks forever if there can be no events.
    ///
    /// # Errors
    /// If events cannot be received any more.
    fn listen(&self, host: &Host, hear: &mut dyn FnMut(UnitEvent<'_>) -> bool) -> Result<(), ManagerError>;

    /// Returns the programs that it needs.
    fn programs(&self) -> &'static [&'static str];

    /// Returns the command that reloads units' files.
    fn how_to_read_files(&self) -> &'static str;

    /// Returns the manager of a host's units.
    fn manager(&self, host: &Host) -> Box<dyn Manager>;
}

/// An event of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnitEvent<'a> {
    /// All events are reported from now on.
    Listening,
    /// The unit with this main name has changed its state.
    State { unit: &'a str, words: &'a str },
    /// Any unit may be affected.
    Any { words: &'a str },
}

/// A unit whose state is queried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) unit: &'a UnitName,
    pub(crate) record: &'a Record,
    pub(crate) aspects: Aspects,
}

/// A unit for which a step is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) unit: &'a UnitName,
    pub(crate) state: &'a UnitState,
    pub(crate) wanted: &'a Wanted,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// The manager reported success.
    Really,
    /// Not done because of test mode; contains the command that would have been run.
    Mocked(String),
    /// Failed for this reason; the first line is worded to follow "cannot start X: ".
    Failed(Vec<String>),
}

/// An error of a service manager.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ManagerError {
    /// The message of its tool or of the system.
    #[error("{0}")]
    Failed(String),
    /// An unknown state of a newer manager.
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

/// What the start or stop of a unit does to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// Only one of them can run.
    Conflicts,
    /// It is started with the other one.
    Requires,
    /// The other one stops with it, and cannot be started without it.
    RequiredBy,
    /// The other one stops with it.
    HasPart,
}

/// The units to which units are related, both by main name and the latter by qualified name.
pub(crate) type Relations = BTreeMap<String, Vec<(Relation, String)>>;

/// Manages a host's units.
pub(crate) trait Manager {
    /// Returns the states of these units in order, or an error for each.
    ///
    /// # Errors
    /// If no states can be determined.
    fn states(&self, subjects: &[Subject<'_>]) -> Result<Vec<Result<UnitState, ManagerError>>, ManagerError>;

    /// Returns the names of files and directories of the system's units that have changed since they were loaded.
    ///
    /// # Errors
    /// If they cannot be determined.
    fn unread_files(&self) -> Result<BTreeSet<String>, ManagerError> {
        Ok(BTreeSet::new())
    }

    /// Makes a manager reload all files of its units.
    ///
    /// # Errors
    /// If that fails.
    fn read_files(&self, scope: &Scope) -> Result<(), ManagerError>;

    /// Does a step for all these units, and returns the result of each.
    fn act(&self, step: Step, tasks: &[Task<'_>], timeout: Option<Duration>) -> Vec<Done>;

    /// Returns the last lines of a unit's log.
    fn last_words(&self, unit: &UnitName) -> Vec<String>;

    /// Returns the PID of a unit's main process, if any. Never cached: an earlier process may have ended since.
    fn main_pid(&self, unit: &UnitName) -> Option<u32>;

    /// Returns the ID of the current boot.
    fn boot(&self) -> Option<String>;

    /// Returns which units the start or stop of these affects. Empty if that is unknown.
    fn relations(&self, _: &[&UnitName]) -> Relations {
        Relations::new()
    }
}

/// A unit that a user may want to keep in its current state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noticed {
    pub(crate) unit: UnitName,
    pub(crate) notice: Notice,
    /// Its unit file, as an absolute path below the root.
    pub(crate) file: Option<PathBuf>,
}

/// The reason why a unit may be adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// It was enabled manually.
    Enabled,
    /// It is enabled by default.
    EnabledAsUsual,
    /// It was disabled manually.
    Disabled,
    /// It was masked manually.
    Masked,
}

impl Notice {
    /// Returns the reason shown for a candidate.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Notice::Enabled => "enabled by hand",
            Notice::EnabledAsUsual => "enabled, as its package has it",
            Notice::Disabled => "disabled by hand",
            Notice::Masked => "masked by hand",
        }
    }
}
