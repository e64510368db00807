//! The processes that a lock file names.

use bstr::ByteSlice;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::fs;
use std::path::PathBuf;

/// Returns a process as a person would look for it.
pub(super) fn shown(pid: i32) -> String {
    match fs::read(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("process {pid} ({})", name.trim_ascii().as_bstr()),
        Err(_) => format!("process {pid}"),
    }
}

/// Returns true if the process of a file that nobody has locked may hold it by its mere existence, as other versions of Holo do.
///
/// A process that does not exist any more does not, nor do we, nor does one that is known to be something else: it has got the number of
/// the one that is gone.
pub(super) fn may_be_another_holo(pid: i32) -> bool {
    if pid.unsigned_abs() == std::process::id() || !is_alive(pid) {
        return false;
    }
    let process = PathBuf::from(format!("/proc/{pid}"));
    let Ok(line) = fs::read(process.join("cmdline")) else { return true };
    let program = fs::read_link(process.join("exe")).unwrap_or_default();
    let name = fs::read(process.join("comm")).unwrap_or_default();
    // The program itself, or what an interpreter was given.
    let words = line.split(|&byte| byte == 0).take(2).map(<[u8]>::to_vec);
    let names = words.chain([name, program.into_os_string().into_encoded_bytes()]);
    names.into_iter().any(|name| name.rsplit(|&byte| byte == b'/').next().is_some_and(|name| name.contains_str("holo")))
}

/// Returns true if the process exists, and has not ended without being waited for.
pub(super) fn is_alive(pid: i32) -> bool {
    let exists = Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH));
    exists && !fs::read(format!("/proc/{pid}/stat")).is_ok_and(|stat| has_ended(&stat))
}

/// Returns true by what the kernel says of a process: its name is in parentheses, and the state follows.
fn has_ended(stat: &[u8]) -> bool {
    let state = stat.rfind_byte(b')').and_then(|end| stat.get(end + 2));
    state.is_some_and(|state| b"ZX".contains(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_nobody_waits_for_has_ended() {
        assert!(has_ended(b"7 (holo) Z 1 7") && has_ended(b"7 (a) S) X 1") && !has_ended(b"7 (a) Z) S 1"));
        assert!(!has_ended(b"") && !has_ended(b"7 (a)"));
        assert!(is_alive(std::process::id().cast_signed()) && !is_alive((1 << 22) + 1));
    }
}
