//! Determines the outcome of a run whose agent has crashed, from the records of holo.

use crate::child::{ChildId, Running, TRIGGER};
use crate::event::{RunEvent, RunResult};
use holo_events::{Line, RunLine, Tally};
use jiff::Timestamp;
use std::time::Duration;
use tokio::time::Instant;

/// The interval for checking a run that is still in progress.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The timeout for reading the records.
const LIMIT: Duration = Duration::from_secs(5 * 60);

/// A query of the records.
pub(super) struct CatchUp {
    pub(super) id: ChildId,
    child: Box<dyn Running>,
    /// The start time of the run.
    begun: Timestamp,
    runs: Vec<RunEvent>,
    is_running: bool,
    /// The deadline; `None` after the child was killed.
    limit: Option<Instant>,
}

impl CatchUp {
    pub(super) fn new(id: ChildId, child: Box<dyn Running>, begun: Timestamp) -> CatchUp {
        let limit = Some(Instant::now() + LIMIT);
        CatchUp { id, child, begun, runs: Vec::new(), is_running: false, limit }
    }

    pub(super) fn hear(&mut self, line: &Line<'_>) {
        let Line::Run(run) = line else { return };
        // Watches also have records of their repairs, which they have already reported.
        let is_ours = run.trigger.as_ref().is_some_and(|trigger| trigger.to_string() == TRIGGER);
        if !is_ours || run.command.get(1).is_none_or(|verb| verb.to_string() != "apply") {
            return;
        }
        match event(run, self.begun) {
            Some(event) => self.runs.push(event),
            None => self.is_running = true,
        }
    }

    /// Kills the child after the deadline.
    pub(super) fn kill_if_late(&mut self, now: Instant) {
        if self.limit.take_if(|limit| *limit <= now).is_some() {
            self.child.kill();
        }
    }

    /// Returns the deadline.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.limit
    }

    pub(super) fn end(&self) {
        self.child.end();
    }

    /// Returns the runs, oldest first; `None` if one is still in progress.
    pub(super) fn finish(mut self) -> Option<Vec<RunEvent>> {
        if self.is_running {
            return None;
        }
        self.runs.reverse();
        Some(if self.runs.is_empty() { CatchUp::unknown(self.begun) } else { self.runs })
    }

    /// Returns the event for a run without a record.
    pub(super) fn unknown(begun: Timestamp) -> Vec<RunEvent> {
        vec![RunEvent {
            run: None,
            verb: "apply".to_owned(),
            entities: Vec::new(),
            result: RunResult::Interrupted,
            began: begun,
            duration: 0.0,
            exit_code: None,
            tally: Tally::default(),
            refreshes_due: 0,
            generation: None,
            failed: Vec::new(),
            error: Some("the agent has ended while it was at work, and it has changed nothing since".to_owned()),
        }]
    }
}

/// Returns the event for a recorded run; `None` if it is still in progress.
fn event(run: &RunLine<'_>, begun: Timestamp) -> Option<RunEvent> {
    let result = match &*run.result {
        "running" => return None,
        "unchanged" => RunResult::Unchanged,
        "changed" => RunResult::Changed,
        "refused" => RunResult::Refused,
        "interrupted" => RunResult::Interrupted,
        _ => RunResult::Failed,
    };
    Some(RunEvent {
        run: Some(run.run.to_string()),
        verb: "apply".to_owned(),
        // The arguments follow `holo apply --json`.
        entities: run.command.iter().skip(3).map(ToString::to_string).collect(),
        result,
        began: run.time.as_ref().and_then(|time| time.parse().ok()).unwrap_or(begun),
        duration: run.duration.unwrap_or_default(),
        exit_code: run.exit_code.map(i32::from),
        tally: run.tally,
        refreshes_due: 0,
        generation: None,
        failed: Vec::new(),
        error: run.error.as_ref().map(ToString::to_string),
    })
}
