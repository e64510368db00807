//! The program of the plugin `ral`.

fn main() -> std::process::ExitCode {
    holo_ral::run()
}
