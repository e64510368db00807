//! The one place of this crate that starts processes, each in a process group of its own.

#![expect(clippy::disallowed_methods, reason = "test support starts what it tests, and does so here only")]

use crate::signals;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// The time that a process which overran its limit has to clean up before it is killed.
const GRACE: Duration = Duration::from_millis(500);

/// Keeps files from being written while a process starts.
///
/// Between fork and exec a child holds every descriptor of this process. If one of them is open for
/// writing on an executable, running that executable fails with `ETXTBSY`, which tests on several
/// threads would hit now and then.
static STARTING: RwLock<()> = RwLock::new(());

/// The leaders of all groups that run now.
static RUNNING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<i32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends every process group that this crate has started and that still runs: asks them to end, then kills them.
///
/// Being in groups of their own, they do not get the signals of a terminal. Who is interrupted calls this before ending.
pub fn end_all() {
    let leaders: Vec<Pid> = running().iter().copied().filter_map(Pid::from_raw).collect();
    for signal in [Signal::TERM, Signal::KILL] {
        for &leader in &leaders {
            // It may have ended meanwhile.
            let _gone = kill_process_group(leader, signal);
        }
        if signal == Signal::TERM && !leaders.is_empty() {
            std::thread::sleep(GRACE);
        }
    }
}

/// Holds back the start of processes until the guard is dropped.
pub(crate) fn while_nothing_starts() -> RwLockWriteGuard<'static, ()> {
    STARTING.write().unwrap_or_else(PoisonError::into_inner)
}

/// Prepares a command. Start it with [`Group::start`].
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// A running process that leads its own group. Dropping it kills the group.
pub(crate) struct Group {
    child: Child,
    leader: Pid,
    end: OwnedFd,
    reaped: bool,
}

impl Group {
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        signals::reset();
        let mut child = {
            let _guard = STARTING.read().unwrap_or_else(PoisonError::into_inner);
            command.process_group(0).spawn()?
        };
        let leader = Pid::from_child(&child);
        running().insert(leader.as_raw_nonzero().get());
        let end = match pidfd_open(leader, PidfdFlags::empty()) {
            Ok(end) => end,
            Err(error) => {
                running().remove(&leader.as_raw_nonzero().get());
                child.kill()?;
                child.wait()?;
                return Err(error.into());
            }
        };
        Ok(Self { child, leader, end, reaped: false })
    }

    /// The number of its leader.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Takes the writing end of the process's stdin, if it was asked for.
    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Takes the reading end of the process's stdout, if it was asked for.
    pub(crate) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Waits for the process to end, then kills what is left of its group.
    ///
    /// Returns `None` if it had to be ended because the time was over.
    pub(crate) fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let ended = readable(&self.end, deadline(limit))?;
        let status = self.stop(!ended)?;
        Ok(ended.then_some(status))
    }

    /// Ends the group, after a polite request if one is worthwhile.
    fn stop(&mut self, politely: bool) -> io::Result<ExitStatus> {
        // The group's number stays taken until its leader is reaped, so nobody else is hit. There
        // may be nobody left to hit either, which is fine.
        if politely {
            let _gone = kill_process_group(self.leader, Signal::TERM);
            readable(&self.end, Instant::now() + GRACE)?;
        }
        let _gone = kill_process_group(self.leader, Signal::KILL);
        self.reaped = true;
        running().remove(&self.leader.as_raw_nonzero().get());
        self.child.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.reaped {
            let _best_effort = self.stop(true);
        }
    }
}

/// Returns when this time will be over. A limit beyond all bounds is as good as a year.
pub(crate) fn deadline(limit: Duration) -> Instant {
    Instant::now() + limit.min(Duration::from_secs(365 * 24 * 60 * 60))
}

/// Waits until a descriptor can be read or was closed. Returns whether it did so in time.
pub(crate) fn readable(fd: impl AsFd, deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the status as a shell's `$?` has it: 128 + N for signal N.
pub(crate) fn shell_status(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::Stdio;

    fn shell(script: &str) -> Command {
        let mut shell = command("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn statuses_are_those_of_a_shell() {
        let run = |script| {
            let mut group = Group::start(shell(script)).unwrap();
            shell_status(group.wait(Duration::from_secs(20)).unwrap().unwrap())
        };
        assert_eq!(run("exit 3"), 3);
        assert_eq!(run("kill -KILL $$"), 137);
    }

    /// Whoever runs the tests may have had signals ignored: then a process that runs the test below does, too.
    #[test]
    fn signals_are_what_they_usually_are() {
        let test = std::env::current_exe().unwrap();
        for ignored in ["", "HUP INT QUIT TERM"] {
            let mut run = command("sh");
            let trap = if ignored.is_empty() { String::new() } else { format!("trap '' {ignored}; ") };
            run.args([
                "-c",
                &format!("{trap}exec \"$0\" --exact spawn::tests::each_signal_ends_a_process --include-ignored"),
            ]);
            run.arg(&test).stdout(Stdio::null()).stderr(Stdio::null());
            // Not by what is tried.
            let status = run.status().unwrap();
            assert!(status.success(), "where these are ignored: {ignored}");
        }
    }

    #[test]
    #[ignore = "it is run with and without ignored signals"]
    fn each_signal_ends_a_process() {
        for (name, number) in [("HUP", 1), ("INT", 2), ("QUIT", 3), ("TERM", 15)] {
            let mut group = Group::start(shell(&format!("ulimit -c 0; kill -{name} $$; exit 7"))).unwrap();
            assert_eq!(shell_status(group.wait(Duration::from_secs(20)).unwrap().unwrap()), 128 + number);
        }
    }

    #[test]
    fn any_limit_will_do() {
        let mut group = Group::start(shell("exit 0")).unwrap();
        assert!(group.wait(Duration::MAX).unwrap().is_some());
    }

    #[test]
    fn a_hanging_process_is_killed_with_its_whole_group() {
        let mut hanging = shell("trap '' TERM; sleep 600 & echo; wait; sleep 600");
        hanging.stdout(Stdio::piped());
        let mut group = Group::start(hanging).unwrap();
        let mut stdout = group.take_stdout().unwrap();
        stdout.read_exact(&mut [0]).unwrap();
        assert!(group.wait(Duration::ZERO).unwrap().is_none());
        // Its end comes only once the sleeper in the background is gone as well.
        assert!(readable(&stdout, Instant::now() + Duration::from_secs(20)).unwrap());
        assert_eq!(stdout.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn what_a_process_leaves_behind_is_killed() {
        let mut parent = shell("sleep 600 & exit 0");
        parent.stdout(Stdio::piped());
        let mut group = Group::start(parent).unwrap();
        let mut stdout = group.take_stdout().unwrap();
        let status = group.wait(Duration::from_secs(20)).unwrap().unwrap();
        assert!(status.success());
        assert!(readable(&stdout, Instant::now() + Duration::from_secs(20)).unwrap());
        assert_eq!(stdout.read(&mut [0]).unwrap(), 0);
    }
}
