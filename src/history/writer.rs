//! The records of a run, as they are written.

mod retain;

use super::begun::{Begun, BegunFile};
use super::reader;
use super::record::{Began, Counts, Ended, LastRun, Record, RunResult, to_line};
use crate::error::IoError;
use crate::retention;
use crate::root::Root;
use jiff::Timestamp;
use rustix::fs::OFlags;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time within which what was written is on disk.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// The number of bytes from which on lines do not wait for others.
const HELD: usize = 64 << 10;
const LAST: &str = "last.json";
/// The size of that file, which is more than it ever has to say.
const LAST_SIZE: usize = 512;

/// Writes the records of a run that holds the lock.
#[derive(Debug)]
pub struct Writer {
    directory: PathBuf,
    begun: BegunFile,
    began: Began,
    /// The file of the month, once there is something to say of the run.
    month: Option<Month>,
    /// Lines that are not written yet, as more follow at once.
    held: Vec<u8>,
    is_holding: bool,
}

/// The file of a month.
#[derive(Debug)]
struct Month {
    file: File,
    path: PathBuf,
    /// The time since which something is not on disk.
    unsynced: Option<Instant>,
}

impl Writer {
    /// Says that a run begins. If the one before was killed, that is written down.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(root: &Root, began: Began) -> Result<Writer, IoError> {
        let directory = root.runs();
        make_directories(root).map_err(|error| IoError::new("mkdir", &directory, error))?;
        let path = directory.join(super::begun::NAME);
        let failed = |operation| move |error| IoError::new(operation, &directory.join(super::begun::NAME), error);
        let (mut begun, before) = BegunFile::open(&root.runs()).map_err(failed.clone()("open"))?;
        if let Some(Begun { has_ended: false, began }) = before {
            conclude(&root.runs(), began)?;
        }
        let is_new = begun.is_new();
        begun.write(&Begun { has_ended: false, began: began.clone() }).map_err(failed.clone()("write"))?;
        if is_new {
            begun.sync().and_then(|()| sync_directories(root)).map_err(|error| IoError::new("sync", &path, error))?;
        }
        Ok(Writer { directory: root.runs(), begun, began, month: None, held: Vec::new(), is_holding: false })
    }

    /// Returns when it is on disk that the run began.
    ///
    /// # Errors
    /// If it cannot be synced.
    pub fn sync_beginning(&self) -> Result<(), IoError> {
        self.begun.sync().map_err(|error| IoError::new("sync", &self.directory.join(super::begun::NAME), error))
    }

    /// Appends a record; before the first one, that the run began.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&mut self, record: &Record) -> Result<(), IoError> {
        if self.month.is_none() {
            self.month = Some(Month::open(&self.directory, &self.began)?);
            self.held = Record::Began(self.began.clone()).to_bytes();
        }
        self.held.extend(record.to_bytes());
        if self.is_holding && self.held.len() < HELD { Ok(()) } else { self.write_held() }
    }

    /// Has records wait for those that follow at once, or writes all of them in one call.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn hold(&mut self, is_holding: bool) -> Result<(), IoError> {
        self.is_holding = is_holding;
        self.write_held()
    }

    fn write_held(&mut self) -> Result<(), IoError> {
        let Some(month) = &mut self.month else { return Ok(()) };
        if !self.held.is_empty() {
            month.append(&std::mem::take(&mut self.held))?;
        }
        month.sync_now_and_then()
    }

    /// Has what was written reach the disk if that was long ago.
    ///
    /// # Errors
    /// If it cannot be synced.
    pub fn sync_now_and_then(&mut self) -> Result<(), IoError> {
        self.month.as_mut().map_or(Ok(()), Month::sync_now_and_then)
    }

    /// Says how the run has ended, and removes records that are too old.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end(mut self, ended: Ended, limits: &retention::Runs) -> Result<(), IoError> {
        self.append(&Record::Ended(ended))?;
        self.write_held()?;
        self.month.iter_mut().try_for_each(Month::sync)?;
        self.forget();
        retain::retain(&self.directory, limits, Timestamp::now())
    }

    /// Says that the run has ended, and had nothing to do.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end_unchanged(mut self, last: &LastRun) -> Result<(), IoError> {
        let path = self.directory.join(LAST);
        overwrite(&path, to_line(last)).map_err(|error| IoError::new("write", &path, error))?;
        self.forget();
        Ok(())
    }

    /// Notes that the run need not be asked for any more. Without that, whoever asks finds how it has ended.
    fn forget(&mut self) {
        let _ = self.begun.write(&Begun { has_ended: true, began: self.began.clone() });
    }
}

/// Appends that a run began and ended which never came to hold the lock.
///
/// # Errors
/// If it cannot be written.
pub(super) fn append_whole(root: &Root, began: &Began, ended: Ended) -> Result<(), IoError> {
    let directory = root.runs();
    make_directories(root).map_err(|error| IoError::new("mkdir", &directory, error))?;
    let mut month = Month::open(&directory, began)?;
    month.append(&[Record::Began(began.clone()).to_bytes(), Record::Ended(ended).to_bytes()].concat())?;
    month.sync()
}

/// Writes down that a run was killed, unless it is written how it ended.
fn conclude(directory: &Path, began: Began) -> Result<(), IoError> {
    let known = reader::run_in(directory, &began.run);
    if known.as_ref().is_some_and(|run| run.ended.is_some()) {
        return Ok(());
    }
    let mut counts = Counts::default();
    known.iter().flat_map(reader::Run::entities).for_each(|entity| counts.count(entity.result));
    let mut month = Month::open(directory, &began)?;
    let mut lines = Vec::new();
    if known.is_none_or(|run| run.began.is_none()) {
        lines = Record::Began(began.clone()).to_bytes();
    }
    lines.extend(
        Record::Ended(Ended {
            run: began.run,
            time: Timestamp::now(),
            result: RunResult::Interrupted,
            duration: None,
            exit_code: None,
            counts,
            error: None,
        })
        .to_bytes(),
    );
    month.append(&lines)?;
    month.sync()
}

impl Month {
    /// Opens the file of the month in which a run began.
    fn open(directory: &Path, began: &Began) -> Result<Month, IoError> {
        let path = directory.join(format!("{}.jsonl", began.run.month().unwrap_or_default()));
        let failed = |error| IoError::new("open", &path, error);
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        options.read(true).append(true).custom_flags(flags.bits().cast_signed());
        let opened = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let opened = options.create(true).mode(0o600).open(&path);
                // The name has to last as long as the content.
                File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
                opened
            }
            opened => opened,
        };
        let mut month = Month { file: opened.map_err(failed)?, path: path.clone(), unsynced: None };
        if month.is_torn().map_err(failed)? {
            month.append(b"\n")?;
        }
        Ok(month)
    }

    /// Returns true if the last line has no end: a crash may have cut it off.
    fn is_torn(&self) -> io::Result<bool> {
        let length = self.file.metadata()?.len();
        let Some(last) = length.checked_sub(1) else { return Ok(false) };
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, last)?;
        Ok(byte != *b"\n")
    }

    /// Appends lines in one call, so that a kill leaves all of them or nothing. If that fails, nothing of them is left.
    fn append(&mut self, lines: &[u8]) -> Result<(), IoError> {
        self.unsynced.get_or_insert_with(Instant::now);
        let length = self.file.metadata().map(|metadata| metadata.len());
        self.file.write_all(lines).map_err(|error| {
            if let Ok(length) = length {
                let _ = self.file.set_len(length);
            }
            IoError::new("write", &self.path, error)
        })
    }

    fn sync_now_and_then(&mut self) -> Result<(), IoError> {
        if self.unsynced.is_some_and(|since| since.elapsed() > SYNC_EVERY) { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), IoError> {
        if self.unsynced.take().is_some() {
            self.file.sync_data().map_err(|error| IoError::new("sync", &self.path, error))?;
        }
        Ok(())
    }
}

fn make_directories(root: &Root) -> io::Result<()> {
    let runs = root.runs();
    if runs.is_dir() {
        return Ok(());
    }
    root.create_states()?;
    // Records show what is in files that not everybody may read.
    DirBuilder::new().recursive(true).mode(0o700).create(runs)
}

fn sync_directories(root: &Root) -> io::Result<()> {
    [root.runs(), root.engine_state(), root.states()].iter().try_for_each(|path| File::open(path)?.sync_all())
}

/// Overwrites a file in place, in one call. To replace it would have the file system wait for the disk.
fn overwrite(path: &Path, mut content: Vec<u8>) -> io::Result<()> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags.bits().cast_signed());
    let file = file.open(path)?;
    // The text before it goes in the same call.
    content.resize(content.len().max(LAST_SIZE), b'\n');
    file.write_all_at(&content, 0)
}
