//! Copies of replaced contents, concatenated in one file.

use holo_protocol::Kept;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The copies of a run.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    number: AtomicUsize,
    /// The file, created for the first copy. A single file avoids the cost of creating and removing many small ones.
    contents: Mutex<Option<Contents>>,
}

#[derive(Debug)]
struct Contents {
    file: File,
    length: u64,
}

impl Copies {
    /// Returns the number of the next copy; `None` if `most` is reached.
    pub(crate) fn next(&self, most: usize) -> Option<usize> {
        Some(self.number.fetch_add(1, Ordering::Relaxed)).filter(|&number| number < most)
    }

    /// Appends a copy to the file in this directory. Returns a path that identifies the part of the file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn add(&self, content: &[u8], folder: &Path) -> io::Result<PathBuf> {
        let path = folder.join("contents");
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let contents = match &mut *contents {
            Some(contents) => contents,
            none => none.insert(Contents { file: create(&path)?, length: 0 }),
        };
        contents.file.write_all_at(content, contents.length)?;
        let part = Kept::Part { file: path, start: contents.length, length: content.len() };
        contents.length += content.len() as u64;
        Ok(part.to_path())
    }
}

/// Creates a file that is only readable by its owner, and its directory.
fn create(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}
