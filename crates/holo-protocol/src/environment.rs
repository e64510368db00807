//! The names of the variables that a plugin is given, and the versions of the interface.

use bstr::{BString, ByteSlice};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The version that every plugin of the original Holo 3 speaks: one process an operation.
pub const API_VERSION_3: u32 = 3;
/// The superset of version 3: sessions and honest results. All of it is optional.
pub const API_VERSION_4: u32 = 4;

/// The version chosen for this plugin: the highest that both sides know.
pub const API_VERSION: &str = "HOLO_API_VERSION";
/// Where a plugin may keep what only this run needs; removed when the run ends.
pub const CACHE_DIR: &str = "HOLO_CACHE_DIR";
/// The file in [`CACHE_DIR`] that a plugin holds a lock on, as `flock(2)` makes them, while it does what must not be cut off.
pub const UNINTERRUPTED: &str = "uninterrupted";
/// Where a plugin's resource files lie.
pub const RESOURCE_DIR: &str = "HOLO_RESOURCE_DIR";
/// Where a plugin keeps what later runs need.
pub const STATE_DIR: &str = "HOLO_STATE_DIR";
/// The root of the system that is managed; anything but `/` means test mode.
pub const ROOT_DIR: &str = "HOLO_ROOT_DIR";

/// `1` if the entity that is applied is to be refreshed: something that it depends on has changed.
pub const REFRESH: &str = "HOLO_REFRESH";
/// What the entities whose change has the applied one refreshed have sent to it: lines `KEY=VALUE`.
pub const RECEIVED: &str = "HOLO_RECEIVED";
/// `1` if nothing may be taken as known from an earlier run: everything is to be read.
pub const VERIFY: &str = "HOLO_VERIFY";
/// `1` if a person reads what a plugin prints to stderr, so that lines `>> …` may say what to do about an error.
pub const HINTS: &str = "HOLO_HINTS";
/// How many entities a plugin may work on at a time, a positive integer. Version 4.
pub const JOBS: &str = "HOLO_JOBS";
/// The file in which the facts of this run are, or are to be put by who first asks for them. Version 4, and generators.
pub const FACTS: &str = "HOLO_FACTS";

/// Where a generator writes the resource files that it makes.
pub const GENERATOR_OUT: &str = "OUT";
/// Where a generator finds the static resource files of all plugins.
pub const GENERATOR_RESOURCE_ROOT: &str = "HOLO_RESOURCE_ROOT";

/// The descriptor on which a plugin answers during `apply`, `force-apply`, `diff` and `session`.
pub const MESSAGE_FD: i32 = 3;

/// What [`RECEIVED`] is for these values.
#[must_use]
pub fn join_received(values: &[BString]) -> OsString {
    OsString::from_vec(values.iter().flat_map(|value| [&value[..], b"\n"]).collect::<Vec<_>>().concat())
}

/// The values that [`RECEIVED`] has.
#[must_use]
pub fn split_received(variable: &OsStr) -> Vec<BString> {
    variable.as_bytes().lines().map(BString::from).collect()
}
