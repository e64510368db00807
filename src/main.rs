//! `holo`: hands the command line to the library and its answer to the shell.

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_process::serve_if_asked();
    holo::run(std::env::args_os())
}
