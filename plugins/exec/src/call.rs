//! How a command of a definition is run.

use crate::command::{self, CommandError};
use crate::definition::Exec;
use holo_plugin::Mode;
use holo_plugin::definitions::WrittenCommand;
use holo_plugin::process::{Program, SYSTEM_PATH, keep_environment};
use std::time::Duration;

/// The default working directory.
const ROOT: &str = "/";

/// Returns the program for a command, with all settings of its definition.
pub(crate) fn program(
    exec: &Exec,
    written: &WrittenCommand,
    timeout: Option<Duration>,
    mode: Mode<'_>,
) -> Result<Program, CommandError> {
    let mut program = Program::from_words(command::words(written, exec.shell)?);
    program.current_dir(exec.cwd.as_deref().unwrap_or(ROOT)).identity(exec.identity());
    if exec.clean_environment {
        program.clear_env().path(SYSTEM_PATH);
    }
    keep_environment(&mut program);
    mode.tell(&mut program);
    if let Some(text) = &exec.stdin {
        program.stdin(text.as_bytes());
    }
    if let Some(path) = exec.search_path() {
        program.path(path);
    }
    program.envs(exec.variables()).timeout(timeout);
    Ok(program)
}
