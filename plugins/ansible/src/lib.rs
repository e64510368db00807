//! The `ansible` plugin: Ansible's modules, unchanged, as entities.
//!
//! A definition names a module and gives it arguments. What Ansible's controller would do to those is arranged; what
//! it would do alone is refused. One process of Python, the interpreter, runs all modules of a session: it forks
//! for each task, and its answer is what becomes of the entity.

mod answer;
mod arrangement;
mod controller;
mod definition;
mod difference;
mod library;
mod module;
mod python;
mod record;
mod runner;
mod scan;
mod task;

/// Does what the command line and the environment ask of the plugin.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&scan::Ansible::default())
}
