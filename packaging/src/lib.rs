//! Several programs in one executable, for packages.
//!
//! Dispatcher and plugins share most of their code: processes, SQLite, regular expressions, templates. Linked into one program, they take less
//! than half of the space. It is installed once, with a symlink for each program, and behaves like the one by whose name it was called.

use holo_process::serve_if_asked;
use std::env;
use std::path::Path;
use std::process::ExitCode;

/// The name of a program, and its main function.
pub type Applet = (&'static str, fn() -> ExitCode);

/// Runs the program by whose name this one was called; `default` if there is none.
#[must_use]
pub fn run(applets: &[Applet], default: fn() -> ExitCode) -> ExitCode {
    // The programs that a plugin supervises are started by a copy of this process, which has another name.
    serve_if_asked();
    let called = env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name().unwrap_or_default();
    let main = applets.iter().find(|(applet, _)| name == *applet).map_or(default, |(_, main)| *main);
    main()
}
