//! The `archives` plugin: downloads files, and extracts archives.

mod archives;
mod definition;
mod deployment;
mod difference;
mod entity;
mod error;
mod extract;
mod format;
mod limits;
mod removal;
mod shared;
mod store;

/// Runs the plugin, as specified by the arguments and the environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&archives::Archives::default())
}
