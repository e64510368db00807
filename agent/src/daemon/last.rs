//! The last runs, as they are kept on disk.

use crate::event::RunEvent;
use crate::journal::{Level, say};
use crate::written;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// The last runs, and the file in which they are kept.
#[derive(Debug)]
pub(super) struct LastRuns {
    path: PathBuf,
    runs: Runs,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Runs {
    run: Option<RunEvent>,
    good: Option<Timestamp>,
    /// The time at which a run began that has not ended as far as is known.
    begun: Option<Timestamp>,
}

impl LastRuns {
    /// Reads the file. If it cannot be read, nothing is known.
    pub(super) fn read(path: PathBuf) -> LastRuns {
        let runs = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        LastRuns { path, runs }
    }

    /// Returns the last whole run that has ended.
    pub(super) fn run(&self) -> Option<&RunEvent> {
        self.runs.run.as_ref()
    }

    /// Returns the time at which the last good one ended.
    pub(super) fn good(&self) -> Option<Timestamp> {
        self.runs.good
    }

    /// Returns the time at which a run began of which the end is not known.
    pub(super) fn begun(&self) -> Option<Timestamp> {
        self.runs.begun
    }

    /// Notes that a run begins, or that the end of the one that has begun is known.
    pub(super) fn set_begun(&mut self, begun: Option<Timestamp>) {
        self.runs.begun = begun;
        self.keep();
    }

    /// Notes a whole run that has ended, which is kept when its end counts as known.
    pub(super) fn ended(&mut self, run: &RunEvent, now: Timestamp) {
        if run.result.is_good() {
            self.runs.good = Some(now);
        }
        self.runs.run = Some(run.clone());
    }

    fn keep(&self) {
        let written = serde_json::to_vec(&self.runs).map_err(Into::into);
        if let Err(error) = written.and_then(|text| written::replace(&self.path, &text, 0o600)) {
            say(Level::Error, format_args!("{}: {error}", self.path.display()));
        }
    }
}
