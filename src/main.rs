//! The `holo` program: passes the command line to the library, and its exit code to the shell.

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_process::serve_if_asked();
    holo::run(std::env::args_os())
}
