//! The `ansible` plugin: unmodified Ansible modules as entities.
//!
//! A definition names a module and its arguments. The plugin does the work of Ansible's controller where possible, and
//! refuses modules that only exist there. A single Python process, the host, runs all modules of a session: it forks
//! for each task, and its answer is the result of the entity.

mod answer;
mod arrangement;
mod controller;
mod definition;
mod difference;
mod library;
mod module;
mod no_log;
mod python;
mod record;
mod runner;
mod scan;
mod task;

/// Runs the plugin with its command line and environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&scan::Ansible::default())
}
