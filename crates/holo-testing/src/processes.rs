//! Processes from `/proc`, and starting and signalling them. No programs are run, as a minimal system has neither `ps`
//! nor `kill`.

use crate::files::fail;
use holo_process::{Program, ProgramError, SYSTEM_PATH, StartError, Status};
use rustix::process::{Pid, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::ffi::OsStr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io};

pub use rustix::process::Signal;

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

/// The signals that may be ignored when tests are started, such as by `nohup`, as a background job of a shell, or in
/// CI.
const USUAL: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Ensures that programs started from now on do not inherit ignored signals. This process still ignores them.
///
/// A signal with a handler is not inherited: the new program gets its default action.
pub fn reset() {
    static RESET: Once = Once::new();
    RESET.call_once(|| {
        let ignored = holo_process::ignored_signals();
        for signal in USUAL.into_iter().filter(|signal| ignored & (1 << (signal - 1)) != 0) {
            // Tests that depend on it would fail.
            let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
        }
    });
}

/// The time for cleanup that a program has between exceeding its timeout and being killed.
const GRACE: Duration = Duration::from_millis(500);
/// The timeout for trying a program.
const TRIAL: Duration = Duration::from_secs(20);

/// Returns a program to run, with signals as programs expect them.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Program {
    reset();
    let mut program = Program::new(name.as_ref());
    program.leave_nothing().grace(GRACE);
    program
}

/// Runs a program until it ends. Returns `None` if it exceeded the timeout.
pub(crate) fn run(program: &mut Program, limit: Duration) -> io::Result<Option<Status>> {
    let ended = program.timeout(limit).run(|_, _| {}).map_err(io_error)?;
    Ok(Some(ended.status).filter(|_| ended.timed_out.is_none()))
}

/// Returns true if a program of the system can be run and succeeds.
pub(crate) fn succeeds(name: &str, arguments: &[impl AsRef<OsStr>]) -> bool {
    let mut program = program(name);
    program.args(arguments.iter().map(AsRef::as_ref)).clear_env().path(SYSTEM_PATH).env("LC_ALL", "C");
    run(&mut program, TRIAL).is_ok_and(|status| status == Some(Status::Exited(0)))
}

/// Converts the error of a program into an I/O error if it could not be started.
pub(crate) fn io_error(error: ProgramError) -> io::Error {
    match error {
        ProgramError::NotFound(StartError::Exec { source, .. } | StartError::Directory { source, .. })
        | ProgramError::NotStarted(StartError::Exec { source, .. } | StartError::Directory { source, .. })
        | ProgramError::Lost { source, .. } => source,
        ProgramError::NotFound(_) => io::ErrorKind::NotFound.into(),
        error => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_parent_a_group_and_an_end() {
        let mut sleeper = Program::new("sleep").arg("600").start().unwrap();
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

#[cfg(test)]
mod spawn_tests {
    use super::wait_until_gone;
    use super::*;

    fn shell(script: &str) -> Program {
        let mut shell = program("sh");
        shell.args(["-c", script]);
        shell
    }

    /// Runs a script, and returns its status and the number that it prints.
    fn run_for(script: &str, limit: Duration) -> (Option<Status>, u32) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let status = run(shell(script).stdout_file(file.reopen().unwrap()), limit).unwrap();
        (status, fs::read_to_string(file).unwrap().trim().parse().unwrap())
    }

    #[test]
    fn statuses_are_those_of_a_shell() {
        let run = |script| run(&mut shell(script), Duration::from_secs(20)).unwrap().unwrap().shell_code();
        assert_eq!(run("exit 3"), 3);
        assert_eq!(run("kill -KILL $$"), 137);
    }

    /// Signals may be ignored in the process that runs the tests, as in the process that runs the test below.
    #[test]
    fn signals_are_what_they_usually_are() {
        let test = std::env::current_exe().unwrap();
        for ignored in ["", "HUP INT QUIT TERM"] {
            let trap = if ignored.is_empty() { String::new() } else { format!("trap '' {ignored}; ") };
            // Not ignored by `sh` itself.
            let mut run = Program::new("sh");
            run.args([
                "-c",
                &format!("{trap}exec \"$0\" --exact spawn::tests::each_signal_ends_a_process --include-ignored"),
            ]);
            let ended = run.arg(&test).run(|_, _| {}).unwrap();
            assert_eq!(ended.failure(), None, "where these are ignored: {ignored}");
        }
    }

    #[test]
    #[ignore = "it is run with and without ignored signals"]
    fn each_signal_ends_a_process() {
        for (name, number) in [("HUP", 1), ("INT", 2), ("QUIT", 3), ("TERM", 15)] {
            let mut killed = shell(&format!("ulimit -c 0; kill -{name} $$; exit 7"));
            assert_eq!(run(&mut killed, Duration::from_secs(20)).unwrap().unwrap().shell_code(), 128 + number);
        }
    }

    #[test]
    fn any_limit_will_do() {
        assert!(run(&mut shell("exit 0"), Duration::MAX).unwrap().is_some());
    }

    #[test]
    fn a_hanging_process_is_killed_with_its_whole_group() {
        let (status, sleeper) = run_for("trap '' TERM; sleep 600 & echo $!; wait; sleep 600", Duration::from_secs(2));
        assert_eq!(status, None);
        wait_until_gone(sleeper);
    }

    #[test]
    fn what_a_process_leaves_behind_is_killed() {
        let (status, sleeper) = run_for("sleep 600 & echo $!; exit 0", Duration::from_secs(20));
        assert_eq!(status, Some(Status::Exited(0)));
        wait_until_gone(sleeper);
    }

    #[test]
    fn who_is_not_there_is_told_by_the_system() {
        for name in ["/no/such", "no-such-program"] {
            let error = run(&mut program(name), Duration::from_secs(20)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}");
        }
    }
}
