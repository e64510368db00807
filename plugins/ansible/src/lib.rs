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
mod import;
mod library;
mod module;
mod no_log;
mod python;
mod record;
mod runner;
mod scan;
mod task;

/// Serves the plugin, or imports a playbook if the first argument is `import`.
#[must_use]
pub fn run() -> std::process::ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|verb| verb == "import") {
        return import::main(&arguments.collect::<Vec<_>>());
    }
    holo_plugin::serve(&scan::Ansible::default())
}
