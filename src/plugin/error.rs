//! The reasons for which a plugin, or another program, does not do what it is asked for.

use super::process::{RunError, StartError};
use crate::error::FatalError;
use bstr::BString;
use holo_process::Status;
use holo_protocol::info::InfoError;
use holo_protocol::report::ReportError;
use std::time::Duration;

/// A plugin gives no answer.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// It failed.
    #[error(transparent)]
    Failed(#[from] PluginError),
    /// The run is to end.
    #[error(transparent)]
    Fatal(#[from] FatalError),
}

/// A plugin failed.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// It could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It was ended, as it had taken so long.
    #[error("timed out after {0:?}")]
    TimedOut(Duration),
    /// Its process ended with this status, which is not that of a success.
    #[error("{}", .0.failure().unwrap_or_default())]
    Status(Status),
    /// Its session answered that an operation failed. A process of version 3 would have ended with 1.
    #[error("exit status 1")]
    Operation,
    /// Its scan report has mistakes.
    #[error("error in its scan report, {}", .0.first().map(ToString::to_string).unwrap_or_default())]
    Report(Vec<ReportError>),
    /// Its session ended before it had answered.
    #[error("the plugin ended its session early")]
    EndedEarly,
    /// Its session answered with a line that is longer than this.
    #[error("the plugin answered with a line of over {0} bytes")]
    LongAnswer(usize),
    /// Its session answered with something else than an answer.
    #[error("cannot understand the plugin's answer \"{beginning}\": {source}")]
    Answer {
        /// The beginning of the line.
        beginning: BString,
        /// The mistake in it.
        source: serde_json::Error,
    },
    /// A request cannot be put into JSON.
    #[error(transparent)]
    Request(serde_json::Error),
    /// It does not say what it speaks.
    #[error("info with plugin {id} failed: {source}")]
    Info {
        /// Its ID.
        id: String,
        /// The reason.
        source: Box<PluginError>,
    },
    /// It does not say in the right form what it speaks.
    #[error("info with plugin {id} failed: {source}")]
    InfoForm {
        /// Its ID.
        id: String,
        /// The mistake in what it says.
        source: InfoError,
    },
    /// It speaks no version that we speak.
    #[error(
        "plugin holo-{id} is incompatible with this Holo (plugin min: {min}, plugin max: {max}, Holo: {})",
        holo_protocol::API_VERSION_3
    )]
    Incompatible {
        /// Its ID.
        id: String,
        /// The lowest version that it speaks.
        min: u32,
        /// The highest version that it speaks.
        max: u32,
    },
}

impl OperationError {
    /// Says what was being worked on, if the run is to end.
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
            RunError::Interrupted(fatal) => OperationError::Fatal(fatal),
        }
    }
}

/// Returns an error unless a process has ended well.
///
/// # Errors
/// [`PluginError::Status`].
pub fn check_status(status: Status) -> Result<(), PluginError> {
    if status.failure().is_some() { Err(PluginError::Status(status)) } else { Ok(()) }
}
