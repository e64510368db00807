//! The parent directories that were created for paths, and are removed when they are empty.

use crate::error::{PathError, Result};
use crate::path_handle::{OnDisk, PathHandle};
use bstr::{BString, ByteSlice};
use holo_protocol::Text;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// A list on disk that all entities of a plugin share, because it is irrelevant which of them needed a directory first.
#[derive(Debug)]
pub struct OwnDirectories {
    file: PathHandle,
    paths: BTreeSet<BString>,
}

impl OwnDirectories {
    /// Reads the list.
    ///
    /// # Errors
    /// If it cannot be read, or is invalid.
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

    /// Returns true if the list contains a directory.
    #[must_use]
    pub fn contains(&self, path: &Path) -> bool {
        self.paths.contains(&crate::paths::path_bytes(path))
    }

    /// Returns the directories, each after its parents.
    pub fn iter(&self) -> impl Iterator<Item = PathBuf> {
        self.paths.iter().map(|path| path.to_path_lossy().into_owned())
    }

    /// Adds directories that are about to be created. When this returns, the list is on disk.
    ///
    /// # Errors
    /// If the list cannot be written.
    pub fn add(&mut self, paths: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        let before = self.paths.len();
        self.paths.extend(paths.into_iter().map(|path| crate::paths::path_bytes(&path)));
        if self.paths.len() == before { Ok(()) } else { self.write() }
    }

    /// Removes a directory that an entity owns now.
    ///
    /// # Errors
    /// If the list cannot be written.
    pub fn take(&mut self, path: &Path) -> Result<()> {
        if self.paths.remove(&crate::paths::path_bytes(path)) { self.write() } else { Ok(()) }
    }

    /// Removes the directories for which the function returns false from the list, but not from the file system.
    ///
    /// # Errors
    /// If the list cannot be written.
    pub fn keep_only(&mut self, is_kept: impl Fn(&Path) -> bool) -> Result<()> {
        let before = self.paths.len();
        self.paths.retain(|path| is_kept(&path.to_path_lossy()));
        if self.paths.len() == before { Ok(()) } else { self.write() }
    }

    /// Removes an incomplete list of a killed run.
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
