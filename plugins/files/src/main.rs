//! The program of the plugin `files`.

fn main() -> std::process::ExitCode {
    holo_files::run()
}
