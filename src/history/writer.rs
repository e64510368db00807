//! Writes the records of a run.

use super::record::{Began, Counts, Ended, EntityRecord, LastRun, RunResult, to_json};
use super::retention;
use crate::host::run_id::RunId;
use holo_state::{Database, Durability, RunHeader, RunLimits, StateError};
use jiff::Timestamp;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The maximum time between writing records and syncing them.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// The size of buffered records, in bytes, from which they are written.
const HELD: usize = 64 << 10;

/// Writes the records of a run that holds the lock.
#[derive(Debug)]
pub struct Writer {
    state: Rc<Database>,
    run: RunId,
    /// Records that are buffered because more follow immediately.
    held: Vec<String>,
    held_size: usize,
    is_holding: bool,
    sync: Sync,
}

/// Whether records have reached the disk.
#[derive(Debug)]
enum Sync {
    /// No record has, not even the beginning of the run.
    Never,
    /// All records so far have.
    Done,
    /// Records since this time have not.
    Pending(Instant),
}

impl Writer {
    /// Records the beginning of a run, and marks runs without an end as killed.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn begin(state: &Rc<Database>, began: &Began) -> Result<Writer, StateError> {
        let killed = state.unfinished_runs()?;
        let concluded: Result<Vec<_>, StateError> = killed.iter().map(|run| conclude(state, run)).collect();
        state.begin_run(began.run.as_str(), &to_json(began), &concluded?)?;
        Ok(Writer {
            state: Rc::clone(state),
            run: began.run.clone(),
            held: Vec::new(),
            held_size: 0,
            is_holding: false,
            sync: Sync::Never,
        })
    }

    /// Appends a record.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn append(&mut self, record: &EntityRecord) -> Result<(), StateError> {
        let record = to_json(record);
        self.held_size += record.len();
        self.held.push(record);
        if self.is_holding && self.held_size < HELD { Ok(()) } else { self.write_held() }
    }

    /// Sets whether records are buffered, and writes those that are in one transaction.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn hold(&mut self, is_holding: bool) -> Result<(), StateError> {
        self.is_holding = is_holding;
        self.write_held()
    }

    fn write_held(&mut self) -> Result<(), StateError> {
        if self.held.is_empty() {
            return self.sync_now_and_then();
        }
        self.held_size = 0;
        let records = std::mem::take(&mut self.held);
        let since = match self.sync {
            Sync::Pending(since) if since.elapsed() < SYNC_EVERY => Some(since),
            Sync::Done => Some(Instant::now()),
            Sync::Never | Sync::Pending(_) => None,
        };
        let durability = if since.is_some() { Durability::Process } else { Durability::Disk };
        self.state.append_run_entries(self.run.as_str(), &records, durability)?;
        self.sync = since.map_or(Sync::Done, Sync::Pending);
        Ok(())
    }

    /// Syncs records if the oldest one has been waiting for longer than a second.
    ///
    /// # Errors
    /// If they cannot be synced.
    pub fn sync_now_and_then(&mut self) -> Result<(), StateError> {
        if let Sync::Pending(since) = self.sync
            && since.elapsed() > SYNC_EVERY
        {
            self.state.sync()?;
            self.sync = Sync::Done;
        }
        Ok(())
    }

    /// Records the end of the run, and removes records that exceed the limits.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn end(self, ended: &Ended, limits: &retention::Runs) -> Result<(), StateError> {
        let oldest = Timestamp::now().checked_sub(limits.age()).ok().map(RunId::at);
        let limits = RunLimits { oldest: oldest.as_ref().map(RunId::as_str), size: limits.size };
        self.state.end_run(self.run.as_str(), &self.held, &to_json(ended), &limits)
    }

    /// Records that the run had no work to do.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn end_unchanged(self, last: &LastRun) -> Result<(), StateError> {
        self.state.end_idle_run(self.run.as_str(), &to_json(last))
    }
}

/// Returns the end record of a killed run.
fn conclude(state: &Database, run: &RunHeader) -> Result<(i64, String), StateError> {
    let mut counts = Counts::default();
    let entries = state.run_entries(run.sequence, &[])?;
    let entities = entries.iter().filter_map(|entry| serde_json::from_str::<EntityRecord>(entry).ok());
    entities.for_each(|entity| counts.count(entity.result));
    let ended = Ended {
        run: RunId::from_text(&run.id),
        time: Timestamp::now(),
        result: RunResult::Interrupted,
        duration: None,
        exit_code: None,
        counts,
        error: None,
    };
    Ok((run.sequence, to_json(&ended)))
}
