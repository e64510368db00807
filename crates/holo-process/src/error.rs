//! The errors of starting programs and waiting for them.

use crate::ended::Status;
use crate::meter::Size;
use crate::words;
use std::ffi::NulError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A program could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It could not be started.
    #[error(transparent)]
    NotStarted(StartError),
    /// It could not be started because there is no such program.
    #[error(transparent)]
    NotFound(StartError),
    /// Its exit status could not be determined.
    #[error("cannot wait for {program}: {}", words::reason(source))]
    Lost {
        /// The program's name.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// Its output exceeded the [limit](crate::Program::output_limit), and it was killed.
    #[error("{program} printed more than {}", Size(*limit))]
    TooMuchOutput {
        /// The program's name.
        program: String,
        /// The limit in bytes.
        limit: u64,
    },
}

/// A program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system could not execute it, or it does not exist.
    #[error("fork/exec {}: {}", path.display(), words::reason(source))]
    Exec {
        /// The program.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Its working directory is not accessible.
    #[error("chdir {}: {}", directory.display(), words::reason(source))]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The search path contains no program with this name.
    #[error("exec: \"{name}\": executable file not found in $PATH")]
    NotInPath {
        /// The name.
        name: String,
    },
    /// The search path contains only a file with this name that is not executable.
    #[error("exec: \"{name}\": {}: permission denied", path.display())]
    NotExecutable {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// Another user's programs can only be started if this process is [prepared](crate::prepare).
    #[error("{program}: this process cannot run programs as someone else")]
    NotPrepared {
        /// The program's name.
        program: String,
    },
    /// The process cannot run as the user or group.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The launcher could not execute the program.
    #[error("{reason}")]
    Launcher {
        /// The reason reported by the launcher.
        reason: String,
    },
}

/// The identity of a program is invalid.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The user does not exist.
    #[error("there is no user {name:?}")]
    NoUser {
        /// The name.
        name: String,
    },
    /// The group does not exist.
    #[error("there is no group {name:?}")]
    NoGroup {
        /// The name.
        name: String,
    },
    /// A numeric user without account, and therefore without primary group, needs a group.
    #[error("user {uid} has no account, so it needs a group")]
    NeedsGroup {
        /// The user ID.
        uid: u32,
    },
    /// The name of an account contains a NUL.
    #[error(transparent)]
    Name(#[from] NulError),
    /// The system could not look up the account.
    #[error("cannot {action}: {}", words::reason(source))]
    System {
        /// The failed operation, such as `look up user x`.
        action: String,
        /// The system's error.
        source: io::Error,
    },
}

/// A conversation ended without the expected answer. The message is meant to follow the name of the program.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// The program has ended.
    #[error("ended before its answer was complete: {}", status.in_words())]
    Ended {
        /// The exit status.
        status: Status,
        /// True if part of an answer was received.
        is_answering: bool,
    },
    /// The program closed its standard output, but did not exit.
    #[error("closed its standard output before its answer was complete")]
    OutputClosed,
    /// The answer was not complete before the deadline.
    #[error("did not answer within {limit:?}")]
    Late {
        /// The time limit of the answer.
        limit: Duration,
    },
    /// A line of the answer exceeded the limit.
    #[error("answered with a line of more than {limit} bytes")]
    LineTooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer exceeded the limit.
    #[error("answered with more than {limit} bytes")]
    AnswerTooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// Its standard error exceeded the limit.
    #[error("wrote more than {} to its standard error", Size(*limit))]
    DiagnosticsTooLong {
        /// The limit in bytes.
        limit: u64,
    },
    /// Waiting for the program failed.
    #[error("cannot be waited for: {}", words::reason(.0))]
    Lost(#[source] io::Error),
}
