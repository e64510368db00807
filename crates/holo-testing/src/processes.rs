//! Processes from `/proc`. No programs are run, as a minimal system has neither `ps` nor `kill`.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

use crate::error::fail;

/// The timeout of [`wait_until_gone`].
const LIMIT: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Returns true if the process exists and is not a zombie.
#[must_use]
pub fn is_running(pid: u32) -> bool {
    status_fields(pid).is_some_and(|fields| fields.first().is_some_and(|state| state != "Z" && state != "X"))
}

/// Returns the parent of a process; `None` if the process does not exist.
#[must_use]
pub fn parent(pid: u32) -> Option<u32> {
    status_fields(pid)?.get(1)?.parse().ok()
}

/// Returns the processes of a group, zombies included.
#[must_use]
pub fn members(group: u32) -> Vec<u32> {
    let is_member = |pid: &u32| {
        status_fields(*pid).is_some_and(|fields| fields.get(2).and_then(|leader| leader.parse().ok()) == Some(group))
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_member).collect()
}

/// Waits until a process has ended.
///
/// # Panics
///
/// If it still runs after a minute.
#[track_caller]
pub fn wait_until_gone(pid: u32) {
    let end = Instant::now() + LIMIT;
    while is_running(pid) {
        if Instant::now() > end {
            fail(&format!("process {pid} still runs"));
        }
        sleep(LOOK_AGAIN);
    }
}

/// Sends a signal to a process.
///
/// # Panics
///
/// If that fails, for example because the process does not exist.
#[track_caller]
pub fn send(pid: u32, signal: Signal) {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let sent = process.ok_or(rustix::io::Errno::SRCH).and_then(|process| kill_process(process, signal));
    if let Err(error) = sent {
        fail(&format!("cannot send {signal:?} to process {pid}: {error}"));
    }
}

/// Returns the start time of a process in ticks since boot. Together with its PID, this identifies a process even if
/// PIDs are reused.
pub(crate) fn begin(pid: u32) -> Option<u64> {
    status_fields(pid)?.get(19)?.parse().ok()
}

/// Returns the time since a process started; `None` if the process does not exist.
pub(crate) fn age(pid: u32) -> Option<Duration> {
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime = Duration::try_from_secs_f64(uptime.split(' ').next()?.parse().ok()?).ok()?;
    let begin = Duration::from_millis(begin(pid)? * 1000 / rustix::param::clock_ticks_per_second());
    Some(uptime.saturating_sub(begin))
}

/// Returns the fields of `/proc/PID/stat` from the third on: state, parent, process group, ….
fn status_fields(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may itself contain blanks and parentheses.
    Some(stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_parent_a_group_and_an_end() {
        let mut sleeper = holo_process::Program::new("sleep").arg("600").start().unwrap();
        let pid = sleeper.id();
        assert!(is_running(pid));
        assert_eq!(parent(pid), Some(std::process::id()));
        assert_eq!(members(pid), [pid]);
        send(pid, Signal::TERM);
        wait_until_gone(pid);
        // Until its parent waits for it, it is a zombie.
        assert_eq!((is_running(pid), parent(pid)), (false, Some(std::process::id())));
        sleeper.end_within(LIMIT);
        assert_eq!((parent(pid), members(pid).len()), (None, 0));
    }
}
