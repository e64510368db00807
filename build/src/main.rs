//! `holo-build`: passes the command line to the library.

fn main() -> std::process::ExitCode {
    holo_build::run(std::env::args_os())
}
