//! The state that the changes of a group, and their threads, share.

use super::Tracker;
use super::made_directories::MadeDirectories;
use crate::error::Result;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The shared state of a group.
#[derive(Debug)]
pub(super) struct Progress {
    /// The created parent directories.
    directories: RwLock<MadeDirectories>,
    /// True if there is an entity whose record is kept until the state is tidied up.
    has_reason_to_tidy: AtomicBool,
}

impl Progress {
    /// Creates the state before the first group.
    ///
    /// # Errors
    /// If the list of directories cannot be read.
    pub(super) fn new(tracker: &Tracker) -> Result<Progress> {
        Ok(Progress { directories: RwLock::new(tracker.directories()?), has_reason_to_tidy: AtomicBool::default() })
    }

    /// Resets the state for another group.
    pub(super) fn begin(&self, directories: MadeDirectories) {
        self.has_reason_to_tidy.store(false, Ordering::Relaxed);
        *self.directories.write().unwrap_or_else(PoisonError::into_inner) = directories;
    }

    /// Returns false to the first caller only: the record of one restored entity of the group is kept, so that it is
    /// processed again if a kill prevents the state from being tidied up.
    pub(super) fn has_reason_to_tidy(&self) -> bool {
        self.has_reason_to_tidy.swap(true, Ordering::Relaxed)
    }

    pub(super) fn directories(&self) -> RwLockReadGuard<'_, MadeDirectories> {
        self.directories.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the lists of directories.
    pub(super) fn change_directories(&self, change: impl FnOnce(&mut MadeDirectories) -> Result<()>) -> Result<()> {
        change(&mut self.directories.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Removes a directory that an entity owns now from all lists.
    pub(super) fn take_directory(&self, path: &Path) -> Result<()> {
        if self.directories().contains(path) { self.change_directories(|made| made.take(path)) } else { Ok(()) }
    }
}
