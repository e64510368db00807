//! Programs that a plugin runs.

use crate::output::Output;
use holo_process::{Channel, MAX_OUTPUT};
use holo_protocol::environment as names;
use holo_protocol::words::reason;
use std::fs::File;
use std::io::{self, Write};
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

/// The maximum output of a program whose output is passed on, in bytes. It is half of what the dispatcher accepts from an
/// operation, so that a program that prints without end is the failure of its entity, and not of the plugin.
pub const MAX_RELAYED: u64 = MAX_OUTPUT / 2;

/// Runs a program to its end, and passes on its output as it arrives, up to [`MAX_RELAYED`].
///
/// # Errors
/// If the program cannot be started, or prints too much. A program that fails is no error here.
pub fn run(program: &mut Program, output: &mut Output<'_>) -> Result<Ended, ProgramError> {
    program.output_limit(MAX_RELAYED).run(|stream, bytes| output.relay(stream, bytes))
}

/// Like [`run`], with file descriptor 3 open for messages as the plugins of version 3 send them. Returns them as they were written.
///
/// # Errors
/// Those of [`run`].
pub fn run_with_messages(program: &mut Program, output: &mut Output<'_>) -> Result<(Ended, Vec<u8>), ProgramError> {
    let mut messages = Vec::new();
    let ended = program.output_limit(MAX_RELAYED).extra_pipe().run_with_messages(|channel, bytes| match channel {
        Channel::Stdout => output.relay(Stream::Stdout, bytes),
        Channel::Stderr => output.relay(Stream::Stderr, bytes),
        Channel::Extra => messages.extend_from_slice(bytes),
    })?;
    Ok((ended, messages))
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
    /// Its output could not be written.
    #[error("cannot write its output: {}", reason(.0))]
    Write(#[source] io::Error),
    /// The program failed, as described.
    #[error("{0}")]
    Failed(String),
}

const MIB: u64 = 1 << 20;
/// The default timeout of [`filter`].
const FILTER_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Runs a program that reads a file and prints its new content, and passes on its stderr as it arrives.
///
/// Its output goes through a pipe and not directly to the file, which it could grow until the disk is full.
///
/// # Errors
/// If the program cannot be started, exceeds the timeout (by default 10 minutes) or prints more than 64 MiB in addition to
/// twice the size of its input, or its exit status is not 0. The message is meant to follow "execution of PATH
/// failed: ".
pub fn filter(
    program: &Path,
    input: File,
    mut result: File,
    timeout: Option<Duration>,
    output: &mut Output<'_>,
) -> Result<(), FilterError> {
    let path = if program.components().count() == 1 { Path::new(".").join(program) } else { program.to_owned() };
    let mut filter = Program::new(path);
    let input_size = input.metadata().map_or(0, |metadata| metadata.len());
    // Whole MiB are easier to read in the error.
    filter.output_limit(MAX_OUTPUT.saturating_add(input_size / MIB * 2 * MIB));
    filter.stdin_file(input).timeout(timeout.unwrap_or(FILTER_TIMEOUT));
    if timeout.is_none() {
        // As under version 3, it is no process group of its own, and its background processes are not waited for.
        filter.in_our_group().linger(Duration::ZERO);
    }
    let mut written = Ok(());
    let ended = filter.run(|stream, bytes| match stream {
        Stream::Stdout if written.is_ok() => written = result.write_all(bytes),
        Stream::Stdout => {}
        Stream::Stderr => output.relay(stream, bytes),
    })?;
    written.map_err(FilterError::Write)?;
    ended.failure().map_or(Ok(()), |failure| Err(FilterError::Failed(failure)))
}
