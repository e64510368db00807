//! The `services` plugin: units that are running or stopped, enabled or disabled, or masked.

mod adoption;
mod apply;
mod definition;
mod entity;
mod plan;
mod providers;
mod record;
mod services;
mod state;
mod unit;

/// Runs the plugin with its command line and environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&services::Services::default())
}
