//! The program of the plugin `run-scripts`.

fn main() -> std::process::ExitCode {
    holo_run_scripts::run()
}
