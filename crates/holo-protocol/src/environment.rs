//! The names of the variables that a plugin is given, and the versions of the interface.

use bstr::{BStr, BString, ByteSlice};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The version that every plugin of the original Holo 3 speaks: one process an operation.
pub const API_VERSION_3: u32 = 3;
/// The superset of version 3: sessions and honest results. All of it is optional.
pub const API_VERSION_4: u32 = 4;

/// The version chosen for this plugin: the highest that both sides know.
pub const API_VERSION: &str = "HOLO_API_VERSION";
/// The directory in which a plugin may keep data that only this run needs; removed when the run ends.
pub const CACHE_DIR: &str = "HOLO_CACHE_DIR";
/// The file in [`CACHE_DIR`] that a plugin holds a lock on, as `flock(2)` makes them, while it does what must not be cut off.
pub const UNINTERRUPTED: &str = "uninterrupted";
/// The directory of a plugin's resource files.
pub const RESOURCE_DIR: &str = "HOLO_RESOURCE_DIR";
/// All directories of a plugin's resource files, the strongest first, separated by colons. Version 4.
pub const RESOURCE_DIRS: &str = "HOLO_RESOURCE_DIRS";
/// The directory in which a plugin keeps data that later runs need.
pub const STATE_DIR: &str = "HOLO_STATE_DIR";
/// The root of the system that is managed; anything but `/` means test mode.
pub const ROOT_DIR: &str = "HOLO_ROOT_DIR";

/// `1` if the entity that is applied is to be refreshed: something that it depends on has changed.
pub const REFRESH: &str = "HOLO_REFRESH";
/// The values that were sent to the entity by those whose change has it refreshed: lines `KEY=VALUE`.
pub const RECEIVED: &str = "HOLO_RECEIVED";
/// The names of the values that others receive from the entity, separated by newlines. Version 4.
pub const WANTED: &str = "HOLO_WANTED";
/// The file with the values that entities have sent, as lines of JSON; there is none if nothing was sent. Version 4.
pub const VALUES: &str = "HOLO_VALUES";
/// `1` if nothing may be taken as known from an earlier run: everything is to be read.
pub const VERIFY: &str = "HOLO_VERIFY";
/// `1` if the run only reads, so that nothing may be written but in [`CACHE_DIR`]; `0` if it applies.
pub const READ_ONLY: &str = "HOLO_READ_ONLY";
/// `1` if a plugin that replaces files should keep what they were, for the record of the run. Version 4, of an apply.
pub const KEEP_REPLACED: &str = "HOLO_KEEP_REPLACED";
/// `1` if a person reads what a plugin prints to stderr, so that lines `>> …` may say what to do about an error.
pub const HINTS: &str = "HOLO_HINTS";
/// `0` if nobody is shown what a person has changed in an entity, so that its difference need not be made by a check or an apply. Version 4.
pub const DIFFERENCES: &str = "HOLO_DIFFERENCES";
/// The number of entities a plugin may work on at a time, a positive integer. Version 4.
pub const JOBS: &str = "HOLO_JOBS";
/// The file with the facts of this run, written by the first process that needs them. Version 4, and generators.
pub const FACTS: &str = "HOLO_FACTS";
/// The empty directory into which a plugin that adopts something writes resource files. Version 4.
pub const ADOPT_DIR: &str = "HOLO_ADOPT_DIR";
/// The file in which a person has resolved a conflict that the plugin has named before. Version 4.
pub const ADOPT_RESOLVED: &str = "HOLO_ADOPT_RESOLVED";
/// The IDs of what is adopted in the same group, separated by newlines. Version 4.
pub const ADOPT_WITH: &str = "HOLO_ADOPT_WITH";

/// The file with the values that entities have said are to be kept, for a run that brings the system back: lines of [`kept_line`]. Version 4.
pub const KEPT: &str = "HOLO_KEPT";

/// The directory below which data and the machine's own facts are looked for, if that is not the root: the inputs of an earlier run, to
/// which the system is brought back. Version 4.
pub const INPUTS_DIR: &str = "HOLO_INPUTS_DIR";

/// The directory into which a generator writes the resource files that it makes.
pub const GENERATOR_OUT: &str = "OUT";
/// The directory in which a generator finds the static resource files of all plugins.
pub const GENERATOR_RESOURCE_ROOT: &str = "HOLO_RESOURCE_ROOT";

/// The variables that are of use to plugins alone, and not to the programs that they call.
pub const OF_PLUGINS: [&str; 19] = [
    API_VERSION,
    CACHE_DIR,
    RESOURCE_DIR,
    RESOURCE_DIRS,
    STATE_DIR,
    VERIFY,
    READ_ONLY,
    HINTS,
    DIFFERENCES,
    JOBS,
    FACTS,
    ADOPT_DIR,
    ADOPT_RESOLVED,
    ADOPT_WITH,
    WANTED,
    VALUES,
    KEEP_REPLACED,
    KEPT,
    INPUTS_DIR,
];
/// The descriptor on which a plugin answers during `apply`, `force-apply`, `diff` and `session`.
pub const MESSAGE_FD: i32 = 3;

/// Returns the value of [`RESOURCE_DIRS`] for these directories: an empty one if the path of one cannot stand there, as it has a colon.
#[must_use]
pub fn join_directories<'a>(directories: impl Iterator<Item = &'a Path>) -> OsString {
    let directories: Vec<&[u8]> = directories.map(|path| path.as_os_str().as_bytes()).collect();
    let has_colon = directories.iter().any(|directory| directory.contains(&b':'));
    if has_colon { OsString::new() } else { OsString::from_vec(directories.join(&b':')) }
}

/// Returns the directories that [`RESOURCE_DIRS`] has.
#[must_use]
pub fn split_directories(variable: &OsStr) -> Vec<PathBuf> {
    let directories = variable.as_bytes().split_str(":").filter(|directory| !directory.is_empty());
    directories.map(|directory| OsStr::from_bytes(directory).into()).collect()
}

/// The time of a value in the file that [`KEPT`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeptAt {
    /// The state that the system is brought back to.
    Then,
    /// The last time that the entity said so.
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

/// Returns a line of the file that [`KEPT`] names: when it was so, the ID of the entity, and `KEY=VALUE`, with tabs between them.
#[must_use]
pub fn kept_line(at: KeptAt, id: &BStr, value: &BStr) -> BString {
    let fields: [&[u8]; 3] = [at.word(), id, value];
    [fields.join(&b'\t'), b"\n".to_vec()].concat().into()
}

/// Returns what a line of the file that [`KEPT`] names says; nothing if it is not such a line.
#[must_use]
pub fn parse_kept(line: &[u8]) -> Option<(KeptAt, &BStr, &BStr)> {
    let mut fields = line.splitn_str(3, "\t");
    let (word, id, value) = (fields.next()?, fields.next()?, fields.next()?);
    let at = [KeptAt::Then, KeptAt::Last].into_iter().find(|at| at.word() == word)?;
    Some((at, id.as_bstr(), value.as_bstr()))
}

/// Returns the value of [`RECEIVED`] for these values, but for those of several lines.
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

/// Returns the values that [`RECEIVED`] has.
#[must_use]
pub fn split_received(variable: &OsStr) -> Vec<BString> {
    variable.as_bytes().lines().map(BString::from).collect()
}
