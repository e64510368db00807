//! The `archives` plugin: downloads files, and extracts archives.

mod archives;
mod checksum_list;
mod definition;
mod deployment;
mod entity;
mod error;
mod extract;
mod format;
mod inventory;
mod limits;
mod listing;
mod record;
mod removal;
mod shared;
mod signature;
mod store;
mod trees;

/// Runs the plugin, as specified by the arguments and the environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&archives::Archives::default())
}
