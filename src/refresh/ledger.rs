//! The ledger of refreshes: a journal of lines, each of which says what has become of one refresh; the last one that names it counts.
//!
//! A run that writes begins it anew, in a file that replaces the old one, and appends from then on.

use crate::error::FatalError;
use bstr::ByteSlice;
use holo_protocol::Text;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const VERSION: u32 = 2;

/// The first line of the ledger.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    version: u32,
}

/// Any other line: what has become of a refresh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) source: Text,
    pub(super) target: Text,
    /// The ID of the target's plugin.
    pub(super) plugin: String,
    pub(super) state: Stage,
    /// The values that the source has sent to the target, each `KEY=VALUE`, no key twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sent: Vec<Text>,
    /// The time since when it is due, or expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Timestamp>,
}

impl Record {
    /// Returns that a refresh is over.
    pub(super) fn done(source: Text, target: Text) -> Record {
        Record { source, target, plugin: String::new(), state: Stage::Done, sent: Vec::new(), since: None }
    }
}

/// The stage of a refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Stage {
    /// It will be due if the source changes. A later run that finds this takes it that it did.
    Expected,
    /// The source has changed.
    Due,
    /// It is over.
    Done,
}

/// The ledger of a root.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    /// The open file, once this run has begun it anew.
    journal: Option<Journal>,
}

/// An open ledger.
#[derive(Debug)]
struct Journal {
    file: File,
    /// The number of its records.
    lines: usize,
    is_synced: bool,
}

/// A ledger cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the refreshes that are due from {}: {reason}; remove it to forget them", path.display())]
struct LedgerError {
    path: PathBuf,
    reason: LedgerErrorKind,
}

/// The reason for which a ledger cannot be read.
#[derive(Debug, thiserror::Error)]
enum LedgerErrorKind {
    #[error(transparent)]
    Line(#[from] serde_json::Error),
    #[error("it is of version {0}, and only {VERSION} is known")]
    Version(serde_json::Value),
}

impl Ledger {
    /// Returns the ledger at a path, of which nothing is read.
    pub(super) fn new(path: PathBuf) -> Ledger {
        Ledger { path, journal: None }
    }

    /// Reads the ledger at a path; there need not be one.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn open(path: PathBuf) -> Result<(Ledger, Vec<Record>), FatalError> {
        let records = match fs::read(&path) {
            Ok(text) => match parse(&text) {
                Ok(records) => records,
                Err(reason) => return Err(FatalError::could_not_run(LedgerError { path, reason })),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(FatalError::io("open", &path, error)),
        };
        Ok((Ledger::new(path), records))
    }

    /// Returns true if this run has begun it anew.
    pub(super) fn is_begun(&self) -> bool {
        self.journal.is_some()
    }

    /// Returns the number of records that this run has written.
    pub(super) fn lines(&self) -> usize {
        self.journal.as_ref().map_or(0, |journal| journal.lines)
    }

    /// Begins a ledger with these records, which replaces the old one.
    pub(super) fn begin(&mut self, records: Vec<Record>) -> Result<(), FatalError> {
        self.journal = None;
        let journal = begin(&self.path, records).map_err(|error| self.not_written(error))?;
        self.journal = Some(journal);
        Ok(())
    }

    /// Appends records to a ledger that was begun. If that fails, the next ones begin it anew.
    pub(super) fn append(&mut self, records: Vec<Record>) -> Result<(), FatalError> {
        let Some(mut journal) = self.journal.take() else { return Ok(()) };
        journal.append(records).map_err(|error| self.not_written(error))?;
        self.journal = Some(journal);
        Ok(())
    }

    /// Returns when all that was written is safely on disk.
    pub(super) fn sync(&mut self) -> Result<(), FatalError> {
        let synced = self.journal.as_mut().map_or(Ok(()), Journal::sync);
        synced.map_err(|error| self.not_written(error))
    }

    /// Returns true if there is a ledger, or what a crash has left of one.
    pub(super) fn has_files(&self) -> bool {
        self.files().iter().any(|file| file.exists())
    }

    fn files(&self) -> [PathBuf; 2] {
        [self.path.clone(), self.path.with_extension("new")]
    }

    /// Removes the ledger, and its folder if nothing else is in it.
    pub(super) fn remove(&mut self) -> Result<(), FatalError> {
        self.journal = None;
        for file in self.files() {
            match fs::remove_file(&file) {
                // What is not there need not be removed from where nothing can be.
                Err(error) if error.kind() != io::ErrorKind::NotFound && file.exists() => {
                    return Err(self.not_written(error));
                }
                _ => {}
            }
        }
        // Others may keep something there too.
        let _ = fs::remove_dir(folder(&self.path));
        Ok(())
    }

    fn not_written(&self, error: io::Error) -> FatalError {
        FatalError::io("write", &self.path, error)
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

fn begin(path: &Path, records: Vec<Record>) -> io::Result<Journal> {
    let folder = folder(path);
    fs::create_dir_all(folder)?;
    let new = path.with_extension("new");
    let mut journal = Journal { file: File::create(&new)?, lines: 0, is_synced: false };
    journal.file.write_all(&line(&Header { version: VERSION })?)?;
    journal.append(records)?;
    journal.sync()?;
    fs::rename(&new, path)?;
    // The folder may be new too.
    File::open(folder)?.sync_all()?;
    folder.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())?;
    Ok(journal)
}

impl Journal {
    fn append(&mut self, records: Vec<Record>) -> io::Result<()> {
        let mut text = Vec::new();
        for record in records {
            text.extend(line(&record)?);
            self.lines += 1;
        }
        self.is_synced = false;
        // In one call, so that a kill leaves all of it or nothing.
        self.file.write_all(&text)
    }

    fn sync(&mut self) -> io::Result<()> {
        if !self.is_synced {
            self.file.sync_data()?;
            self.is_synced = true;
        }
        Ok(())
    }
}

fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// Returns the records of a ledger. What a crash has left half written at its end was not synced, so nothing was done because of it.
fn parse(text: &[u8]) -> Result<Vec<Record>, LedgerErrorKind> {
    let whole = text.rfind_byte(b'\n').and_then(|end| text.get(..end)).unwrap_or_default();
    let mut lines = whole.split_str("\n");
    let header: serde_json::Value = serde_json::from_slice(lines.next().unwrap_or_default())?;
    let version = header.get("version").cloned().unwrap_or_default();
    if version != VERSION {
        return Err(LedgerErrorKind::Version(version));
    }
    lines.map(|line| Ok(serde_json::from_slice(line)?)).collect()
}
