//! Programs that a plugin runs.

use crate::output::Output;
use holo_protocol::environment as names;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use holo_process::{Conversation, ConversationError, Deadline, Limits, SYSTEM_PATH, end_together};
pub use holo_process::{Ended, Identity, Output as Captured, Program, ProgramError, Status, Stream, end_by};

/// Removes variables from a program's environment that are only meant for plugins, such as their directories.
pub fn keep_environment(program: &mut Program) {
    for name in names::OF_PLUGINS {
        program.env_remove(name);
    }
}

/// Runs a program to its end, and passes on its output as it arrives.
///
/// # Errors
/// If the program cannot be started. A program that fails is no error here.
pub fn run(program: &Program, output: &mut Output<'_>) -> Result<Ended, ProgramError> {
    program.run(|stream, bytes| output.relay(stream, bytes))
}

/// Returns the path of a program in `$PATH`.
#[must_use]
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// A filter program failed.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// The program could not be run.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The program failed, as described.
    #[error("{0}")]
    Failed(String),
}

/// Runs a program that reads one file and writes another, and passes on its stderr as it arrives.
///
/// Without a timeout, its duration is unlimited. Therefore it stays in our process group, and ends with it.
///
/// # Errors
/// If the program cannot be started, or its exit status is not 0. The message is meant to follow "execution of PATH
/// failed: ".
pub fn filter(
    program: &Path,
    input: File,
    result: File,
    timeout: Option<Duration>,
    output: &mut Output<'_>,
) -> Result<(), FilterError> {
    let path = if program.components().count() == 1 { Path::new(".").join(program) } else { program.to_owned() };
    let mut filter = Program::new(path);
    filter.stdin_file(input).stdout_file(result);
    match timeout {
        None => filter.in_our_group().linger(Duration::ZERO),
        Some(limit) => filter.timeout(limit),
    };
    let ended = run(&filter, output)?;
    ended.failure().map_or(Ok(()), |failure| Err(FilterError::Failed(failure)))
}
