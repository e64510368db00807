//! The program for built-in health checks.

fn main() -> std::process::ExitCode {
    holo_probe::run(std::env::args_os())
}
