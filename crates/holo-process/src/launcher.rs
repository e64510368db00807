//! The internal commands of our own binary: launching a program under another identity, and guarding programs.
//!
//! Changing the identity of a process between fork and exec requires unsafe code. A process that is started for this
//! purpose can do it with safe calls.

use crate::ended::end_by;
use crate::identity::Credentials;
use crate::invocation::{
    CARRIED, CONTAIN, HOLD, INSIDE, LAUNCH, REPORT_FD, SUPERVISE, WATCH, ignored_signals, set_served,
};
use crate::program::by_shell_if_need_be;
use crate::tree::signal_all_of;
use crate::watcher::{Told, listen};
use crate::{container, groups, words};
use nix::unistd::{Gid, Uid, geteuid, setgid, setgroups, setuid};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getrlimit, set_child_subreaper, setrlimit, setsid,
    test_kill_process_group, wait,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_bounding_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time that a guarded group has to exit before it is killed.
const GRACE: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The exit code of a shell that cannot execute a program; the report contains the reason.
const NOT_LAUNCHED: i32 = 126;

/// Executes the internal command of the command line, if any, and exits. This must be called at the start of `main`;
/// [`prepare`](crate::prepare) includes it.
pub fn serve_if_asked() {
    set_served();
    let mut arguments = env::args_os().skip(1);
    match arguments.next() {
        Some(word) if word == LAUNCH => launch(arguments, false),
        Some(word) if word == SUPERVISE => launch(arguments, true),
        Some(word) if word == WATCH => watch(),
        Some(word) if word == CONTAIN => container::contain(arguments),
        Some(word) if word == INSIDE => container::run_inside(arguments),
        Some(word) if word == HOLD => {
            groups::hold();
            std::process::exit(0);
        }
        _ => return,
    }
    std::process::exit(NOT_LAUNCHED);
}

/// Returns the arguments of the launcher: the command, with or without supervision, the credentials, the program, and
/// its argument zero.
pub(crate) fn launch_arguments(
    credentials: &Credentials,
    program: &Path,
    name: &OsStr,
    is_supervised: bool,
) -> Vec<OsString> {
    let word = if is_supervised { SUPERVISE } else { LAUNCH };
    let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
    let groups: Vec<String> = credentials.groups.iter().map(ToString::to_string).collect();
    let Credentials { umask, uid, gid, may_gain_privileges, .. } = *credentials;
    let may_gain = number(may_gain_privileges.then_some(1));
    let mut arguments: Vec<OsString> =
        [word.to_owned(), number(umask), number(uid), number(gid), may_gain, groups.join(",")].map(Into::into).into();
    arguments.extend([program.into(), name.into()]);
    arguments
}

/// Returns the name that a program's variable has in the environment of its launcher.
pub(crate) fn carried(name: &OsStr) -> OsString {
    [OsStr::new(CARRIED), name].into_iter().collect()
}

/// Returns the variables for the program.
fn environment() -> impl Iterator<Item = (OsString, OsString)> {
    let name =
        |carried: OsString| Some(OsString::from_vec(carried.as_bytes().strip_prefix(CARRIED.as_bytes())?.to_owned()));
    env::vars_os().filter_map(move |(carried, value)| Some((name(carried)?, value)))
}

fn launch(arguments: impl Iterator<Item = OsString>, is_supervised: bool) {
    // Reopen the descriptor by its path, because adopting it by number would need unsafe code. Then mark all
    // descriptors that the program must not inherit.
    let report = File::options().write(true).open(format!("/proc/self/fd/{REPORT_FD}"));
    close_fds::set_fds_cloexec(REPORT_FD, &[]);
    match start_program(arguments, is_supervised) {
        Ok((supervisor, program)) => {
            // The caller learns of the success from end of file, so all write ends must be closed.
            drop(report);
            supervisor.oversee(&program, REPORT_FD);
        }
        Err(reason) => {
            if let Ok(mut report) = report {
                // The caller may have closed its end.
                let _ = report.write_all(reason.to_string().as_bytes());
            }
        }
    }
}

/// The launcher cannot execute the program. The message is sent as the report.
#[derive(Debug, thiserror::Error)]
enum LaunchError {
    #[error("the launcher was called by hand")]
    ByHand,
    #[error("cannot {action}: {}", words::reason(source))]
    Identity { action: String, source: io::Error },
    #[error("fork/exec {}: {}", program.display(), words::reason(source))]
    Exec { program: PathBuf, source: io::Error },
}

/// Executes the program, or starts it under supervision.
#[expect(clippy::disallowed_methods, reason = "this is the one place that changes the identity of a process")]
fn start_program(
    mut arguments: impl Iterator<Item = OsString>,
    is_supervised: bool,
) -> Result<(Supervisor, Child), LaunchError> {
    let mut next = || arguments.next().ok_or(LaunchError::ByHand);
    let [umask, uid, gid, may_gain] = [number(&next()?), number(&next()?), number(&next()?), number(&next()?)];
    let groups = next()?;
    let groups: Vec<u32> = groups.to_string_lossy().split(',').filter_map(|group| group.parse().ok()).collect();
    let (program, name) = (next()?, next()?);
    if let Some(umask) = umask {
        rustix::process::umask(Mode::from_raw_mode(umask & 0o777));
    }
    let is_other_user = uid.is_some_and(|uid| Uid::from_raw(uid) != geteuid());
    if is_other_user {
        // A process that can open our terminal could type into it on our behalf.
        setsid().map_err(failed("begin a session"))?;
    }
    // Without root privileges, the groups remain unchanged, and the user can only be the current one.
    if uid.is_some() && geteuid().is_root() {
        let groups: Vec<Gid> = groups.into_iter().map(Gid::from_raw).collect();
        setgroups(&groups).map_err(failed("take on groups"))?;
    }
    if let Some(gid) = gid {
        setgid(Gid::from_raw(gid)).map_err(failed(format!("take on group {gid}")))?;
    }
    if is_other_user && geteuid().is_root() && may_gain.is_none() {
        empty_bounding_set().map_err(failed("empty the capability bounding set"))?;
    }
    if let Some(uid) = uid {
        setuid(Uid::from_raw(uid)).map_err(failed(format!("become user {uid}")))?;
    }
    if is_other_user {
        leave_session_keyring().map_err(failed("leave the session keyring"))?;
        give_up_privileges(may_gain.is_none()).map_err(failed("give up privileges"))?;
    }
    let arguments: Vec<OsString> = arguments.collect();
    let not_started = |source: io::Error| LaunchError::Exec { program: PathBuf::from(&program), source };
    let supervisor = is_supervised.then(|| Supervisor::new(ignored_signals())).transpose().map_err(not_started)?;
    let started = by_shell_if_need_be(Path::new(&program), |program, script| {
        let mut command = Command::new(program);
        if script.is_none() {
            command.arg0(&name);
        }
        command.args(script).args(&arguments).env_clear().envs(environment());
        if supervisor.is_some() { command.process_group(0).spawn() } else { Err(command.exec()) }
    });
    match (supervisor, started) {
        (Some(supervisor), Ok(child)) => Ok((supervisor, child)),
        (_, Err(error)) => Err(not_started(error)),
        // exec only returns on failure.
        (None, Ok(_)) => Err(LaunchError::ByHand),
    }
}

/// Returns the error for a failed operation.
fn failed<E: Into<io::Error>>(action: impl Into<String>) -> impl FnOnce(E) -> LaunchError {
    |error| LaunchError::Identity { action: action.into(), source: error.into() }
}

/// Removes all capabilities that the kernel supports from the bounding set.
fn empty_bounding_set() -> io::Result<()> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(capability) {
            Ok(true) => remove_capability_from_bounding_set(capability)?,
            Ok(false) => {}
            // Capability numbers are contiguous.
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Drops the capabilities that remain after the change of user, and by default prevents programs from regaining any.
fn give_up_privileges(for_good: bool) -> io::Result<()> {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    if for_good {
        set_no_new_privs(true)?;
    }
    Ok(())
}

/// Replaces the inherited session keyring with an empty one. It may contain keys of our user, such as Kerberos tickets,
/// and whoever has a keyring can read the keys in it.
fn leave_session_keyring() -> io::Result<()> {
    match keyutils_raw::keyctl_join_session_keyring(None).map_err(io::Error::from) {
        // Without the system call, which containers often lack, no program can read a key.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOSYS | Errno::PERM)) => Ok(()),
        left => left.map(drop),
    }
}

fn number(argument: &OsStr) -> Option<u32> {
    argument.to_str()?.parse().ok()
}

/// Ends the process groups that are left when the notifying process has ended.
fn watch() {
    let leaders: Vec<Pid> = listen().iter().map(|Told { pid, .. }| *pid).collect();
    leaders.iter().for_each(|&leader| signal_all_of(leader, Signal::TERM));
    let end = Instant::now() + GRACE;
    while Instant::now() < end && leaders.iter().any(|&leader| test_kill_process_group(leader).is_ok()) {
        std::thread::sleep(LOOK_AGAIN);
    }
    leaders.iter().for_each(|&leader| signal_all_of(leader, Signal::KILL));
    std::process::exit(0);
}

/// The state of a supervisor, which is set up before the program is started.
pub(crate) struct Supervisor {
    /// True if the program was told to terminate.
    is_ending: Arc<AtomicBool>,
}

impl Supervisor {
    /// Makes this process the subreaper of its descendants.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn new(ignored_signals: u64) -> io::Result<Supervisor> {
        // Any PID other than 0 enables it.
        set_child_subreaper(Some(Pid::INIT))?;
        let is_ending = Arc::new(AtomicBool::new(false));
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            // A caught signal has its default action in the program; an ignored one remains ignored.
            if ignored_signals & (1 << (signal - 1)) == 0 {
                signal_hook::flag::register(signal, Arc::clone(&is_ending))?;
            }
        }
        Ok(Supervisor { is_ending })
    }

    /// Waits for the program, and exits with its status. If the program was told to terminate, waits for all processes
    /// that it has started. Descriptors up to `last` are closed.
    pub(crate) fn oversee(&self, program: &Child, last: RawFd) -> ! {
        // Inherited descriptors would keep the readers of their pipes waiting.
        for number in 0..=last {
            let _ = nix::unistd::close(number);
        }
        let own = Pid::from_child(program);
        let mut end = None;
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) if pid == own => {
                    end = Some(status);
                    if !self.is_ending.load(Ordering::Relaxed) {
                        break;
                    }
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        if let Some(signal) = end.and_then(WaitStatus::terminating_signal) {
            // The program has already dumped its core, if enabled.
            let limit = Rlimit { current: Some(0), ..getrlimit(Resource::Core) };
            let _ = setrlimit(Resource::Core, limit);
            end_by(signal);
        }
        std::process::exit(end.and_then(WaitStatus::exit_status).unwrap_or(1));
    }
}
