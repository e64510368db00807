//! The program of the plugin `scaffold`.

fn main() -> std::process::ExitCode {
    holo_scaffold::run()
}
