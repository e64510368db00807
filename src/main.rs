//! `holo`: hands the command line to the library and its answer to the shell.

use std::process::ExitCode;

fn main() -> ExitCode {
    holo::run(std::env::args_os())
}
