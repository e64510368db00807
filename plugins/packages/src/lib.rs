//! The `packages` plugin: installs and removes packages with the package manager of the system.

mod action;
mod adoption;
mod base;
mod check;
mod declaration;
mod entity;
mod error;
mod index;
mod intent;
mod managed;
mod manager;
mod mock;
mod model;
mod names;
mod need;
mod operations;
mod packages;
mod pattern;
mod provider;
mod providers;
mod query;
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
