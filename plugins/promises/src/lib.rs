//! The plugin `promises`: custom promise types of CFEngine, with unmodified modules.
//!
//! A `definition` becomes requests, which are sent over the `connection` to its `module`. Each request has an
//! `answer`, which determines the `outcome` of the entity.

mod answer;
mod connection;
mod definition;
mod entity;
mod module;
mod module_log;
mod names;
mod outcome;
mod promises;
mod request;

/// Runs the plugin with its command line and environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&promises::Promises::default())
}
