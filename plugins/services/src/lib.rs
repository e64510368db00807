//! The `services` plugin: units that shall run or not, at boot or not, or not at all.

mod adoption;
mod apply;
mod definition;
mod entity;
mod names;
mod notice;
mod operations;
mod plan;
mod provider;
mod providers;
mod record;
mod scope;
mod services;
mod state;
mod unit;
mod watch;

/// Runs the plugin: what it does stands in the arguments and the environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&services::Services::default())
}
