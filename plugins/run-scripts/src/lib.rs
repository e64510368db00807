//! The `run-scripts` plugin: programs that are run at each apply, or when something that they name has changed.

mod comments;
mod record;
mod scan;
mod script;

/// Runs the plugin: what it does stands in the arguments and the environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&scan::RunScripts)
}
