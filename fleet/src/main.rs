//! `holo-fleet`: passes the command line to the library.

fn main() -> std::process::ExitCode {
    holo_fleet::run(std::env::args_os())
}
