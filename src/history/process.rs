//! The process of a run, with an identification that lets a later run tell whether it is still alive.

use serde::{Deserialize, Serialize};
use std::fs;

/// A unique identification of a process, as process IDs are reused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    /// Its number.
    pub pid: u32,
    /// Its start time, in clock ticks since boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
    /// The boot ID of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
}

impl ProcessMark {
    /// Returns the mark of this process.
    #[must_use]
    pub fn own() -> ProcessMark {
        let pid = std::process::id();
        ProcessMark { pid, started: started(pid), boot: boot() }
    }

    /// Returns true if the process is still running; false if unknown.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.started.is_some() && self.boot == boot() && started(self.pid) == self.started
    }
}

fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

/// Returns the start time of a process: field 22 of `/proc/PID/stat`, whose second field may contain blanks and
/// parentheses.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_mark_distinguishes_processes() {
        let own = ProcessMark::own();
        assert!(own.is_alive());
        assert!(!ProcessMark { started: own.started.map(|ticks| ticks + 1), ..own.clone() }.is_alive());
        assert!(!ProcessMark { boot: Some("another".to_owned()), ..own.clone() }.is_alive());
        assert!(!ProcessMark { pid: u32::MAX, ..own }.is_alive());
        assert!(!ProcessMark::default().is_alive());
    }
}
