//! The last runs, stored on disk.

use crate::event::RunEvent;
use crate::journal::{Level, say};
use crate::written;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// The last runs and their file.
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
    /// The start time of a run whose end is unknown.
    begun: Option<Timestamp>,
}

impl LastRuns {
    /// Reads the file. If it cannot be read, there are no known runs.
    pub(super) fn read(path: PathBuf) -> LastRuns {
        let runs = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        LastRuns { path, runs }
    }

    /// Returns the last finished complete run.
    pub(super) fn run(&self) -> Option<&RunEvent> {
        self.runs.run.as_ref()
    }

    /// Returns the end time of the last successful run.
    pub(super) fn good(&self) -> Option<Timestamp> {
        self.runs.good
    }

    /// Returns the start time of a run whose end is unknown.
    pub(super) fn begun(&self) -> Option<Timestamp> {
        self.runs.begun
    }

    /// Records the start of a run; `None` when its end is known.
    pub(super) fn set_begun(&mut self, begun: Option<Timestamp>) {
        self.runs.begun = begun;
        self.keep();
    }

    /// Records a finished complete run. It is saved together with the next change of `begun`.
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
