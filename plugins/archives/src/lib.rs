//! The `archives` plugin: downloads files, and extracts archives.

mod archives;
mod definition;
mod deployment;
mod entity;
mod error;
mod extract;
mod format;
mod limits;
mod listing;
mod removal;
mod shared;
pub(crate) mod signature;
mod store;

/// Runs the plugin, as specified by the arguments and the environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&archives::Archives::default())
}
