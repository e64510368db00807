//! The reasons for which a program cannot be run to its end.

/// A program was not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
