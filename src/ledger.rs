//! Ledgers: journals of lines, each of which says what has become of one thing; the last one that names it counts.
//!
//! A run that writes begins a ledger anew, in a file that replaces the old one, and appends from then on.

use crate::error::FatalError;
use bstr::ByteSlice;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::marker::PhantomData;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The first line of the ledger.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    version: u32,
}

/// The content of a ledger.
pub trait Entry: Serialize + DeserializeOwned {
    /// The version of the form.
    const VERSION: u32;
    /// The words for what is in it, as they stand in errors.
    const WHAT: &'static str;
    /// The permissions of the file, of which the umask may take some.
    const MODE: u32 = 0o644;
}

/// A ledger of a root.
#[derive(Debug)]
pub struct Ledger<R> {
    path: PathBuf,
    /// The open file, once this run has begun it anew.
    journal: Option<Journal>,
    entries: PhantomData<fn(R)>,
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
#[error("cannot read {what} from {}: {reason}; remove it to forget them", path.display())]
struct LedgerError {
    what: &'static str,
    path: PathBuf,
    reason: LedgerErrorKind,
}

/// The reason for which a ledger cannot be read.
#[derive(Debug, thiserror::Error)]
enum LedgerErrorKind {
    #[error(transparent)]
    Line(#[from] serde_json::Error),
    #[error("it is of version {0}, and only {1} is known")]
    Version(serde_json::Value, u32),
}

impl<R: Entry> Ledger<R> {
    /// Returns the ledger at a path, of which nothing is read.
    #[must_use]
    pub fn new(path: PathBuf) -> Ledger<R> {
        Ledger { path, journal: None, entries: PhantomData }
    }

    /// Reads the ledger at a path; there need not be one.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(path: PathBuf) -> Result<(Ledger<R>, Vec<R>), FatalError> {
        let records = match fs::read(&path) {
            Ok(text) => match parse(&text) {
                Ok(records) => records,
                Err(reason) => return Err(FatalError::could_not_run(LedgerError { what: R::WHAT, path, reason })),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(FatalError::io("open", &path, error)),
        };
        Ok((Ledger::new(path), records))
    }

    /// Returns true if this run has begun it anew.
    pub fn is_begun(&self) -> bool {
        self.journal.is_some()
    }

    /// Returns the number of records that this run has written.
    pub fn lines(&self) -> usize {
        self.journal.as_ref().map_or(0, |journal| journal.lines)
    }

    /// Begins a ledger with these records, which replaces the old one.
    pub fn begin(&mut self, records: Vec<R>) -> Result<(), FatalError> {
        self.journal = None;
        let journal = begin(&self.path, records).map_err(|error| self.not_written(error))?;
        self.journal = Some(journal);
        Ok(())
    }

    /// Appends records to a ledger that was begun. If that fails, the next ones begin it anew.
    pub fn append(&mut self, records: Vec<R>) -> Result<(), FatalError> {
        let Some(mut journal) = self.journal.take() else { return Ok(()) };
        journal.append(records).map_err(|error| self.not_written(error))?;
        self.journal = Some(journal);
        Ok(())
    }

    /// Returns when all that was written is safely on disk.
    pub fn sync(&mut self) -> Result<(), FatalError> {
        let synced = self.journal.as_mut().map_or(Ok(()), Journal::sync);
        synced.map_err(|error| self.not_written(error))
    }

    /// Returns true if there is a ledger, or what a crash has left of one.
    pub fn has_files(&self) -> bool {
        self.files().iter().any(|file| file.exists())
    }

    fn files(&self) -> [PathBuf; 2] {
        [self.path.clone(), self.path.with_extension("new")]
    }

    /// Removes the ledger, and its folder if nothing else is in it.
    pub fn remove(&mut self) -> Result<(), FatalError> {
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

fn begin<R: Entry>(path: &Path, records: Vec<R>) -> io::Result<Journal> {
    let folder = folder(path);
    fs::create_dir_all(folder)?;
    let new = path.with_extension("new");
    // What a crash has left may have another mode.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(R::MODE).open(&new)?;
    let mut journal = Journal { file, lines: 0, is_synced: false };
    journal.file.write_all(&line(&Header { version: R::VERSION })?)?;
    journal.append(records)?;
    journal.sync()?;
    fs::rename(&new, path)?;
    // The folder may be new too.
    File::open(folder)?.sync_all()?;
    folder.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())?;
    Ok(journal)
}

impl Journal {
    fn append<R: Entry>(&mut self, records: Vec<R>) -> io::Result<()> {
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
fn parse<R: Entry>(text: &[u8]) -> Result<Vec<R>, LedgerErrorKind> {
    let whole = text.rfind_byte(b'\n').and_then(|end| text.get(..end)).unwrap_or_default();
    let mut lines = whole.split_str("\n");
    let header: serde_json::Value = serde_json::from_slice(lines.next().unwrap_or_default())?;
    let version = header.get("version").cloned().unwrap_or_default();
    if version != R::VERSION {
        return Err(LedgerErrorKind::Version(version, R::VERSION));
    }
    lines.map(|line| Ok(serde_json::from_slice(line)?)).collect()
}
