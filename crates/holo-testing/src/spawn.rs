//! Programs started by tests, each in its own process group, which is killed when the program ends.

use crate::signals;
use holo_process::{Program, ProgramError, SYSTEM_PATH, StartError, Status};
use std::ffi::OsStr;
use std::io;
use std::time::Duration;

/// The time for cleanup that a program has between exceeding its timeout and being killed.
const GRACE: Duration = Duration::from_millis(500);
/// The timeout for trying a program.
const TRIAL: Duration = Duration::from_secs(20);

/// Returns a program to run, with signals as programs expect them.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Program {
    signals::reset();
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
    use crate::processes::wait_until_gone;

    fn shell(script: &str) -> Program {
        let mut shell = program("sh");
        shell.args(["-c", script]);
        shell
    }

    /// Runs a script, and returns its status and the number that it prints.
    fn run_for(script: &str, limit: Duration) -> (Option<Status>, u32) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let status = run(shell(script).stdout_file(file.reopen().unwrap()), limit).unwrap();
        (status, std::fs::read_to_string(file).unwrap().trim().parse().unwrap())
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
