//! The measurements of one run of a program.

use serde::{Deserialize, Serialize};

/// The cost of a run, including the child processes that it waited for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    /// The elapsed time, in seconds.
    pub(crate) wall: f64,
    /// The CPU time of user and kernel, in seconds.
    pub(crate) cpu: f64,
    /// The resident set size of its largest process, in kilobytes.
    pub(crate) memory: i64,
    /// The amount of data and metadata written to disk, in KiB.
    #[serde(default)]
    pub(crate) written: i64,
}

/// The number of system calls of a run, by name.
pub(crate) type Calls = std::collections::BTreeMap<String, u64>;
