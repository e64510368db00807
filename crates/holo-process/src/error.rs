//! The reasons for which a program cannot be run to its end.

use crate::ended::Status;
use crate::words;
use std::ffi::NulError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A program was not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It could not be started.
    #[error(transparent)]
    NotStarted(StartError),
    /// It could not be started because there is no such program.
    #[error(transparent)]
    NotFound(StartError),
    /// The system did not say how it ended.
    #[error("cannot wait for {program}: {}", words::reason(source))]
    Lost {
        /// The program's name.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// It said more than is [captured](crate::Program::output), and was ended.
    #[error("{program} printed more than {limit} bytes")]
    TooMuchOutput {
        /// The program's name.
        program: String,
        /// The number of bytes that may be captured.
        limit: usize,
    },
}

/// A program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system could not start it, or found no such program.
    #[error("fork/exec {}: {}", path.display(), words::reason(source))]
    Exec {
        /// The program.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Its working directory cannot be used.
    #[error("chdir {}: {}", directory.display(), words::reason(source))]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is no program of this name in the path.
    #[error("exec: \"{name}\": executable file not found in $PATH")]
    NotInPath {
        /// The name.
        name: String,
    },
    /// The file of this name in the path is not executable.
    #[error("exec: \"{name}\": {}: permission denied", path.display())]
    NotExecutable {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// It was to run as another user, for which our own process would have to be [prepared](crate::prepare).
    #[error("{program}: this process cannot run programs as someone else")]
    NotPrepared {
        /// The program's name.
        program: String,
    },
    /// It was to run as a user or group that cannot be taken on.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The process that was to become the program could not; the text says why.
    #[error("{reason}")]
    Launcher {
        /// The reason.
        reason: String,
    },
}

/// A user or group cannot be taken on.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// There is no such user.
    #[error("there is no user {name:?}")]
    NoUser {
        /// The name.
        name: String,
    },
    /// There is no such group.
    #[error("there is no group {name:?}")]
    NoGroup {
        /// The name.
        name: String,
    },
    /// The number has no account that would name its group.
    #[error("user {uid} has no account, so it needs a group")]
    NeedsGroup {
        /// The number.
        uid: u32,
    },
    /// The name of an account holds a NUL.
    #[error(transparent)]
    Name(#[from] NulError),
    /// The system did not say.
    #[error("cannot {action}: {}", words::reason(source))]
    System {
        /// The question: `look up user x`.
        action: String,
        /// The system's error.
        source: io::Error,
    },
}

/// A conversation has come to its end without the answer that was waited for. Shown, it reads after the name of the program.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// The program has ended.
    #[error("ended before its answer was complete: {}", status.in_words())]
    Ended {
        /// The way it ended.
        status: Status,
        /// True if there is a part of an answer.
        is_answering: bool,
    },
    /// It has closed its standard output, and went on running.
    #[error("closed its standard output before its answer was complete")]
    OutputClosed,
    /// Its answer was not complete in time.
    #[error("did not answer within {limit:?}")]
    Late {
        /// The time that it had.
        limit: Duration,
    },
    /// It answered with a line that is too long.
    #[error("answered with a line of more than {limit} bytes")]
    LineTooLong {
        /// The number of bytes that a line may have.
        limit: usize,
    },
    /// It answered too much.
    #[error("answered with more than {limit} bytes")]
    AnswerTooLong {
        /// The number of bytes that an answer may have.
        limit: usize,
    },
    /// The system did not say what became of it.
    #[error("cannot be waited for: {}", words::reason(.0))]
    Lost(#[source] io::Error),
}
