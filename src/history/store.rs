//! Writes the records of a run, and reads those of earlier runs, newest first and on demand.

use super::record::{Began, Counts, Ended, EntityRecord, LastRun, RunResult, to_json};
use crate::host::engine;
use crate::host::root::Root;
use crate::host::settings::RunId;
use bstr::BString;
use holo_change::PathError;
use holo_change::edited::EditedVersions;
use holo_state::{Database, Durability, RunHeader, RunLimits, StateError};
use jiff::Timestamp;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The number of runs that are read at once.
const PAGE: usize = 64;

/// The records of a root.
#[derive(Debug)]
pub struct History {
    state: Rc<Database>,
}

/// A recorded run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its ID.
    pub id: RunId,
    /// The record of its beginning; `None` if a newer version wrote it.
    pub began: Option<Began>,
    /// The record of its end; `None` if it was killed or is still running.
    pub ended: Option<Ended>,
    sequence: i64,
    /// A filter: only records that contain one of these texts are returned.
    texts: Rc<Vec<BString>>,
    state: Rc<Database>,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It is still running.
    Running,
    /// It has ended, or was killed.
    Ended(RunResult),
}

impl History {
    /// Opens the records of a root. A missing database counts as empty.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn open(root: &Root) -> Result<History, StateError> {
        let state = Database::snapshot(root.state_database());
        state.runs(None, 0)?;
        Ok(History { state: Rc::new(state) })
    }

    /// Returns the runs that had work to do, newest first.
    pub fn runs(&self) -> Runs<'_> {
        self.runs_with([])
    }

    /// Returns the runs with a record that contains one of these texts. Their entities are limited to such records.
    pub fn runs_with(&self, texts: impl IntoIterator<Item = BString>) -> Runs<'_> {
        let texts = Rc::new(texts.into_iter().collect());
        Runs { history: self, page: VecDeque::new(), before: None, texts, damaged: 0 }
    }

    /// Returns the last run that had no work to do, if there is one.
    #[must_use]
    pub fn last_unchanged(&self) -> Option<LastRun> {
        serde_json::from_str(&self.state.idle_run().ok()??).ok()
    }

    /// Returns the run with this ID, or the only run whose ID has this prefix.
    ///
    /// # Errors
    /// The IDs with this prefix, if there are several or none.
    pub fn find(&self, id: &str) -> Result<Run, Vec<RunId>> {
        let mut found = self.state.runs_by_prefix(id).unwrap_or_default();
        if let Some(index) = found.iter().position(|run| run.id == id) {
            found = vec![found.swap_remove(index)];
        }
        match found.pop() {
            Some(run) if found.is_empty() => Ok(self.run(run, &Rc::default())),
            last => Err(found.into_iter().chain(last).map(|run| RunId::from_text(&run.id)).collect()),
        }
    }

    fn run(&self, header: RunHeader, texts: &Rc<Vec<BString>>) -> Run {
        Run {
            id: RunId::from_text(&header.id),
            began: serde_json::from_str(&header.began).ok(),
            ended: header.ended.and_then(|ended| serde_json::from_str(&ended).ok()),
            sequence: header.sequence,
            texts: Rc::clone(texts),
            state: Rc::clone(&self.state),
        }
    }
}

/// The runs of a root, newest first.
#[derive(Debug)]
pub struct Runs<'a> {
    history: &'a History,
    page: VecDeque<RunHeader>,
    /// The run that was read last.
    before: Option<i64>,
    texts: Rc<Vec<BString>>,
    /// The number of reads that failed. The first failure ends the iteration.
    pub damaged: usize,
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        loop {
            if self.page.is_empty() {
                let page = self.history.state.runs(self.before, PAGE);
                self.damaged += usize::from(page.is_err());
                self.page = page.unwrap_or_default().into();
            }
            let run = self.page.pop_front()?;
            self.before = Some(run.sequence);
            let run = self.history.run(run, &self.texts);
            if self.texts.is_empty() || run.entities().next().is_some() {
                return Some(run);
            }
        }
    }
}

impl Run {
    /// Returns its state.
    #[must_use]
    pub fn state(&self) -> RunState {
        match &self.ended {
            Some(ended) => RunState::Ended(ended.result),
            None if self.began.as_ref().is_some_and(|began| began.process.is_alive()) => RunState::Running,
            None => RunState::Ended(RunResult::Interrupted),
        }
    }

    /// Returns the number of entities by result; of a run that has not ended, those recorded so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        match &self.ended {
            Some(ended) => counts = ended.counts,
            None => self.entities().for_each(|entity| counts.count(entity.result)),
        }
        counts
    }

    /// Returns the records of its entities, in the order of the work.
    pub fn entities(&self) -> impl Iterator<Item = EntityRecord> + use<> {
        let entries = self.state.run_entries(self.sequence, &self.texts).unwrap_or_default();
        entries.into_iter().filter_map(|entry| serde_json::from_str(&entry).ok())
    }
}

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
    pub fn end(self, ended: &Ended, limits: &engine::Runs) -> Result<(), StateError> {
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

/// Removes edited versions that exceed the limits of the records.
///
/// # Errors
/// If the database cannot be read or written.
pub(super) fn retain_edited(root: &Root, limits: &engine::Runs) -> Result<(), PathError> {
    let oldest = Timestamp::now().checked_sub(limits.age()).ok().map(Timestamp::as_microsecond);
    let oldest = oldest.and_then(|oldest| u64::try_from(oldest).ok());
    EditedVersions::of(&root.engine_locations()).retain(oldest, limits.size)
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
