//! The program of the plugin `archives`.

fn main() -> std::process::ExitCode {
    holo_archives::run()
}
