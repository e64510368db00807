//! The main program of the `scaffold` plugin.

fn main() -> std::process::ExitCode {
    holo_scaffold::run()
}
