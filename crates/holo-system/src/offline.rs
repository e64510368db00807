//! Systems that are not running, such as that of an image which is being built: whether the managed system is one, and running a command
//! in it.
//!
//! Such a system is managed from inside, by its own programs: in a chroot or the build of a container, or in a container that this module
//! creates for its root. So nothing has to tell it from the running system but what needs its services, its kernel, or its hardware.

use crate::Root;
use holo_process::{ProgramError, SYSTEM_PATH, contained, words};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The environment variable that is `1` if the managed system is not running.
pub const OFFLINE: &str = "HOLO_OFFLINE";

/// The reason for which an entity that needs the running system is deferred.
pub const DEFERRAL: &str = "the system is not running";

/// The program that runs inside.
const HOLO: &str = "holo";

/// The variables that are passed on, as they concern the user instead of the machine, like proxies and variables with these prefixes.
const VARIABLES: [&str; 10] =
    ["COLORTERM", "COLUMNS", "LANG", "LANGUAGE", "LINES", "NO_COLOR", "SOURCE_DATE_EPOCH", "SUDO_USER", "TERM", "TZ"];
const PREFIXES: [&str; 2] = ["HOLO_", "LC_"];

/// Returns true if the value of [`OFFLINE`] says that the system is not running.
#[must_use]
pub fn says_offline(value: Option<OsString>) -> bool {
    value.is_some_and(|value| value == "1")
}

/// Returns true if the environment of this process says that the managed system is not running.
#[must_use]
pub fn is_offline() -> bool {
    says_offline(std::env::var_os(OFFLINE))
}

/// A command cannot be run in a system.
#[derive(Debug, thiserror::Error)]
pub enum InsideError {
    /// The system is the running one.
    #[error("--root {}: this is the running system; without --root, holo manages it", .0.display())]
    Running(PathBuf),
    /// It cannot be opened.
    #[error("cannot open {}: {}", path.display(), words::reason(source))]
    Open {
        /// Its root.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Only root can create containers and change files of all users.
    #[error("--root {}: only root can enter another system; call holo with sudo", .0.display())]
    NotPermitted(PathBuf),
    /// The system has no holo.
    #[error("there is no holo in {}: it is managed by its own programs, so install the package holo there", .0.display())]
    NoHolo(PathBuf),
    /// Another command is running there.
    #[error("another holo is working on {}; try again when it has ended", .0.display())]
    Busy(PathBuf),
    /// The container cannot be started.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// Runs the holo that is installed below this root with these arguments, in a container with our standard streams. Returns its exit code.
///
/// # Errors
/// If it cannot be started.
pub fn run_inside(root: &Path, arguments: impl IntoIterator<Item = OsString>) -> Result<u8, InsideError> {
    let open = |source| InsideError::Open { path: root.to_owned(), source };
    let path = root.canonicalize().map_err(open)?;
    if path == Path::new("/") {
        return Err(InsideError::Running(root.to_owned()));
    }
    if !rustix::process::geteuid().is_root() {
        return Err(InsideError::NotPermitted(root.to_owned()));
    }
    let system = Root::new(&path);
    let has_holo = |directory: &str| system.has(format!("{}/{HOLO}", directory.trim_start_matches('/')));
    if !SYSTEM_PATH.split(':').any(has_holo) {
        return Err(InsideError::NoHolo(root.to_owned()));
    }
    // Each container has a `/run` of its own, so the lock there does not keep others out.
    let lock = File::open(&path).map_err(open)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Err(InsideError::Busy(root.to_owned())),
        locked => locked.map_err(|errno| open(errno.into()))?,
    }
    // A signal that ends this process ends the program first.
    let _prepared = holo_process::prepare();
    let mut program = contained(&path, HOLO);
    program.args(arguments).clear_env().path(SYSTEM_PATH).env("HOME", "/root");
    let is_kept = |name: &OsString| {
        let name = name.to_string_lossy().into_owned();
        let has_prefix = || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        VARIABLES.contains(&&*name) || name.to_ascii_lowercase().ends_with("_proxy") || has_prefix()
    };
    program.envs(std::env::vars_os().filter(|(name, _)| is_kept(name)));
    program.env_remove("HOLO_ROOT_DIR").env(OFFLINE, "1");
    let stream = |stream: io::Result<std::os::fd::OwnedFd>| stream.map(File::from).map_err(open);
    program.stdin_file(stream(io::stdin().as_fd().try_clone_to_owned())?);
    program.stdout_file(stream(io::stdout().as_fd().try_clone_to_owned())?);
    program.stderr_file(stream(io::stderr().as_fd().try_clone_to_owned())?);
    let ended = program.run(|_, _| {})?;
    Ok(u8::try_from(ended.status.shell_code()).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_1_means_that_the_system_is_not_running() {
        let says = |value: &str| says_offline(Some(value.into()));
        assert!(says("1") && !says("0") && !says("") && !says("yes") && !says_offline(None));
    }

    #[test]
    fn running_system_and_one_without_holo_are_refused() {
        let refused = |root: &Path| run_inside(root, []).unwrap_err();
        assert!(matches!(refused(Path::new("/usr/..")), InsideError::Running(_)));
        assert!(matches!(refused(Path::new("/nowhere/at/all")), InsideError::Open { .. }));
        let root = tempfile::tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            // The program that the symlink leads to outside of the root does not count.
            std::fs::create_dir_all(root.path().join("usr/bin")).unwrap();
            std::os::unix::fs::symlink("/bin/sh", root.path().join("usr/bin/holo")).unwrap();
            assert!(matches!(refused(root.path()), InsideError::NoHolo(_)));
        } else {
            assert!(matches!(refused(root.path()), InsideError::NotPermitted(_)));
        }
    }
}
