//! `begun.json`: the run that began last, from before it changes anything.
//!
//! The file is overwritten in place and keeps its length, so that nothing but its one block has to reach the disk. It is handed to the disk
//! before the first entity is applied, which takes no time, and waited for when there is the first sign of a change. A process that is killed
//! leaves it in any case.

use super::record::{Began, to_line};
use rustix::fs::{Advice, OFlags, fadvise};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

pub(super) const NAME: &str = "begun.json";
/// The file is a multiple of this long.
const BLOCK: usize = 4096;

/// The run that began last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Begun {
    /// True if it has ended, and it is known how.
    pub(super) has_ended: bool,
    pub(super) began: Began,
}

/// The open file.
#[derive(Debug)]
pub(super) struct BegunFile {
    file: File,
    length: usize,
}

impl BegunFile {
    /// Opens the file, or makes it. Returns what it has, if that is of use.
    pub(super) fn open(directory: &Path) -> io::Result<(BegunFile, Option<Begun>)> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(flags.bits().cast_signed())
            .open(directory.join(NAME))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let begun = serde_json::from_slice(&text).ok();
        Ok((BegunFile { file, length: text.len() }, begun))
    }

    /// Returns true if nothing was ever written, so that the directory has to reach the disk, too.
    pub(super) fn is_new(&self) -> bool {
        self.length == 0
    }

    /// Overwrites it, and has the system begin to write it to the disk.
    pub(super) fn write(&mut self, begun: &Begun) -> io::Result<()> {
        let mut text = to_line(begun);
        text.resize(text.len().next_multiple_of(BLOCK).max(self.length), b'\n');
        self.file.write_all_at(&text, 0)?;
        self.length = text.len();
        // Records that are not needed in memory are written to the disk, without anybody waiting for it.
        let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
        Ok(())
    }

    /// Returns when what was written is on disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Reads the file.
pub(super) fn read(directory: &Path) -> Option<Begun> {
    serde_json::from_slice(&std::fs::read(directory.join(NAME)).ok()?).ok()
}
