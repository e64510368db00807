//! Durability: each step of a change is on disk before the steps that depend on it begin.

use super::PathHandle;
use crate::error::{Result, at};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashSet};

/// The method by which a group of changes is synced.
///
/// Each step of a change must be on disk before the next step begins. For a single file, syncing the file and its
/// directory is cheapest. For many files, it is cheaper to perform each step for all of them, and then to sync the file
/// system once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Files and directories are synced individually.
    Each,
    /// File systems are synced as a whole.
    Together,
}

impl Durability {
    /// The number of files from which file systems are synced as a whole.
    pub(crate) const MANY: usize = 8;

    /// Returns the cheaper method for this number of files.
    #[must_use]
    pub fn of(files: usize) -> Durability {
        if files < Durability::MANY { Durability::Each } else { Durability::Together }
    }

    /// Syncs written files and the directories of these paths, or their file systems as a whole.
    ///
    /// # Errors
    /// If the sync fails. The written data may be lost then.
    pub fn sync<'a>(
        self,
        files: impl IntoIterator<Item = &'a PathHandle>,
        directories: impl IntoIterator<Item = &'a PathHandle>,
    ) -> Result<()> {
        match self {
            Durability::Together => self.sync_directories(files.into_iter().chain(directories)),
            Durability::Each => {
                for place in files {
                    // Symlinks are synced with their directory.
                    if let Some(file) = place.open_if_file()? {
                        ignoring_unsupported(rustix::fs::fsync(file)).map_err(at("sync", &place.shown()))?;
                    }
                }
                self.sync_directories(directories)
            }
        }
    }

    fn sync_directories<'a>(self, places: impl IntoIterator<Item = &'a PathHandle>) -> Result<()> {
        let (mut seen, mut done) = (HashSet::new(), HashSet::new());
        for place in places {
            if !seen.insert(place.directory_key()) {
                continue;
            }
            let directory = match place.open_directory() {
                // The directory was removed, and with it the change.
                Err(error) if error.is_missing() => continue,
                directory => directory?,
            };
            let stat = rustix::fs::fstat(&directory).map_err(at("stat", &place.shown()))?;
            let is_new = match self {
                Durability::Each => done.insert((stat.st_dev, stat.st_ino)),
                Durability::Together => done.insert((stat.st_dev, 0)),
            };
            if is_new {
                let synced = match self {
                    Durability::Each => rustix::fs::fsync(&directory),
                    Durability::Together => rustix::fs::syncfs(&directory),
                };
                ignoring_unsupported(synced).map_err(at("sync", &place.shown()))?;
            }
        }
        Ok(())
    }
}

/// Paths at which names were created. Only those that are needed for the sync are kept in memory.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    places: Vec<PathHandle>,
    /// True if there are many, so that only one path per file system is kept.
    are_many: bool,
    devices: BTreeSet<u64>,
    /// The most recent path.
    last: Option<PathHandle>,
}

impl Touched {
    pub(crate) fn add(&mut self, place: PathHandle) -> Result<()> {
        if self.are_many {
            return self.add_device(place);
        }
        self.places.push(place);
        self.are_many = Durability::of(self.places.len()) == Durability::Together;
        if self.are_many {
            return std::mem::take(&mut self.places).into_iter().try_for_each(|place| self.add_device(place));
        }
        Ok(())
    }

    /// Adds the path if it is the first one on its file system.
    fn add_device(&mut self, place: PathHandle) -> Result<()> {
        if self.last.as_ref().is_some_and(|last| last.directory_key() == place.directory_key()) {
            return Ok(());
        }
        self.last = Some(place.clone());
        let device = match place.with("stat", |folder, _| rustix::fs::fstat(folder)) {
            // The directory was removed, and with it the change.
            Err(error) if error.is_missing() => return Ok(()),
            stat => stat?.st_dev,
        };
        if self.devices.insert(device) {
            self.places.push(place);
        }
        Ok(())
    }

    /// Syncs the names.
    pub(crate) fn sync(self) -> Result<()> {
        let durability = if self.are_many { Durability::Together } else { Durability::Each };
        durability.sync([], &self.places)
    }
}

/// Some file systems do not support syncing directories, and do not need it.
fn ignoring_unsupported(synced: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match synced {
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        other => other,
    }
}
