//! The program of the plugin `exec`.

fn main() -> std::process::ExitCode {
    holo_exec::run()
}
