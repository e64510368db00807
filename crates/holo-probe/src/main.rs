//! The program of health checks that need no other one.

fn main() -> std::process::ExitCode {
    holo_probe::run(std::env::args_os())
}
