//! The `archives` plugin: downloads, and what is extracted from them.

mod absent;
mod address;
mod archives;
mod checksum;
mod definition;
mod download;
mod entity;
mod error;
mod extract;
mod format;
mod known;
mod limits;
mod made;
mod manifest;
mod owners;
mod present;
mod record;
mod scene;
mod store;
mod tree;

fn main() -> std::process::ExitCode {
    holo_plugin::serve(&archives::Archives::default())
}
