//! The `exec` plugin: commands that are run, unless there is a reason not to.

mod call;
mod command;
mod conditions;
mod definition;
mod entity;
mod mocks;
mod scan;

fn main() -> std::process::ExitCode {
    holo_plugin::serve(&scan::Exec)
}
