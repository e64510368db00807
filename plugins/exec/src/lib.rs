//! The `exec` plugin: commands that run, unless there is a reason not to.

mod ahead;
mod call;
mod command;
mod conditions;
mod definition;
mod entity;
mod error;
mod last_run;
mod mocks;
mod scan;

/// Runs the plugin with its command line and environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&scan::Exec)
}
