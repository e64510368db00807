//! The `files` plugin executable.

fn main() -> std::process::ExitCode {
    holo_files::run()
}
