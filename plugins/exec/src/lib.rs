//! The `exec` plugin: commands that are run, unless there is a reason not to.

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

/// Runs the plugin: what it does stands in the arguments and the environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&scan::Exec)
}
