//! The `packages` plugin: installs and removes packages with the package manager of the system.

mod action;
mod adoption;
mod check;
mod declaration;
mod entity;
mod intent;
mod manager;
mod mock;
mod model;
mod names;
mod packages;
mod pattern;
mod providers;
mod query;
mod records;
mod repositories;
mod repository;
mod resolve;
mod simulate;
mod source;
mod system;
mod transaction;
pub mod version;
mod wanted;

/// Runs the plugin according to the arguments and the environment of the process.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&packages::Packages::default())
}
