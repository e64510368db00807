//! The plugin `promises`: custom promise types of CFEngine, whose modules are run as their authors ship them.
//!
//! A `definition` becomes requests that are sent over the `connection` to its `module`. The connection begins with a `header`; each request has
//! an `answer`, which decides about the `outcome` of the entity.

mod answer;
mod connection;
mod context;
mod definition;
mod entity;
mod header;
mod level;
mod module;
mod module_log;
mod names;
mod outcome;
mod promises;
mod record;
mod request;
mod subject;

/// Runs the plugin: what it does stands in the arguments and the environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&promises::Promises::default())
}
