//! The `ansible` plugin: unmodified Ansible modules as entities.
//!
//! A definition names a module and its arguments. The plugin does the work of Ansible's controller where possible, and
//! refuses modules that only exist there. A single Python process, the host, runs all modules of a session: it forks
//! for each task, and its answer is the result of the entity.

mod answer;
mod arrangement;
mod definition;
mod library;
mod python;
mod record;
mod runner;
mod scan;
mod task;

use crate::definition::PythonTable;
use holo_plugin::process::Program;
use holo_plugin::streams;
use std::ffi::OsString;
use std::process::ExitCode;

/// Serves the plugin, or imports a playbook if the first argument is `import`.
#[must_use]
pub fn run() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|verb| verb == "import") {
        return main(&arguments.collect::<Vec<_>>());
    }
    holo_plugin::serve(&scan::Ansible::default())
}

const SCRIPT: &str = include_str!("import.py");
const OPTION: &str = "--python";
const FAILED: u8 = 1;

/// Runs the command with these arguments.
fn main(arguments: &[OsString]) -> ExitCode {
    let mut program = Program::from_words(PythonTable::default().python.words());
    if let Some([_, chosen]) = arguments.windows(2).find(|pair| pair.first().is_some_and(|option| option == OPTION)) {
        program = Program::new(chosen);
    }
    let plugin = std::env::current_exe().unwrap_or_default();
    program.args(["-c", SCRIPT, python::SCRIPT]).arg(plugin).args(arguments).in_our_group();
    let ended = program.run(|stream, bytes| {
        // A closed output is no reason to stop in the middle.
        let _ = streams::write(stream, bytes);
    });
    match ended {
        Ok(ended) => ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED).into(),
        Err(error) => {
            streams::complain(format_args!("!! {error}"));
            ExitCode::from(FAILED)
        }
    }
}
