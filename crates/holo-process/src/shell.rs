//! Scripts without a `#!` line, which are run by a shell, as is traditional on Unix.

use rustix::io::Errno;
use std::io;
use std::path::Path;

const SHELL: &str = "/bin/sh";

/// Starts a program like execvp(3): if the kernel does not recognize its format, it is run by `/bin/sh`.
///
/// `start` receives the path to execute and, for the shell, the script to pass before the arguments.
///
/// # Errors
/// Those of `start`.
pub(crate) fn by_shell_if_need_be<T>(
    path: &Path,
    mut start: impl FnMut(&Path, Option<&Path>) -> io::Result<T>,
) -> io::Result<T> {
    match start(path, None) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOEXEC) => start(Path::new(SHELL), Some(path)),
        started => started,
    }
}
