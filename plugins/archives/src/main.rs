//! The `archives` plugin: downloads files, and extracts archives.

mod address;
mod archives;
mod base;
mod checksum;
mod checksum_cache;
mod definition;
mod deployment;
mod download;
mod entity;
mod entry;
mod error;
mod extract;
mod extracted;
mod format;
mod inventory;
mod limits;
mod manifest;
mod owners;
mod record;
mod removal;
mod shared;
mod store;

fn main() -> std::process::ExitCode {
    holo_plugin::serve(&archives::Archives::default())
}
