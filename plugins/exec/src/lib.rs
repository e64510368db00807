//! The `exec` plugin: commands that run, unless there is a reason not to.

mod adoption;
mod command;
mod definition;
mod entity;
mod records;
mod scan;

/// Runs the plugin with its command line and environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&scan::Exec)
}
