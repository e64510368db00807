//! `holo-ansible import`: converts playbooks and roles. A Python script does so, as it needs the filters of Ansible.

use crate::definition::PythonTable;
use crate::python;
use holo_plugin::Stream;
use holo_plugin::process::Program;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

const SCRIPT: &str = include_str!("import.py");
const OPTION: &str = "--python";
const FAILED: u8 = 1;

/// Runs the command with these arguments.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    let mut program = Program::from_words(PythonTable::default().python.words());
    if let Some([_, chosen]) = arguments.windows(2).find(|pair| pair.first().is_some_and(|option| option == OPTION)) {
        program = Program::new(chosen);
    }
    let plugin = std::env::current_exe().unwrap_or_default();
    program.args(["-c", SCRIPT, python::SCRIPT]).arg(plugin).args(arguments).in_our_group();
    let ended = program.run(|stream, bytes| {
        // A closed output is no reason to stop in the middle.
        let _ = match stream {
            Stream::Stdout => std::io::stdout().write_all(bytes),
            Stream::Stderr => std::io::stderr().write_all(bytes),
        };
    });
    match ended {
        Ok(ended) => ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED).into(),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "!! {error}");
            ExitCode::from(FAILED)
        }
    }
}
