//! The reasons why a command was not run to its desired end.

use crate::command::CommandError;
use holo_change::PathError;
use holo_plugin::process::ProgramError;

/// A command, or one that decides about it, has not come to its desired end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecError {
    /// The command is named as it is written down, after the key that it stands at if that is another one than `command`.
    #[error("{command}: {reason}")]
    Failed { command: String, reason: RunError },
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The memory of test mode cannot be read or written.
    #[error(transparent)]
    Mocks(#[from] PathError),
}

/// The way in which a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("{0}")]
    Ended(String),
    #[error("it has not created {0}")]
    NotCreated(String),
}
