//! Requests to the running agent, and its answers.

use crate::event::RunEvent;
use crate::report::Status;
use serde::{Deserialize, Serialize};

/// A request of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Return the status.
    Status,
    /// Begin a complete run.
    RunNow {
        /// True if the answer is the result of the run.
        #[serde(default)]
        wait: bool,
    },
    /// Make no changes for now.
    Pause {
        /// The number of seconds after which the pause ends by itself.
        #[serde(default)]
        seconds: Option<u64>,
        /// The reason, for people.
        reason: String,
        /// The name of the user.
        by: String,
    },
    /// End the pause.
    Resume {
        /// The name of the user.
        by: String,
    },
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The status.
    Status(Box<Status>),
    /// The request was met.
    Done,
    /// The result of the run.
    Run(Box<RunEvent>),
    /// The request cannot be met.
    Refused {
        /// The reason.
        reason: String,
    },
}
