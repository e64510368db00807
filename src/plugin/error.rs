//! The errors of plugins and other programs.

use super::process::{RunError, SETTING, StartError, TooMuchError};
use crate::error::FatalError;
use bstr::BString;
use holo_process::Status;
use holo_protocol::info::InfoError;
use holo_protocol::report::ReportError;
use std::time::Duration;

/// A plugin does not answer.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// It failed.
    #[error(transparent)]
    Failed(#[from] PluginError),
    /// The run must end.
    #[error(transparent)]
    Fatal(#[from] FatalError),
}

/// A plugin failed.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// It could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It exceeded its time limit.
    #[error("timed out after {0:?}")]
    TimedOut(Duration),
    /// It wrote too much.
    #[error("{0}; {SETTING}")]
    TooMuch(#[from] TooMuchError),
    /// Its process ended with this unsuccessful status.
    #[error("{}", .0.failure().unwrap_or_default())]
    Status(Status),
    /// Its session reported a failed operation. A process of version 3 would have ended with status 1.
    #[error("exit status 1")]
    Operation,
    /// Its scan report is invalid.
    #[error("error in its scan report, {}", .0.first().map(ToString::to_string).unwrap_or_default())]
    Report(Vec<ReportError>),
    /// Its session ended before it answered.
    #[error("the plugin ended its session early")]
    EndedEarly,
    /// Its session sent a line that exceeds this length.
    #[error("the plugin answered with a line of over {0} bytes")]
    LongAnswer(usize),
    /// Its session sent a line that is not a valid answer.
    #[error("cannot understand the plugin's answer \"{beginning}\": {source}")]
    Answer {
        /// The beginning of the line.
        beginning: BString,
        /// The parse error.
        source: serde_json::Error,
    },
    /// A request cannot be serialized.
    #[error(transparent)]
    Request(serde_json::Error),
    /// Its `info` operation failed.
    #[error("info with plugin {id} failed: {source}")]
    Info {
        /// Its ID.
        id: String,
        /// The reason.
        source: Box<PluginError>,
    },
    /// Its answer to `info` is invalid.
    #[error("info with plugin {id} failed: {source}")]
    InfoForm {
        /// Its ID.
        id: String,
        /// The mistake in the answer.
        source: InfoError,
    },
    /// It does not support any of our versions.
    #[error(
        "plugin holo-{id} is incompatible with this Holo (plugin min: {min}, plugin max: {max}, Holo: {})",
        holo_protocol::API_VERSION_3
    )]
    Incompatible {
        /// Its ID.
        id: String,
        /// The lowest version that it supports.
        min: u32,
        /// The highest version that it supports.
        max: u32,
    },
}

impl OperationError {
    /// Adds what was being worked on, if the run must end.
    pub(super) fn during(self, work: impl FnOnce() -> String) -> OperationError {
        match self {
            OperationError::Fatal(fatal) => OperationError::Fatal(fatal.during([work()])),
            failed @ OperationError::Failed(_) => failed,
        }
    }
}

impl From<RunError> for OperationError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Start(error) => PluginError::Start(error).into(),
            RunError::TimedOut(limit) => PluginError::TimedOut(limit).into(),
            RunError::TooMuch(error) => PluginError::TooMuch(error).into(),
            RunError::Interrupted(fatal) => OperationError::Fatal(fatal),
        }
    }
}

/// Checks that a process was successful.
///
/// # Errors
/// [`PluginError::Status`].
pub fn check_status(status: Status) -> Result<(), PluginError> {
    if status.failure().is_some() { Err(PluginError::Status(status)) } else { Ok(()) }
}
