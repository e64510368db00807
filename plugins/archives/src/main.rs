//! The main program of the `archives` plugin.

fn main() -> std::process::ExitCode {
    holo_archives::run()
}
