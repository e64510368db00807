//! The records of earlier runs, as they are read: the newest first, and no more of them than are wanted.
//!
//! Lines that cannot be understood are passed over: a crash may have cut a line off, and a disk may have lost one.

mod search;

use super::begun::{self, Begun};
use super::record::{Began, Counts, Ended, EntityRecord, LastRun, Record, RunResult};
use crate::error::IoError;
use crate::root::Root;
use crate::run_id::RunId;
use bstr::{BString, ByteSlice};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The beginnings of lines.
pub(super) const BEGAN: &str = r#"{"record":"began","#;
const ENTITY: &str = r#"{"record":"entity","run":""#;

/// The records of a root.
#[derive(Debug)]
pub struct History {
    directory: PathBuf,
    /// The run that began last, which may be at work.
    begun: Option<Begun>,
}

/// A run that is on record.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its ID.
    pub id: RunId,
    /// The record of its beginning, unless that is damaged.
    pub began: Option<Began>,
    /// The record of its end; there is none if it was killed, or has not ended yet.
    pub ended: Option<Ended>,
    /// The lines about entities, in their file, the last one first.
    lines: Vec<Range<usize>>,
    file: Arc<Vec<u8>>,
    is_running: bool,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It has not ended yet.
    Running,
    /// It has ended, or was killed.
    Ended(RunResult),
}

impl History {
    /// Returns the records of a root. Nothing but the run that began last is read yet.
    ///
    /// # Errors
    /// If the directory of the records cannot be read. There need not be one.
    pub fn open(root: &Root) -> Result<History, IoError> {
        let directory = root.runs();
        match fs::read_dir(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(IoError::new("open", &directory, error)),
            _ => Ok(History { begun: begun::read(&directory), directory }),
        }
    }

    /// Returns the runs that there is something to say of, the newest first. Files are read when it is their turn.
    pub fn runs(&self) -> Runs<'_> {
        let begun = self.begun.as_ref().filter(|begun| !begun.has_ended).map(|begun| &begun.began);
        let only_begun = begun.filter(|began| run_in(&self.directory, &began.run).is_none());
        Runs {
            history: self,
            months: months(&self.directory).into(),
            wanted: None,
            current: Month::default(),
            only_begun,
            damaged: 0,
        }
    }

    /// Returns the same runs, but for those of months in which none of some texts is. A run that is left out has none of them.
    pub fn runs_with(&self, texts: impl IntoIterator<Item = BString>) -> Runs<'_> {
        Runs { wanted: Some(texts.into_iter().collect()), ..self.runs() }
    }

    /// Returns the last run that had nothing to do, if one is known.
    #[must_use]
    pub fn last_unchanged(&self) -> Option<LastRun> {
        serde_json::from_slice(&fs::read(self.directory.join("last.json")).ok()?).ok()
    }

    /// Returns the run of an ID, or the only one whose ID begins so.
    ///
    /// # Errors
    /// The IDs of those that begin so, if there are several or none.
    pub fn find(&self, id: &str) -> Result<Run, Vec<RunId>> {
        let mut runs = self.runs();
        runs.months.retain(|month| may_be_in(month, id));
        let mut found: Vec<Run> = runs.filter(|run| run.id.as_str().starts_with(id)).collect();
        if let Some(index) = found.iter().position(|run| run.id.as_str() == id) {
            return Ok(found.swap_remove(index));
        }
        match found.len() {
            1 => found.pop().ok_or_else(Vec::new),
            _ => Err(found.into_iter().map(|run| run.id).collect()),
        }
    }

    fn is_running(&self, id: &RunId) -> bool {
        self.begun.as_ref().is_some_and(|begun| begun.began.run == *id && begun.began.process.is_alive())
    }
}

/// The runs of a root, the newest first.
#[derive(Debug)]
pub struct Runs<'a> {
    history: &'a History,
    months: VecDeque<String>,
    /// The texts of which a month has to have one.
    wanted: Option<Vec<BString>>,
    current: Month,
    /// The run that began last, if nothing else is known of it. It comes first.
    only_begun: Option<&'a Began>,
    /// The number of lines that could not be understood.
    pub damaged: usize,
}

/// A file that is being read from its end.
#[derive(Debug, Default)]
struct Month {
    file: Arc<Vec<u8>>,
    /// The end of what has not been read.
    end: usize,
    /// The runs of which the beginning has not been found.
    open: BTreeMap<RunId, Run>,
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        if let Some(began) = self.only_begun.take() {
            let run = Run { began: Some(began.clone()), ..Run::new(began.run.clone(), &Arc::default()) };
            return Some(Run { is_running: self.history.is_running(&run.id), ..run });
        }
        loop {
            if let Some(run) = self.current.next(&mut self.damaged) {
                let is_running = run.ended.is_none() && self.history.is_running(&run.id);
                return Some(Run { is_running, ..run });
            }
            let month = self.history.directory.join(self.months.pop_front()?);
            if self.wanted.as_ref().is_none_or(|texts| search::contains_any(&month, texts).unwrap_or_default()) {
                self.current = Month::new(fs::read(month).unwrap_or_default());
            }
        }
    }
}

impl Month {
    fn new(file: Vec<u8>) -> Month {
        Month { end: file.len(), file: Arc::new(file), open: BTreeMap::new() }
    }

    /// Returns the next run whose beginning is found; at last, those that have none.
    fn next(&mut self, damaged: &mut usize) -> Option<Run> {
        while self.end > 0 {
            let file = Arc::clone(&self.file);
            let before = file.get(..self.end).unwrap_or_default();
            let start = before.rfind_byte(b'\n').map_or(0, |newline| newline + 1);
            let range = start..self.end;
            self.end = start.saturating_sub(1);
            let line = file.get(range.clone()).unwrap_or_default();
            if line.is_empty() {
                continue;
            }
            match self.take(line, range) {
                Ok(Some(run)) => return Some(run),
                Ok(None) => {}
                Err(Damaged) => *damaged += 1,
            }
        }
        self.open.pop_last().map(|(_, run)| run)
    }

    /// Takes a line. Returns the run that it begins.
    fn take(&mut self, line: &[u8], range: Range<usize>) -> Result<Option<Run>, Damaged> {
        if let Some(rest) = line.strip_prefix(ENTITY.as_bytes()) {
            // It is not parsed before somebody wants to know more of it.
            let id = rest.split_once_str("\"").and_then(|(id, _)| id.to_str().ok()).ok_or(Damaged)?;
            self.run(id).lines.push(range);
            return Ok(None);
        }
        match serde_json::from_slice(line).map_err(|_| Damaged)? {
            Record::Entity(entity) => self.run(entity.run.as_str()).lines.push(range),
            Record::Ended(ended) => {
                let run = self.run(ended.run.as_str());
                // The later one counts.
                run.ended.get_or_insert(ended);
            }
            Record::Began(began) => {
                let run = self.open.remove(&began.run).unwrap_or_else(|| Run::new(began.run.clone(), &self.file));
                return Ok(Some(Run { began: Some(began), ..run }));
            }
        }
        Ok(None)
    }

    /// Returns the run of an ID, of which the beginning has not been found.
    fn run(&mut self, id: &str) -> &mut Run {
        let id = RunId::from_text(id);
        self.open.entry(id).or_insert_with_key(|id| Run::new(id.clone(), &self.file))
    }
}

/// A line cannot be understood.
struct Damaged;

impl Run {
    fn new(id: RunId, file: &Arc<Vec<u8>>) -> Run {
        Run { id, began: None, ended: None, lines: Vec::new(), file: Arc::clone(file), is_running: false }
    }

    /// Returns its state.
    #[must_use]
    pub fn state(&self) -> RunState {
        match &self.ended {
            Some(ended) => RunState::Ended(ended.result),
            None if self.is_running => RunState::Running,
            None => RunState::Ended(RunResult::Interrupted),
        }
    }

    /// Returns the number of entities by how they ended; of a run that has not ended, of those that are on record.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        match &self.ended {
            Some(ended) => counts = ended.counts,
            None => self.entities().for_each(|entity| counts.count(entity.result)),
        }
        counts
    }

    /// Returns what it did to entities, in the order in which it did that.
    pub fn entities(&self) -> impl Iterator<Item = EntityRecord> {
        self.matching(|_| true)
    }

    /// Returns what it did to those entities whose lines, as they are written, this is true for.
    pub fn matching(&self, mut is_wanted: impl FnMut(&[u8]) -> bool) -> impl Iterator<Item = EntityRecord> {
        let lines = self.lines.iter().rev().filter_map(|line| self.file.get(line.clone()));
        lines.filter(move |line| is_wanted(line)).filter_map(|line| match serde_json::from_slice(line) {
            Ok(Record::Entity(entity)) => Some(entity),
            _ => None,
        })
    }
}

/// Returns true if the file of a month may have a run whose ID begins so.
fn may_be_in(month: &str, id: &str) -> bool {
    let digits = month.bytes().filter(u8::is_ascii_digit);
    digits.zip(id.bytes()).all(|(one, other)| one == other)
}

/// Returns the names of the files of months, the newest first.
pub(super) fn months(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_month = |name: &String| {
        name.strip_suffix(".jsonl")
            .is_some_and(|month| RunId::from_text(&month.replacen('-', "", 1)).month().as_deref() == Some(month))
    };
    let mut months: Vec<String> =
        names.filter_map(|file| file.file_name().into_string().ok()).filter(is_month).collect();
    months.sort_by(|one, other| other.cmp(one));
    months
}

/// Returns a run that is on record.
pub(super) fn run_in(directory: &Path, id: &RunId) -> Option<Run> {
    let file = fs::read(directory.join(format!("{}.jsonl", id.month()?))).ok()?;
    file.contains_str(id.as_str()).then_some(())?;
    let mut month = Month::new(file);
    let mut damaged = 0;
    std::iter::from_fn(|| month.next(&mut damaged)).find(|run| run.id == *id)
}
