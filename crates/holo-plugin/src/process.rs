//! Programs that a plugin calls.

use crate::output::Output;
use holo_protocol::environment as names;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use holo_process::{Conversation, ConversationError, Deadline, Limits, SYSTEM_PATH, end_together};
pub use holo_process::{Ended, Identity, Output as Captured, Program, ProgramError, Status, Stream, end_by};

/// Keeps from a program what only plugins have to know, such as their own directories.
pub fn keep_environment(program: &mut Program) {
    for name in names::OF_PLUGINS {
        program.env_remove(name);
    }
}

/// Runs a program to its end; its output is relayed as it comes.
///
/// # Errors
/// If it cannot be started. How it ended is no error here.
pub fn run(program: &Program, output: &mut Output<'_>) -> Result<Ended, ProgramError> {
    program.run(|stream, bytes| output.relay(stream, bytes))
}

/// Returns the path of a program, which is looked for where `$PATH` says.
#[must_use]
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// A program has not made a file of another one.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// It was not run to its end.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// It has failed, in this way.
    #[error("{0}")]
    Failed(String),
}

/// Runs a program that gets one file and makes another; its stderr is relayed as it comes.
///
/// Without a time limit it may take as long as it likes, so it stays in our process group and ends with that.
///
/// # Errors
/// If it cannot be started or does not end with 0, in words that read after "execution of PATH failed: ".
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
