//! The program of the plugin `ansible`.

fn main() -> std::process::ExitCode {
    holo_ansible::run()
}
