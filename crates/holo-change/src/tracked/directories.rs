//! The directories that we made on the way to something, and that go when nothing is in them any more.

use crate::error::{PathError, Result};
use crate::path_handle::{OnDisk, PathHandle};
use bstr::{BString, ByteSlice};
use holo_protocol::Text;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// A list on disk, shared by all entities: it does not matter which of them was the first to need a directory.
#[derive(Debug)]
pub struct OwnDirectories {
    file: PathHandle,
    paths: BTreeSet<BString>,
}

impl OwnDirectories {
    /// Reads the list.
    ///
    /// # Errors
    /// If it cannot be read, or makes no sense.
    pub fn read(file: PathHandle) -> Result<OwnDirectories> {
        let paths = match file.open_if_file()? {
            None => BTreeSet::new(),
            Some(opened) => {
                let texts: Vec<Text> = serde_json::from_reader(io::BufReader::new(opened))
                    .map_err(|error| PathError::new("read", file.shown(), io::Error::from(error)))?;
                texts.into_iter().map(|text| text.0).collect()
            }
        };
        Ok(OwnDirectories { file, paths })
    }

    /// Returns true if a directory is on the list.
    #[must_use]
    pub fn contains(&self, path: &Path) -> bool {
        self.paths.contains(&crate::paths::path_bytes(path))
    }

    /// The directories on the list, each after those that it is in.
    pub fn iter(&self) -> impl Iterator<Item = PathBuf> {
        self.paths.iter().map(|path| path.to_path_lossy().into_owned())
    }

    /// Adds directories that are going to be made. When this returns, they are on disk.
    ///
    /// # Errors
    /// If the list cannot be written.
    pub fn add(&mut self, paths: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        let before = self.paths.len();
        self.paths.extend(paths.into_iter().map(|path| crate::paths::path_bytes(&path)));
        if self.paths.len() == before { Ok(()) } else { self.write() }
    }

    /// Takes a directory off the list: it has become an entity's own.
    ///
    /// # Errors
    /// If the list cannot be written.
    pub fn take(&mut self, path: &Path) -> Result<()> {
        if self.paths.remove(&crate::paths::path_bytes(path)) { self.write() } else { Ok(()) }
    }

    /// Takes the directories off the list of which this does not hold; they stay where they are.
    ///
    /// # Errors
    /// If the list cannot be written.
    pub fn keep_only(&mut self, is_kept: impl Fn(&Path) -> bool) -> Result<()> {
        let before = self.paths.len();
        self.paths.retain(|path| is_kept(&path.to_path_lossy()));
        if self.paths.len() == before { Ok(()) } else { self.write() }
    }

    /// Removes what a killed run has left half written.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn tidy(&self) -> Result<()> {
        self.file.replacement().remove()
    }

    fn write(&self) -> Result<()> {
        if self.paths.is_empty() {
            return self.file.remove();
        }
        let texts: Vec<Text> = self.paths.iter().cloned().map(Text).collect();
        let failed = |error| PathError::new("write", self.file.shown(), io::Error::from(error));
        let text = serde_json::to_vec_pretty(&texts).map_err(failed)?;
        self.file.replace(&text, 0o600, OnDisk::New)
    }
}
