//! `holo-agent`: passes the command line to the library.

fn main() -> std::process::ExitCode {
    holo_agent::run(std::env::args_os())
}
