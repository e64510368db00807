//! The main program of the `run-scripts` plugin.

fn main() -> std::process::ExitCode {
    holo_run_scripts::run()
}
