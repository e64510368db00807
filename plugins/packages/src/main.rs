//! The program of the plugin `packages`.

fn main() -> std::process::ExitCode {
    holo_packages::run()
}
