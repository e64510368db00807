//! The `files` plugin: configuration files, made from package files and resource files.

mod adoption;
mod declared;
mod edits;
mod files;
mod known_files;
mod managed;
mod overlay;
mod read;
mod sidecars;

/// Runs the plugin according to the arguments and the environment of the process.
#[must_use]
pub fn run() -> std::process::ExitCode {
    let asked_for = std::env::var_os("HOLO_FILES_RECORD").is_some_and(|value| value == "1");
    let files = files::Files { records_in_test_mode: asked_for, ..files::Files::default() };
    holo_plugin::serve(&files)
}
