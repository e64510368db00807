//! The processes that a program has started, directly or not, including those that have left its process group.

use rustix::process::test_kill_process_group;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The maximum number of searches for survivors of SIGKILL: a process may start others in the meantime.
const ROUNDS: usize = 100;
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A process, from `/proc`.
#[derive(Clone, Copy, Debug)]
struct Process {
    pid: Pid,
    parent: i32,
    group: i32,
    /// The start time, which detects that a PID was reused.
    started: u64,
    is_zombie: bool,
}

/// Sends a signal to a process group and to all descendants of its leader, in the group or not. Processes that no
/// longer exist are ignored.
pub(crate) fn signal_all_of(leader: Pid, signal: Signal) {
    let outside = || -> Vec<Process> {
        let own = leader.as_raw_nonzero().get();
        descendants(leader).into_iter().filter(|process| process.group != own).collect()
    };
    if signal == Signal::KILL {
        // The leader is killed last, because its descendants are found through it.
        for _ in 0..ROUNDS {
            let left = outside();
            if left.is_empty() {
                break;
            }
            send_to_all(&left, signal);
            thread::sleep(LOOK_AGAIN);
        }
        signal_group(leader, signal);
    } else {
        let outside = outside();
        signal_group(leader, signal);
        send_to_all(&outside, signal);
    }
}

/// Sends a signal to a process group, or to its leader alone: a launcher has no group before it creates its session.
fn signal_group(leader: Pid, signal: Signal) {
    if kill_process_group(leader, signal).is_err() {
        let _ = kill_process(leader, signal);
    }
}

/// Sends a signal to processes. A group that is led by one of them receives it at once, so that no member sees another
/// one end first.
fn send_to_all(processes: &[Process], signal: Signal) {
    let numbers: BTreeSet<i32> = processes.iter().map(|process| process.pid.as_raw_nonzero().get()).collect();
    let groups: BTreeSet<i32> =
        processes.iter().map(|process| process.group).filter(|group| numbers.contains(group)).collect();
    for group in groups.iter().filter_map(|&group| Pid::from_raw(group)) {
        let _ = kill_process_group(group, signal);
    }
    processes.iter().filter(|process| !groups.contains(&process.group)).for_each(|process| send(process, signal));
}

/// Returns true if a process group contains running processes.
///
/// Zombies are ignored: in a container whose first process does not reap orphans, they remain forever.
pub(crate) fn group_runs(leader: Pid) -> bool {
    let is_member = |process: &Process| process.group == leader.as_raw_nonzero().get() && !process.is_zombie;
    test_kill_process_group(leader).is_ok() && all().iter().any(is_member)
}

fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| read(entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?)).collect()
}

/// Returns the running descendants of a process.
fn descendants(of: Pid) -> Vec<Process> {
    let all = all();
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process);
    }
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    let mut open = vec![of.as_raw_nonzero().get()];
    while let Some(parent) = open.pop() {
        for process in children.get(&parent).into_iter().flatten() {
            // PIDs may be reused while they are read.
            let number = process.pid.as_raw_nonzero().get();
            if seen.insert(number) {
                open.push(number);
                found.push(*process);
            }
        }
    }
    found.retain(|process| !process.is_zombie);
    found
}

fn read(pid: Pid) -> Option<Process> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, rest) = split(&stat)?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Process {
        pid,
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

/// Splits a line of `stat` before and after the name of the process, which is in parentheses and may contain any
/// characters.
fn split(stat: &str) -> Option<(&str, &str)> {
    stat.rsplit_once(')')
}

/// A process from which another one descends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// Its number.
    pub pid: i32,
    /// Its name, of which the kernel keeps 15 bytes.
    pub name: String,
}

/// Returns the ancestors of this process, its parent first, from a directory such as `/proc`.
#[must_use]
pub fn ancestors(proc: &Path) -> Vec<Ancestor> {
    let look = |folder: &str| -> Option<(String, i32)> {
        let stat = fs::read(proc.join(folder).join("stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        let (before, after) = split(&stat)?;
        let (_, name) = before.split_once('(')?;
        Some((name.to_owned(), after.split_ascii_whitespace().nth(1)?.parse().ok()?))
    };
    let mut found: Vec<Ancestor> = Vec::new();
    let mut next = look("self").map(|(_, parent)| parent);
    // PIDs may be reused while they are read.
    while let Some(pid) = next.filter(|pid| *pid > 0 && found.iter().all(|ancestor| ancestor.pid != *pid)) {
        let Some((name, parent)) = look(&pid.to_string()) else { break };
        found.push(Ancestor { pid, name });
        next = Some(parent);
    }
    found
}

/// Sends a signal to a process, but not to another one that has reused its PID.
fn send(process: &Process, signal: Signal) {
    let is_same = || read(process.pid).is_some_and(|now| now.started == process.started);
    // An error means that the process no longer exists.
    let _ = match pidfd_open(process.pid, PidfdFlags::empty()) {
        Ok(opened) if is_same() => pidfd_send_signal(opened, signal),
        Err(rustix::io::Errno::NOSYS) if is_same() => kill_process(process.pid, signal),
        _ => Ok(()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a zombie is wanted, which a program of ours never is for long")]
    fn a_group_of_zombies_does_not_run() {
        let mut sleeper = std::process::Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let leader = Pid::from_child(&sleeper);
        assert!(group_runs(leader));
        kill_process(leader, Signal::KILL).unwrap();
        while read(leader).is_some_and(|process| !process.is_zombie) {
            thread::sleep(LOOK_AGAIN);
        }
        assert!(test_kill_process_group(leader).is_ok() && !group_runs(leader));
        sleeper.wait().unwrap();
        assert!(!group_runs(leader));
    }

    #[test]
    fn ancestors_end_with_the_first_process() {
        let own = read(rustix::process::getpid()).unwrap();
        let found = ancestors(Path::new("/proc"));
        assert_eq!(found.first().map(|ancestor| ancestor.pid), Some(own.parent));
        assert!(found.iter().all(|ancestor| !ancestor.name.is_empty()));
    }

    #[test]
    fn ancestors_are_read_without_end_or_panic() {
        let proc = tempfile::tempdir().unwrap();
        let write = |folder: &str, stat: &[u8]| {
            fs::create_dir_all(proc.path().join(folder)).unwrap();
            fs::write(proc.path().join(folder).join("stat"), stat).unwrap();
        };
        let names = || -> Vec<String> { ancestors(proc.path()).into_iter().map(|ancestor| ancestor.name).collect() };
        assert!(names().is_empty());
        for odd in [&b""[..], b"1", b"1 (a", b"1 (a)", b"1 a) S 3", b"1 (a) S x", b"1 (a) S -1", b"\xff)"] {
            write("self", odd);
            assert!(names().is_empty());
        }
        write("self", b"5 (a) S 4 1");
        write("4", b"4 (b) c) S 3 1");
        write("3", b"3 (d) S 4 1");
        assert_eq!(names(), ["b) c", "d"]);
    }

    #[test]
    fn a_process_is_described_and_is_no_descendant_of_itself() {
        let own = read(rustix::process::getpid()).unwrap();
        // A group whose leader is outside of the PID namespace is 0 inside it.
        if own.group > 0 {
            assert_eq!(own.group, rustix::process::getpgrp().as_raw_nonzero().get());
        }
        assert!(!own.is_zombie && own.started > 0);
        assert!(descendants(own.pid).iter().all(|process| process.pid != own.pid));
        let parent = Pid::from_raw(own.parent).unwrap();
        assert!(descendants(parent).iter().any(|process| process.pid == own.pid));
    }
}
