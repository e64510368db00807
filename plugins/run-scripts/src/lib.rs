//! The `run-scripts` plugin, which runs programs at each apply, or when an entity that they subscribe to has changed.

mod comments;
mod scan;
mod script;

/// Runs the plugin, as specified by the arguments and the environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&scan::RunScripts)
}
