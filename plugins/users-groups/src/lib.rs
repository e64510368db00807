//! The `users-groups` plugin: users and groups, managed with the system's own tools.

mod account;
mod accounts;
mod adoption;
mod apply;
mod definition;
mod document;
mod entity;
mod hindrance;
mod histories;
mod images;
mod origin;
mod plan;
mod plugin;
pub(crate) mod providers;
mod scan;
mod stack;
mod state;
#[cfg(test)]
mod tests;

pub use document::{DefinitionFinding, check_definitions, has_key};

/// Runs the plugin according to the arguments and the environment of the process.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&plugin::UsersGroups)
}
