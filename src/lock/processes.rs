//! The processes that a lock file names.

use bstr::ByteSlice;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::fs;
use std::path::PathBuf;

/// Formats a process for people.
pub(super) fn shown(pid: i32) -> String {
    match fs::read(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("process {pid} ({})", name.trim_ascii().as_bstr()),
        Err(_) => format!("process {pid}"),
    }
}

/// Returns true if the process of an unlocked file may hold it by its mere existence, as other versions of Holo do.
///
/// Not if the process no longer exists, if it is our own, or if it is known to be another program: then the process ID
/// has been reused.
pub(super) fn may_be_another_holo(pid: i32) -> bool {
    if pid.unsigned_abs() == std::process::id() || !is_alive(pid) {
        return false;
    }
    let process = PathBuf::from(format!("/proc/{pid}"));
    let Ok(line) = fs::read(process.join("cmdline")) else { return true };
    let program = fs::read_link(process.join("exe")).unwrap_or_default();
    let name = fs::read(process.join("comm")).unwrap_or_default();
    // The program itself, or the script that an interpreter runs.
    let words = line.split(|&byte| byte == 0).take(2).map(<[u8]>::to_vec);
    let names = words.chain([name, program.into_os_string().into_encoded_bytes()]);
    names.into_iter().any(|name| name.rsplit(|&byte| byte == b'/').next().is_some_and(|name| name.contains_str("holo")))
}

/// Returns true if the process exists and is not a zombie.
pub(super) fn is_alive(pid: i32) -> bool {
    let exists = Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH));
    exists && !fs::read(format!("/proc/{pid}/stat")).is_ok_and(|stat| has_ended(&stat))
}

/// Parses the kernel's `stat` line: the name is in parentheses, and the state follows.
fn has_ended(stat: &[u8]) -> bool {
    let state = stat.rfind_byte(b')').and_then(|end| stat.get(end + 2));
    state.is_some_and(|state| b"ZX".contains(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zombie_counts_as_ended() {
        assert!(has_ended(b"7 (holo) Z 1 7") && has_ended(b"7 (a) S) X 1") && !has_ended(b"7 (a) Z) S 1"));
        assert!(!has_ended(b"") && !has_ended(b"7 (a)"));
        assert!(is_alive(std::process::id().cast_signed()) && !is_alive((1 << 22) + 1));
    }
}
