//! The order of changes on disk: a step is durable before what depends on it is begun.

use super::PathHandle;
use crate::error::{Result, at};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashSet};

/// The way in which a group of changes is made durable.
///
/// Each step of a change has to be on disk before the next one is begun. For one file that is cheapest by syncing it and its directory;
/// for many it is cheaper to take the same step for all of them, and to sync their file system once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Every file and directory is synced by itself.
    Each,
    /// File systems are synced as a whole.
    Together,
}

impl Durability {
    /// The number of files from which a file system is synced as a whole.
    pub(crate) const MANY: usize = 8;

    /// The cheaper way for so many files.
    #[must_use]
    pub fn of(files: usize) -> Durability {
        if files < Durability::MANY { Durability::Each } else { Durability::Together }
    }

    /// Syncs files that were written, and the directories of these places; or their file systems as a whole.
    ///
    /// # Errors
    /// If the disk says so: then what was written may be lost.
    pub fn sync<'a>(
        self,
        files: impl IntoIterator<Item = &'a PathHandle>,
        directories: impl IntoIterator<Item = &'a PathHandle>,
    ) -> Result<()> {
        match self {
            Durability::Together => self.sync_directories(files.into_iter().chain(directories)),
            Durability::Each => {
                for place in files {
                    // A symlink is made durable by its directory.
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
                // A change in a directory that is gone lasts with the removal of that.
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

/// Places that names were given to, of which only as many are kept in memory as are needed to sync them.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    places: Vec<PathHandle>,
    /// True if there are many: then a place for each file system is left.
    are_many: bool,
    devices: BTreeSet<u64>,
    /// The last place that was looked at.
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

    /// Adds the place if it is the first of its file system.
    fn add_device(&mut self, place: PathHandle) -> Result<()> {
        if self.last.as_ref().is_some_and(|last| last.directory_key() == place.directory_key()) {
            return Ok(());
        }
        self.last = Some(place.clone());
        let device = match place.with("stat", |folder, _| rustix::fs::fstat(folder)) {
            // A change in a directory that is gone lasts with the removal of that.
            Err(error) if error.is_missing() => return Ok(()),
            stat => stat?.st_dev,
        };
        if self.devices.insert(device) {
            self.places.push(place);
        }
        Ok(())
    }

    /// Makes the names last.
    pub(crate) fn sync(self) -> Result<()> {
        let durability = if self.are_many { Durability::Together } else { Durability::Each };
        durability.sync([], &self.places)
    }
}

/// Some file systems cannot sync a directory, and have nothing to sync then.
fn ignoring_unsupported(synced: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match synced {
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        other => other,
    }
}
