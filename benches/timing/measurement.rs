//! What is known of one run of a program.

use serde::{Deserialize, Serialize};

/// The cost of a run, with everything that it has started and waited for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    /// From its start to its end, in seconds.
    pub(crate) wall: f64,
    /// The processor time of user and kernel, in seconds.
    pub(crate) cpu: f64,
    /// The resident set of its largest process, in kilobytes.
    pub(crate) memory: i64,
    /// The blocks that it has written to files or their directories, in KiB.
    #[serde(default)]
    pub(crate) written: i64,
}

/// The system calls of a run, by name.
pub(crate) type Calls = std::collections::BTreeMap<String, u64>;
