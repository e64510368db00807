//! Programs without a line that names their interpreter, as old as Unix: a shell reads them.

use rustix::io::Errno;
use std::io;
use std::path::Path;

const SHELL: &str = "/bin/sh";

/// Starts the program at the path as execvp(3) does: if the kernel does not know how to run it, `/bin/sh` is started with it instead.
///
/// `start` gets the program, and what stands before the arguments if that is the shell.
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
