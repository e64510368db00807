//! The reasons for which a program cannot be run to its end.

use crate::ended::Status;
use crate::program::Program;
use crate::words;
use std::io;
use std::time::Duration;

/// A program was not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It could not be started; the text says why, as in `fork/exec PATH: permission denied`.
    #[error("{0}")]
    NotStarted(String),
    /// It could not be started because there is no such program.
    #[error("{0}")]
    NotFound(String),
    /// The system did not say how it ended.
    #[error("cannot wait for {program}: {reason}")]
    Lost {
        /// The program's command line.
        program: String,
        /// The reason, in the system's words.
        reason: String,
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

impl ProgramError {
    /// The error of a program that cannot be waited for.
    pub(crate) fn lost(program: &Program, error: &io::Error) -> ProgramError {
        ProgramError::Lost { program: program.name.display().to_string(), reason: words::reason(error) }
    }
}

/// A conversation has come to its end without the answer that was waited for. Shown, it reads after the name of the program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
    #[error("cannot be waited for: {reason}")]
    Lost {
        /// The reason, in the system's words.
        reason: String,
    },
}
