//! `holo-secret`: hands the command line to the library and its answer to the shell.

fn main() -> std::process::ExitCode {
    holo_secret::run(std::env::args_os())
}
