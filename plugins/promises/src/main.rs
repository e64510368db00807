//! The program of the plugin `promises`.

fn main() -> std::process::ExitCode {
    holo_promises::run()
}
