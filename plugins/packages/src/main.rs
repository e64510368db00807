//! The `packages` plugin executable.

fn main() -> std::process::ExitCode {
    holo_packages::run()
}
