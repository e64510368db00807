//! Sorted tables by path, only a part of which is kept in memory.

mod run;
#[cfg(test)]
mod tests;

use crate::error::{PathError, Result};
use crate::path_handle::PathHandle;
use run::{Run, RunRows};
use std::collections::BTreeMap;
use std::collections::btree_map;
use std::ffi::OsString;
use std::fs::File;
use std::iter::Peekable;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The maximum number of rows in memory.
const IN_MEMORY: usize = if cfg!(test) { 5 } else { 4096 };
/// The number of runs from which they are merged.
const MAX_RUNS: usize = 8;

/// A row, without its path.
pub trait Row: Clone {
    /// Appends the encoded row.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// Decodes a row; `None` if it is invalid.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// A table of paths without data.
impl Row for () {
    fn encode(&self, _: &mut Vec<u8>) {}

    fn decode(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }
}

/// A path as sort key; the contents of a directory directly follow it.
type Key = Box<[u8]>;

/// A table that is sorted by path.
///
/// The most recent rows are in memory. If there are too many, they are written as a sorted run to an unnamed file,
/// which is deleted with the table. Sorted rows are appended to the last run, so that a table consists of a single run
/// unless rows are inserted out of order.
#[derive(Clone, Debug)]
pub struct Table<R> {
    /// A path in the directory for the files; `None` if all rows are kept in memory.
    spill: Option<PathHandle>,
    recent: BTreeMap<Key, R>,
    /// The rows of later runs take precedence.
    runs: Vec<Arc<Run>>,
    inserted: usize,
}

impl<R> Default for Table<R> {
    fn default() -> Table<R> {
        Table { spill: None, recent: BTreeMap::new(), runs: Vec::new(), inserted: 0 }
    }
}

impl<R: Row> Table<R> {
    /// Creates an empty table, with its files in the directory of this path. If none can be created, the table is kept
    /// in memory.
    #[must_use]
    pub fn new(spill: &PathHandle) -> Table<R> {
        Table { spill: Some(spill.clone()), ..Table::default() }
    }

    /// Creates an empty table with its files in the same directory.
    #[must_use]
    pub fn like<S: Row>(&self) -> Table<S> {
        Table { spill: self.spill.clone(), ..Table::default() }
    }

    /// Returns true if the table has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inserted == 0
    }

    /// Returns the number of inserted rows, including replaced ones.
    #[must_use]
    pub fn inserted(&self) -> usize {
        self.inserted
    }

    /// Inserts a row, replacing an existing one with the same path.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn insert(&mut self, path: &Path, row: R) -> Result<()> {
        self.recent.insert(key(path), row);
        self.inserted += 1;
        if self.recent.len() >= IN_MEMORY { self.write_recent() } else { Ok(()) }
    }

    /// Inserts rows.
    ///
    /// # Errors
    /// Those of [`insert`](Table::insert), and those of the rows.
    pub fn extend(&mut self, rows: impl IntoIterator<Item = Result<(PathBuf, R)>>) -> Result<()> {
        for row in rows {
            let (path, row) = row?;
            self.insert(&path, row)?;
        }
        Ok(())
    }

    /// Returns the row of a path.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn get(&self, path: &Path) -> Result<Option<R>> {
        let key = key(path);
        if let Some(row) = self.recent.get(&key) {
            return Ok(Some(row.clone()));
        }
        for run in self.runs.iter().rev() {
            if let Some(row) = run.get(&key)? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Returns true if the path has a row.
    ///
    /// # Errors
    /// Those of [`get`](Table::get).
    pub fn contains(&self, path: &Path) -> Result<bool> {
        let key = key(path);
        let is_recent = self.recent.contains_key(&key);
        Ok(is_recent
            || self
                .runs
                .iter()
                .rev()
                .map(|run| run.contains(&key))
                .find(|found| !matches!(found, Ok(false)))
                .transpose()?
                .unwrap_or(false))
    }

    /// Returns all rows, sorted by path.
    pub fn iter(&self) -> Rows<'_, R> {
        self.rows(false)
    }

    /// Returns all rows in reverse order, so that the contents of a directory precede it.
    pub fn backwards(&self) -> Rows<'_, R> {
        self.rows(true)
    }

    /// Returns all paths in order.
    pub fn paths(&self) -> impl Iterator<Item = Result<PathBuf>> {
        self.iter().map(|row| row.map(|(path, _)| path))
    }

    /// Returns the paths of both tables in order, each with its rows.
    pub fn join<'a, S: Row>(&'a self, other: &'a Table<S>) -> Join<'a, R, S> {
        Join { ours: self.iter().peekable(), theirs: other.iter().peekable() }
    }

    fn rows(&self, is_reversed: bool) -> Rows<'_, R> {
        let recent = self.recent.iter();
        let recent = if is_reversed { Source::RecentReversed(recent.rev()) } else { Source::Recent(recent) };
        let runs = self.runs.iter().rev().map(|run| Source::Run(run.rows(is_reversed)));
        let sources = std::iter::once(recent).chain(runs).map(Iterator::peekable).collect();
        Rows { sources, is_reversed, failed: None }
    }

    /// Writes the rows in memory to a run.
    fn write_recent(&mut self) -> Result<()> {
        let Some(first) = self.recent.keys().next() else { return Ok(()) };
        let tail = self.runs.last_mut().and_then(Arc::get_mut).filter(|run| run.is_before(first));
        if let Some(run) = tail {
            run.append(&std::mem::take(&mut self.recent))?;
            return Ok(());
        }
        let Some(mut run) = self.new_run() else { return Ok(()) };
        run.append(&std::mem::take(&mut self.recent))?;
        self.runs.push(Arc::new(run));
        if self.runs.len() > MAX_RUNS { self.merge() } else { Ok(()) }
    }

    fn merge(&mut self) -> Result<()> {
        let Some(mut merged) = self.new_run() else { return Ok(()) };
        let mut rows = self.rows(false);
        loop {
            let mut part = BTreeMap::new();
            for row in rows.by_ref().take(IN_MEMORY) {
                let (path, row) = row?;
                part.insert(key(&path), row);
            }
            if part.is_empty() {
                break;
            }
            merged.append(&part)?;
        }
        self.runs = vec![Arc::new(merged)];
        Ok(())
    }

    /// Creates an empty run; `None` if unnamed files cannot be created.
    fn new_run(&mut self) -> Option<Run> {
        let place = self.spill.as_ref()?;
        match place.unnamed_file() {
            Ok(file) => Some(Run::new(file, place.shown())),
            Err(_) => {
                self.spill = None;
                None
            }
        }
    }
}

/// The rows of a table, in order or reversed.
pub struct Rows<'a, R: Row> {
    /// The sources, newest first. Of rows with the same path, the first is used.
    sources: Vec<Peekable<Source<'a, R>>>,
    is_reversed: bool,
    failed: Option<PathError>,
}

enum Source<'a, R: Row> {
    Recent(btree_map::Iter<'a, Key, R>),
    RecentReversed(std::iter::Rev<btree_map::Iter<'a, Key, R>>),
    Run(RunRows<'a, R>),
}

impl<R: Row> Iterator for Source<'_, R> {
    type Item = Result<(Key, R)>;

    fn next(&mut self) -> Option<Self::Item> {
        let copy = |(key, row): (&Key, &R)| Ok((key.clone(), row.clone()));
        match self {
            Source::Recent(rows) => rows.next().map(copy),
            Source::RecentReversed(rows) => rows.next().map(copy),
            Source::Run(rows) => rows.next(),
        }
    }
}

impl<R: Row> Iterator for Rows<'_, R> {
    type Item = Result<(PathBuf, R)>;

    fn next(&mut self) -> Option<Self::Item> {
        let is_reversed = self.is_reversed;
        let mut next: Option<(&Key, usize)> = None;
        for (index, source) in self.sources.iter_mut().enumerate() {
            match source.peek() {
                Some(Ok((key, _))) => {
                    let comes_first = next.is_none_or(|(best, _)| if is_reversed { key > best } else { key < best });
                    if comes_first {
                        next = Some((key, index));
                    }
                }
                Some(Err(error)) => self.failed = Some(error.clone()),
                None => {}
            }
        }
        if let Some(error) = self.failed.take() {
            self.sources.clear();
            return Some(Err(error));
        }
        let (_, chosen) = next?;
        let (key, row) = self.sources.get_mut(chosen)?.next()?.ok()?;
        for source in self.sources.iter_mut().skip(chosen + 1) {
            source.next_if(|row| row.as_ref().is_ok_and(|(other, _)| *other == key));
        }
        Some(Ok((path(&key), row)))
    }
}

/// The joined paths of two tables.
pub struct Join<'a, R: Row, S: Row> {
    ours: Peekable<Rows<'a, R>>,
    theirs: Peekable<Rows<'a, S>>,
}

impl<R: Row, S: Row> Iterator for Join<'_, R, S> {
    type Item = Result<(PathBuf, Option<R>, Option<S>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let (is_ours, is_theirs) = match (self.ours.peek(), self.theirs.peek()) {
            (None, None) => return None,
            (Some(Ok((ours, _))), Some(Ok((theirs, _)))) => (ours <= theirs, theirs <= ours),
            (Some(Err(_)) | None, _) | (_, Some(Err(_)) | None) => {
                (self.ours.peek().is_some(), self.theirs.peek().is_some())
            }
        };
        let ours = self.ours.next_if(|_| is_ours).transpose();
        let theirs = self.theirs.next_if(|_| is_theirs).transpose();
        Some(ours.and_then(|ours| {
            let theirs = theirs?;
            let path = ours.as_ref().map(|(path, _)| path).or(theirs.as_ref().map(|(path, _)| path));
            let path = path.cloned().unwrap_or_default();
            Ok((path, ours.map(|(_, row)| row), theirs.map(|(_, row)| row)))
        }))
    }
}

/// Separators become 0, which is less than any other byte of a path.
fn key(path: &Path) -> Key {
    path.as_os_str().as_encoded_bytes().iter().map(|&byte| if byte == b'/' { 0 } else { byte }).collect()
}

fn path(key: &Key) -> PathBuf {
    let bytes = key.iter().map(|&byte| if byte == 0 { b'/' } else { byte }).collect();
    PathBuf::from(OsString::from_vec(bytes))
}

impl PathHandle {
    /// Creates an unnamed file in the directory of this path.
    fn unnamed_file(&self) -> Result<File> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let private = Mode::RUSR | Mode::WUSR;
        self.with("open", |folder, _| rustix::fs::openat(folder, ".", flags, private)).map(File::from)
    }
}
