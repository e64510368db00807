//! Steps that change a path: writing the new file, and moving it into place, or writing it in place if it is a mount
//! point. The threads of a group share their progress.

use super::contents::Contents;
use super::made_directories::MadeDirectories;
use super::state::{Attributes, State, Unmanaged};
use super::{Digest, Tracker};
use crate::error::{PathError, Result, at};
use crate::image::Stamp;
use crate::overwriting::{self, is_between};
use crate::path_handle::{Durability, ExtendedAttributes, PathHandle};
use crate::shares::in_shares_mut;
use rustix::io::Errno;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::SystemTime;

/// A step that changes a path.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) path: PathBuf,
    pub(super) current: State,
    /// The stamp of the current state, which detects later changes.
    pub(super) stamp: Option<Stamp>,
    pub(super) desired: State,
    /// The ACL and other extended attributes to be set.
    pub(super) extended: ExtendedAttributes,
    pub(super) in_place: bool,
    /// The new file, if it is already stored next to the path.
    pub(super) temporary: Option<PathHandle>,
}

impl Step {
    /// Returns true if the path is replaced by renaming a new file or symlink.
    pub(super) fn is_replaced(&self) -> bool {
        match (&self.current, &self.desired) {
            (_, State::Absent | State::Directory { .. }) => false,
            (State::File { content, .. }, State::File { content: wanted, .. }) => content != wanted && !self.in_place,
            _ => true,
        }
    }

    /// Returns true if the path becomes, or remains, a directory, and no file has to be removed for it.
    fn makes_directory(&self) -> bool {
        matches!(self.current, State::Absent | State::Directory { .. })
            && matches!(self.desired, State::Directory { .. })
    }

    /// Returns true if the step only creates or replaces a file, on which no other path depends.
    fn makes_file(&self) -> bool {
        matches!(self.current, State::Absent | State::File { .. })
            && matches!(self.desired, State::File { .. } | State::Symlink { .. })
    }

    /// Removes the new file if it was not moved into place.
    pub(super) fn discard(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            let _ = temporary.remove();
        }
    }
}

/// Returns true if a file that is managed in place is actually overwritten, because it exists.
pub(super) fn writes_in_place(current: &State, desired: &State) -> bool {
    current.content().zip(desired.content()).is_some_and(|(current, desired)| current != desired)
}

impl Tracker {
    /// Prepares all steps of a change, with at most this number of threads where their order is irrelevant. Returns the
    /// directories that were created.
    pub(super) fn prepare_steps(&self, steps: &mut [Step], threads: usize) -> Result<Vec<PathHandle>> {
        let prepared = self.each_step(steps, threads, &|step, tracker| tracker.prepare_step(step))?;
        Ok(prepared.into_iter().flatten().collect())
    }

    /// Performs all steps of a change, with at most this number of threads where their order is irrelevant. Returns the
    /// paths that have changed.
    pub(super) fn take_steps(
        &self,
        steps: &mut [Step],
        threads: usize,
    ) -> std::result::Result<Vec<PathHandle>, Unmanaged> {
        self.each_step(steps, threads, &|step, tracker| tracker.take_step(step))
    }

    /// Calls a function for each step. If there are only directories and files, the directories are processed first.
    fn each_step<R: Send, E: Send>(
        &self,
        steps: &mut [Step],
        threads: usize,
        act: &(dyn Fn(&mut Step, &Tracker) -> std::result::Result<R, E> + Sync),
    ) -> std::result::Result<Vec<R>, E> {
        if threads < 2 || !steps.iter().all(|step| step.makes_directory() || step.makes_file()) {
            return steps.iter_mut().map(|step| act(step, self)).collect();
        }
        let mut done = Vec::with_capacity(steps.len());
        for step in steps.iter_mut().filter(|step| step.makes_directory()) {
            done.push(act(step, self)?);
        }
        let mut files: Vec<&mut Step> = steps.iter_mut().filter(|step| step.makes_file()).collect();
        for result in in_shares_mut(&mut files, threads, self, || self.reopen(), |step, tracker| act(step, tracker)) {
            done.push(result?);
        }
        Ok(done)
    }

    /// Creates the directory of a path, and writes the new file to a temporary path. Returns the directories that were
    /// created.
    pub(super) fn prepare_step(&self, step: &mut Step) -> Result<Vec<PathHandle>> {
        if step.desired == State::Absent {
            return Ok(Vec::new());
        }
        let place = self.place(&step.path);
        place.check_way()?;
        let made = self.make_parents(&step.path, &place)?;
        if step.is_replaced() && step.temporary.is_none() {
            let temporary = self.temporary(&step.path);
            step.desired.write_temporary(&temporary, &self.contents, &step.extended)?;
            step.temporary = Some(temporary);
        }
        Ok(made)
    }

    /// Performs a step, unless the path was changed concurrently. Returns the path.
    pub(super) fn take_step(&self, step: &mut Step) -> std::result::Result<PathHandle, Unmanaged> {
        let place = self.place(&step.path);
        self.check_unchanged(step)?;
        self.change(&place, step)?;
        step.temporary = None;
        if matches!(step.current, State::Symlink { .. }) {
            self.forget_directories();
        }
        Ok(place)
    }

    /// Performs a step on which others depend. When this returns, it is on disk.
    pub(super) fn take_step_alone(&self, step: &mut Step) -> std::result::Result<(), Unmanaged> {
        let taken = self.try_step_alone(step);
        step.discard();
        taken
    }

    fn try_step_alone(&self, step: &mut Step) -> std::result::Result<(), Unmanaged> {
        let made = self.prepare_step(step)?;
        Durability::Each.sync(&step.temporary, &made)?;
        let place = self.take_step(step)?;
        Ok(Durability::Each.sync([], [&place])?)
    }

    /// Fails if the path of a step was changed concurrently.
    fn check_unchanged(&self, step: &Step) -> std::result::Result<(), Unmanaged> {
        if matches!(step.current, State::Directory { .. }) {
            // If another process has added files, the directory is not removed.
            return Ok(());
        }
        if let (State::Absent, State::Directory { .. }) = (&step.current, &step.desired) {
            // It may have been created as a parent by another step. If another file exists, that step fails.
            return Ok(());
        }
        let place = self.place(&step.path);
        // An earlier step may have removed another name of the file.
        let has_names = step.stamp.is_some_and(|stamp| stamp.names() > 1);
        let is_same = Stamp::meanwhile(step.stamp.as_ref(), &place, has_names)?.is_none()
            // Two changes within a tick have the same stamp.
            && (step.stamp.is_none_or(|stamp| !has_names && stamp.is_settled(SystemTime::now()))
                || self.state(&step.path)? == step.current);
        if is_same { Ok(()) } else { Err(Unmanaged::Meanwhile(place.shown().display().to_string())) }
    }

    fn change(&self, place: &PathHandle, step: &Step) -> Result<()> {
        let replace = || step.temporary.as_ref().map_or(Ok(()), |temporary| temporary.rename_to(place));
        match (&step.current, &step.desired) {
            (State::Directory { .. }, State::Absent) => remove_directory(place),
            (State::Directory { .. }, State::File { .. } | State::Symlink { .. }) => {
                remove_directory(place)?;
                replace()
            }
            (_, State::Absent) => place.remove(),
            (State::Absent | State::Directory { .. }, State::Directory { attributes }) => {
                attributes.give_directory(place, &step.extended)
            }
            (_, State::Directory { .. }) => Err(PathError::new("mkdir", place.shown(), Errno::EXIST)),
            (State::File { content, .. }, State::File { content: wanted, attributes }) if content == wanted => {
                attributes.give_in_place(place)
            }
            (current, State::File { content, attributes })
                if step.in_place && writes_in_place(current, &step.desired) =>
            {
                write(place, content, *attributes, &self.contents)
            }
            _ => replace().map_err(overwriting::with_hint),
        }
    }
}

fn remove_directory(place: &PathHandle) -> Result<()> {
    if place.remove_directory()? { Ok(()) } else { Err(PathError::new("rmdir", place.shown(), Errno::NOTEMPTY)) }
}

/// Writes a stored content to an existing file, and sets its mode and owner. Users without access to the final file
/// never gain access in between.
pub(super) fn write(place: &PathHandle, content: &Digest, attributes: Attributes, contents: &Contents) -> Result<()> {
    let mut from = contents.open(content)?;
    let mut file = place.open_to_write()?;
    attributes.narrow(&file, place)?;
    let written = io::copy(&mut from, &mut file).and_then(|length| file.set_len(length));
    written.map_err(at("write", &place.shown()))?;
    attributes.give(&file, place)?;
    rustix::fs::fsync(&file).map_err(at("sync", &place.shown()))
}

/// Returns true if the content may be the result of a kill during an overwrite: each byte is that of the old or the new
/// content.
pub(super) fn is_torn(place: &PathHandle, over: &State, intent: &State, contents: &Contents) -> bool {
    let bytes = |state: &State| contents.read(state.content()?).ok();
    let (Some(old), Some(new)) = (bytes(over), bytes(intent)) else { return false };
    let Ok(Some(mut file)) = place.open_if_file() else { return false };
    let mut current = Vec::new();
    if file.read_to_end(&mut current).is_err() || current.len() > old.len().max(new.len()) {
        return false;
    }
    is_between(&current, &old, &new)
}

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
