//! `holo-secret`: passes the command line to the library.

fn main() -> std::process::ExitCode {
    holo_secret::run(std::env::args_os())
}
