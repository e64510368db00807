//! The services of our own binary when it is started by its private words: become someone else and then a program, or guard others.
//!
//! Between fork and exec only unsafe code could change who a process is. A process that has been started for that does it with safe calls.

use crate::identity::Credentials;
use crate::invocation::{CARRIED, HOLD, LAUNCH, REPORT_FD, SUPERVISE, WATCH, ignored_signals, set_served};
use crate::shell::by_shell_if_need_be;
use crate::supervisor::Supervisor;
use crate::tree::signal_all_of;
use crate::watcher::{Told, listen};
use crate::{holder, words};
use nix::unistd::{Gid, Uid, geteuid, setgid, setgroups, setuid};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, setsid, test_kill_process_group};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_bounding_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// The time that a watched group has to end before it is killed.
const GRACE: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The exit code of a shell that cannot start a program; the report says why.
const NOT_LAUNCHED: i32 = 126;

/// Does what private words ask for, if our own binary was started with them, and ends the process. It belongs to the beginning of `main`;
/// [`prepare`](crate::prepare) does it, too.
pub fn serve_if_asked() {
    set_served();
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(word) if word == LAUNCH => launch(arguments, false),
        Some(word) if word == SUPERVISE => launch(arguments, true),
        Some(word) if word == WATCH => watch(),
        Some(word) if word == HOLD => {
            holder::hold();
            std::process::exit(0);
        }
        _ => return,
    }
    std::process::exit(NOT_LAUNCHED);
}

/// Returns the launcher's arguments: the credentials to take on, the program, its argument zero, and the word for supervision if wanted.
pub(crate) fn launch_arguments(
    credentials: &Credentials,
    program: &Path,
    name: &OsStr,
    is_supervised: bool,
) -> Vec<OsString> {
    let word = if is_supervised { SUPERVISE } else { LAUNCH };
    let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
    let groups: Vec<String> = credentials.groups.iter().map(ToString::to_string).collect();
    let Credentials { umask, uid, gid, .. } = *credentials;
    let mut arguments: Vec<OsString> =
        [word.to_owned(), number(umask), number(uid), number(gid), groups.join(",")].map(Into::into).into();
    arguments.extend([program.into(), name.into()]);
    arguments
}

/// Returns the name of a program's variable while its launcher has it.
pub(crate) fn carried(name: &OsStr) -> OsString {
    [OsStr::new(CARRIED), name].into_iter().collect()
}

/// Returns the variables that are carried for the program.
fn environment() -> impl Iterator<Item = (OsString, OsString)> {
    let name =
        |carried: OsString| Some(OsString::from_vec(carried.as_bytes().strip_prefix(CARRIED.as_bytes())?.to_owned()));
    std::env::vars_os().filter_map(move |(carried, value)| Some((name(carried)?, value)))
}

fn launch(arguments: impl Iterator<Item = OsString>, is_supervised: bool) {
    // By its name: to take it by its number would need unsafe code. What the program must not inherit is marked after that.
    let report = File::options().write(true).open(format!("/proc/self/fd/{REPORT_FD}"));
    close_fds::set_fds_cloexec(REPORT_FD, &[]);
    match start_program(arguments, is_supervised) {
        Ok((supervisor, program)) => {
            // That there is nothing to report shows when nobody can write any more.
            drop(report);
            supervisor.oversee(&program, REPORT_FD);
        }
        Err(reason) => {
            if let Ok(mut report) = report {
                // A caller that does not listen any more needs no reason.
                let _ = report.write_all(reason.to_string().as_bytes());
            }
        }
    }
}

/// The launcher cannot become the program. Its text is what is reported.
#[derive(Debug, thiserror::Error)]
enum LaunchError {
    #[error("the launcher was called by hand")]
    ByHand,
    #[error("cannot {action}: {}", words::reason(source))]
    Identity { action: String, source: io::Error },
    #[error("fork/exec {}: {}", program.display(), words::reason(source))]
    Exec { program: PathBuf, source: io::Error },
}

/// Becomes the program, or its supervisor.
fn start_program(
    mut arguments: impl Iterator<Item = OsString>,
    is_supervised: bool,
) -> Result<(Supervisor, Child), LaunchError> {
    let mut next = || arguments.next().ok_or(LaunchError::ByHand);
    let [umask, uid, gid] = [number(&next()?), number(&next()?), number(&next()?)];
    let groups = next()?;
    let groups: Vec<u32> = groups.to_string_lossy().split(',').filter_map(|group| group.parse().ok()).collect();
    let (program, name) = (next()?, next()?);
    if let Some(umask) = umask {
        rustix::process::umask(Mode::from_raw_mode(umask & 0o777));
    }
    let is_other_user = uid.is_some_and(|uid| Uid::from_raw(uid) != geteuid());
    if is_other_user {
        // Whoever can open the terminal can type into it, and what is typed there is ours.
        setsid().map_err(failed("begin a session"))?;
    }
    // Without root's rights the groups stay as they are, and the user may stay the same.
    if uid.is_some() && geteuid().is_root() {
        let groups: Vec<Gid> = groups.into_iter().map(Gid::from_raw).collect();
        setgroups(&groups).map_err(failed("take on groups"))?;
    }
    if let Some(gid) = gid {
        setgid(Gid::from_raw(gid)).map_err(failed(format!("take on group {gid}")))?;
    }
    if is_other_user && geteuid().is_root() {
        empty_bounding_set().map_err(failed("empty the capability bounding set"))?;
    }
    if let Some(uid) = uid {
        setuid(Uid::from_raw(uid)).map_err(failed(format!("become user {uid}")))?;
    }
    if is_other_user {
        give_up_privileges().map_err(failed("give up privileges"))?;
    }
    let arguments: Vec<OsString> = arguments.collect();
    let not_started = |source: io::Error| LaunchError::Exec { program: PathBuf::from(&program), source };
    let supervisor = is_supervised.then(|| Supervisor::new(ignored_signals())).transpose().map_err(not_started)?;
    let started = by_shell_if_need_be(Path::new(&program), |program, script| {
        #[expect(clippy::disallowed_methods, reason = "this crate is the one place that starts programs")]
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
        // To become the program either fails, or does not return.
        (None, Ok(_)) => Err(LaunchError::ByHand),
    }
}

/// Names what the system refused.
fn failed<E: Into<io::Error>>(action: impl Into<String>) -> impl FnOnce(E) -> LaunchError {
    |error| LaunchError::Identity { action: action.into(), source: error.into() }
}

/// Takes every capability that the kernel knows out of the bounding set.
fn empty_bounding_set() -> io::Result<()> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(capability) {
            Ok(true) => remove_capability_from_bounding_set(capability)?,
            Ok(false) => {}
            // The numbers of capabilities have no gaps.
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Gives up the capabilities that a change of the user leaves, and has no program give any back.
fn give_up_privileges() -> io::Result<()> {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(set_no_new_privs(true)?)
}

fn number(argument: &OsStr) -> Option<u32> {
    argument.to_str()?.parse().ok()
}

/// Ends the process groups that are left when the process that tells of them is gone.
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
