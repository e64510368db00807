//! Environment variables of plugins, and the versions of the plugin interface.

use bstr::{BStr, BString, ByteSlice};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The version that every plugin of the original Holo 3 supports: one process per operation.
pub const API_VERSION_3: u32 = 3;
/// The superset of version 3: sessions and precise results. All of it is optional.
pub const API_VERSION_4: u32 = 4;

/// The version to use: the highest that both sides support.
pub const API_VERSION: &str = "HOLO_API_VERSION";
/// A directory for data that only this run needs; it is removed when the run ends.
pub const CACHE_DIR: &str = "HOLO_CACHE_DIR";
/// The file in [`CACHE_DIR`] that a plugin locks with `flock(2)` while it must not be interrupted.
pub const UNINTERRUPTED: &str = "uninterrupted";
/// The directory of a plugin's resource files.
pub const RESOURCE_DIR: &str = "HOLO_RESOURCE_DIR";
/// All directories of a plugin's resource files in order of precedence, highest first, separated by colons. Version 4.
pub const RESOURCE_DIRS: &str = "HOLO_RESOURCE_DIRS";
/// A directory for data that later runs need.
pub const STATE_DIR: &str = "HOLO_STATE_DIR";
/// The root of the managed system; any other value than `/` means test mode.
pub const ROOT_DIR: &str = "HOLO_ROOT_DIR";

/// `overwrite` if entities that a person has changed are overwritten, unless their definitions say something else.
pub const ON_EDIT: &str = "HOLO_ON_EDIT";

/// `1` if the entity is being refreshed because an entity that it depends on has changed.
pub const REFRESH: &str = "HOLO_REFRESH";
/// The time from which the refresh has been due, in seconds since the epoch, if it is known.
pub const REFRESH_SINCE: &str = "HOLO_REFRESH_SINCE";
/// The values sent by the entities whose changes cause the refresh: lines `KEY=VALUE`.
pub const RECEIVED: &str = "HOLO_RECEIVED";
/// The names of the values that other entities receive from this one, separated by newlines. Version 4.
pub const WANTED: &str = "HOLO_WANTED";
/// The file with the values that entities have sent, as JSON Lines; it does not exist if no values were sent. Version
/// 4.
pub const VALUES: &str = "HOLO_VALUES";
/// `1` if caches of earlier runs must be ignored and all state read again.
pub const VERIFY: &str = "HOLO_VERIFY";
/// `1` if the run is read-only, so that plugins may write only to [`CACHE_DIR`]; `0` if it applies entities.
pub const READ_ONLY: &str = "HOLO_READ_ONLY";
/// `1` if a plugin that replaces files should keep their old contents for the run's record. Version 4, for apply only.
pub const KEEP_REPLACED: &str = "HOLO_KEEP_REPLACED";
/// `1` if a person reads the plugin's stderr, so that lines `>> …` may suggest remedies for errors.
pub const HINTS: &str = "HOLO_HINTS";
/// `0` if diffs of manual changes are not shown, so that a check or an apply need not make them. Version 4.
pub const DIFFERENCES: &str = "HOLO_DIFFERENCES";
/// The maximum number of entities that a plugin may work on concurrently, a positive integer. Version 4.
pub const JOBS: &str = "HOLO_JOBS";
/// The file with the facts of this run, written by the first process that needs them. Version 4, and generators.
pub const FACTS: &str = "HOLO_FACTS";
/// The empty directory to which an adopting plugin writes resource files. Version 4.
pub const ADOPT_DIR: &str = "HOLO_ADOPT_DIR";
/// The file in which the user has resolved a conflict that the plugin reported earlier. Version 4.
pub const ADOPT_RESOLVED: &str = "HOLO_ADOPT_RESOLVED";
/// The IDs of the entities adopted in the same group, separated by newlines. Version 4.
pub const ADOPT_WITH: &str = "HOLO_ADOPT_WITH";
/// The directories that are searched in addition for candidates, separated by newlines. Version 4.
pub const ADOPT_INCLUDE: &str = "HOLO_ADOPT_INCLUDE";

/// The file with the values that entities asked to keep, for a run that restores the system: lines of [`kept_line`].
/// Version 4.
pub const KEPT: &str = "HOLO_KEPT";

/// The directory that replaces the root when data and the machine's own facts are looked up: the inputs of the earlier
/// run to which the system is restored. Version 4.
pub const INPUTS_DIR: &str = "HOLO_INPUTS_DIR";

/// The directory to which a generator writes resource files.
pub const GENERATOR_OUT: &str = "OUT";
/// The directory with the static resource files of all plugins, for generators.
pub const GENERATOR_RESOURCE_ROOT: &str = "HOLO_RESOURCE_ROOT";

/// Variables for plugins only, not for the programs that they run.
pub const OF_PLUGINS: [&str; 21] = [
    API_VERSION,
    CACHE_DIR,
    RESOURCE_DIR,
    RESOURCE_DIRS,
    STATE_DIR,
    VERIFY,
    READ_ONLY,
    HINTS,
    ON_EDIT,
    DIFFERENCES,
    JOBS,
    FACTS,
    ADOPT_DIR,
    ADOPT_RESOLVED,
    ADOPT_WITH,
    ADOPT_INCLUDE,
    WANTED,
    VALUES,
    KEEP_REPLACED,
    KEPT,
    INPUTS_DIR,
];
/// The file descriptor on which a plugin answers during `apply`, `force-apply`, `diff` and `session`.
pub const MESSAGE_FD: i32 = 3;

/// Returns the value of [`RESOURCE_DIRS`] for these directories. It is empty if any path contains a colon, which the
/// list cannot express.
#[must_use]
pub fn join_directories<'a>(directories: impl Iterator<Item = &'a Path>) -> OsString {
    let directories: Vec<&[u8]> = directories.map(|path| path.as_os_str().as_bytes()).collect();
    let has_colon = directories.iter().any(|directory| directory.contains(&b':'));
    if has_colon { OsString::new() } else { OsString::from_vec(directories.join(&b':')) }
}

/// Returns the directories in the value of [`RESOURCE_DIRS`].
#[must_use]
pub fn split_directories(variable: &OsStr) -> Vec<PathBuf> {
    let directories = variable.as_bytes().split_str(":").filter(|directory| !directory.is_empty());
    directories.map(|directory| OsStr::from_bytes(directory).into()).collect()
}

/// The time of a value in the file named by [`KEPT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeptAt {
    /// The time of the state being restored.
    Then,
    /// The last time that the entity sent the value.
    Last,
}

impl KeptAt {
    fn word(self) -> &'static [u8] {
        match self {
            KeptAt::Then => b"then",
            KeptAt::Last => b"last",
        }
    }
}

/// Returns a line of the file named by [`KEPT`]: time, entity ID and `KEY=VALUE`, separated by tabs.
#[must_use]
pub fn kept_line(at: KeptAt, id: &BStr, value: &BStr) -> BString {
    let fields: [&[u8]; 3] = [at.word(), id, value];
    [fields.join(&b'\t'), b"\n".to_vec()].concat().into()
}

/// Parses a line of the file named by [`KEPT`]. Returns `None` if it has another form.
#[must_use]
pub fn parse_kept(line: &[u8]) -> Option<(KeptAt, &BStr, &BStr)> {
    let mut fields = line.splitn_str(3, "\t");
    let (word, id, value) = (fields.next()?, fields.next()?, fields.next()?);
    let at = [KeptAt::Then, KeptAt::Last].into_iter().find(|at| at.word() == word)?;
    Some((at, id.as_bstr(), value.as_bstr()))
}

/// Returns the value of [`RECEIVED`] for these values, leaving out those with several lines.
#[must_use]
pub fn join_received(values: &[BString]) -> OsString {
    let lines = values.iter().filter(|value| !value.contains(&b'\n'));
    OsString::from_vec(lines.flat_map(|value| [&value[..], b"\n"]).collect::<Vec<_>>().concat())
}

/// Returns the value of [`WANTED`] for these names.
#[must_use]
pub fn join_wanted(names: &[BString]) -> OsString {
    OsString::from_vec(names.join(&b'\n'))
}
