//! The process of a run, so that it can be told later if it still lives.

use serde::{Deserialize, Serialize};
use std::fs;

/// A process, by what no other one shares with it: its number alone is given to others in time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    /// Its number.
    pub pid: u32,
    /// The time at which it was started, in ticks since the system was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
    /// The ID that the kernel gave to this run of the system.
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

    /// Returns true if the process still runs. What cannot be told is taken for a process that is gone.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.started.is_some() && self.boot == boot() && started(self.pid) == self.started
    }
}

fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

/// Returns the time at which a process was started: the twenty-second field, of which the second may have blanks and parentheses.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_not_taken_for_another_one() {
        let own = ProcessMark::own();
        assert!(own.is_alive());
        assert!(!ProcessMark { started: own.started.map(|ticks| ticks + 1), ..own.clone() }.is_alive());
        assert!(!ProcessMark { boot: Some("another".to_owned()), ..own.clone() }.is_alive());
        assert!(!ProcessMark { pid: u32::MAX, ..own }.is_alive());
        assert!(!ProcessMark::default().is_alive());
    }
}
