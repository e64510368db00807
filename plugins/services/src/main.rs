//! The program of the plugin `services`.

fn main() -> std::process::ExitCode {
    holo_services::run()
}
