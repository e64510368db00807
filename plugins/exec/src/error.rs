//! The reasons why a command failed.

use crate::command::CommandError;
use holo_change::PathError;
use holo_plugin::process::ProgramError;

/// A command, or one of its guards, failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecError {
    /// The failed command as written, after its key if that is not `command`.
    #[error("{command}: {reason}")]
    Failed { command: String, reason: RunError },
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The record of test mode cannot be read or written.
    #[error(transparent)]
    Mocks(#[from] PathError),
}

/// The reason why a command failed.
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
