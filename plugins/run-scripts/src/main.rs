//! The `run-scripts` plugin: programs that are run at each apply, or when something that they name has changed.

mod comments;
mod record;
mod scan;
mod script;

fn main() -> std::process::ExitCode {
    holo_plugin::serve(&scan::RunScripts)
}
