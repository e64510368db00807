//! The pin: the generation whose inputs are used instead of today's.

use super::checkout::{GENERATION, sync_file_system};
use super::generation::Generation;
use super::store::{GenerationError, Store, replace_durably, sync_directory_of};
use crate::error::IoError;
use crate::root::Root;
use holo_protocol::words::reason;
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;
/// Maximum number of attempts to lock the inputs of a generation while other runs keep switching to another one.
const ATTEMPTS: u32 = 100;
/// The extension of a directory of inputs that is being removed.
const REMOVED: &str = "removed";

/// A generation whose inputs are used until it is released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The version of the form in which this is kept.
    version: u32,
    /// The number of the generation.
    pub generation: u32,
    /// The time at which it was kept.
    pub time: Timestamp,
    /// The time since which it is used.
    pub since: Timestamp,
    /// The name of the directory that has its inputs.
    directory: String,
}

/// The pin cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// It cannot be read.
    #[error(
        "cannot read which generation is used from {}: {reason}; `holo rollback N` uses generation N, `holo rollback --release` today's inputs",
        path.display()
    )]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The inputs of the generation are not there.
    #[error(
        "cannot use generation {number}: {}: {reason}; `holo rollback {number}` writes its inputs anew, `holo rollback --release` uses today's",
        path.display()
    )]
    NoInputs {
        /// Its number.
        number: u32,
        /// The path of a file that should be there.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

impl Pin {
    /// Returns the generation whose inputs are used, if they are not today's.
    ///
    /// # Errors
    /// If it cannot be told.
    pub fn read(root: &Root) -> Result<Option<Pin>, PinError> {
        let path = root.pin();
        let unreadable = |reason: String| PinError::Unreadable { path: path.clone(), reason };
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if is_none(&error) => return Ok(None),
            Err(error) => return Err(unreadable(reason(&error))),
        };
        let pin: Pin = serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
        if pin.version != VERSION || Path::new(&pin.directory).components().count() != 1 {
            return Err(unreadable(format!("it is of version {}, and only {VERSION} is known", pin.version)));
        }
        Ok(Some(pin))
    }

    /// Returns the generation whose inputs are used, if they are not today's, with a lock on their directory: as long as the file is open, no
    /// other run removes them. There is no lock if the file system does not support it.
    ///
    /// # Errors
    /// If it cannot be told.
    pub fn read_and_lock(root: &Root) -> Result<Option<(Pin, Option<File>)>, PinError> {
        let mut pin = Pin::read(root)?;
        for _ in 0..ATTEMPTS {
            let Some(wanted) = pin else { return Ok(None) };
            let lock = File::open(wanted.inputs(root)).ok();
            let lock = lock.filter(|directory| flock(directory, FlockOperation::NonBlockingLockShared).is_ok());
            // Another run may have switched to another generation, and removed the directory, before it was locked.
            pin = Pin::read(root)?;
            if pin.as_ref() == Some(&wanted) {
                return Ok(Some((wanted, lock)));
            }
        }
        Err(PinError::Unreadable { path: root.pin(), reason: "it keeps changing".to_owned() })
    }

    /// Returns true if the inputs of this root are still those that a run has to use.
    #[must_use]
    pub fn is_current(root: &Root) -> bool {
        match root.inputs() {
            // Those of a dry run are used whatever the pin says.
            Some(inputs) if !inputs.starts_with(root.pinned_inputs()) => true,
            inputs => Pin::read(root).is_ok_and(|pin| pin.map(|pin| pin.inputs(root)).as_deref() == inputs),
        }
    }

    /// Returns the directory of its inputs.
    #[must_use]
    pub fn inputs(&self, root: &Root) -> PathBuf {
        root.pinned_inputs().join(&self.directory)
    }

    /// Reads what is known of the generation. It is written last, so that if it is there, everything is.
    ///
    /// # Errors
    /// If the inputs are not there.
    pub fn generation(&self, root: &Root) -> Result<Generation, PinError> {
        let path = self.inputs(root).join(GENERATION);
        let no_inputs = |reason: String| PinError::NoInputs { number: self.generation, path: path.clone(), reason };
        let text = fs::read(&path).map_err(|error| no_inputs(reason(&error)))?;
        serde_json::from_slice(&text).map_err(|error| no_inputs(error.to_string()))
    }

    /// Writes out the inputs of a generation, and uses them from now on. `run` is the ID of the run, which no other one has.
    ///
    /// # Errors
    /// If its inputs cannot be had, or something cannot be written; then what was used before is still used.
    pub fn set(root: &Root, store: &Store, number: u32, run: &str) -> Result<Pin, GenerationError> {
        let generation = store.generation(number)?;
        let pin = Pin {
            version: VERSION,
            generation: number,
            time: generation.time,
            since: Timestamp::now(),
            directory: format!("{number}-{run}"),
        };
        let io = |operation, path: &Path, error| GenerationError::Io(IoError::new(operation, path, error));
        let all = root.pinned_inputs();
        fs::create_dir_all(&all).map_err(|error| io("mkdir", &all, error))?;
        // Whoever can read an input can read it there. The state directories of plugins are closed on the system itself alone.
        let states = (!root.is_test()).then(|| (root.states(), 0o711));
        for (directory, mode) in states.into_iter().chain([(root.engine_state(), 0o711), (all.clone(), 0o755)]) {
            let opened = fs::set_permissions(&directory, Permissions::from_mode(mode));
            opened.map_err(|error| io("chmod", &directory, error))?;
        }
        let inputs = pin.inputs(root);
        store.check_out(&generation, root, &inputs)?;
        sync_file_system(&inputs).map_err(|error| io("sync", &inputs, error))?;
        let path = root.pin();
        let text = serde_json::to_vec(&pin).map_err(|error| io("write", &path, error.into()))?;
        let written =
            replace_durably(&path, &text).and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o644)));
        written.map_err(|error| io("write", &path, error))?;
        remove_unused(root, Some(&pin));
        Ok(pin)
    }

    /// Uses today's inputs from now on. Returns false if they were used already.
    ///
    /// # Errors
    /// If the pin cannot be removed.
    pub fn release(root: &Root) -> Result<bool, IoError> {
        let path = root.pin();
        let removed = match fs::remove_file(&path) {
            Ok(()) => true,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => false,
            Err(error) => return Err(IoError::new("remove", &path, error)),
        };
        if removed {
            sync_directory_of(&path).map_err(|error| IoError::new("sync", &path, error))?;
        }
        remove_unused(root, None);
        Ok(removed)
    }
}

/// Returns true if there is no pin: its directory is closed to others unless there is one.
fn is_none(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

/// Removes inputs that are not used any more, such as those that an earlier run could not remove as another one was reading them. It may only be
/// called by the run that holds the lock of Holo.
pub fn tidy(root: &Root) {
    if let Ok(pin) = Pin::read(root) {
        remove_unused(root, pin.as_ref());
    }
}

/// Removes the inputs of all generations but one, if no run reads them. The next call tries again.
fn remove_unused(root: &Root, pin: Option<&Pin>) {
    let all = root.pinned_inputs();
    for entry in fs::read_dir(&all).into_iter().flatten().flatten() {
        if pin.is_none_or(|pin| entry.file_name() != *pin.directory) {
            remove_unless_in_use(&entry.path());
        }
    }
    if pin.is_none() {
        let _ = fs::remove_dir(all);
    }
}

/// Removes a directory unless another run has locked it. It is renamed first, so that it is never seen half removed.
fn remove_unless_in_use(directory: &Path) {
    let Ok(lock) = File::open(directory) else { return };
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    let mut removed = directory.to_owned();
    if removed.extension().is_none_or(|extension| extension != REMOVED) {
        removed.as_mut_os_string().push(".");
        removed.as_mut_os_string().push(REMOVED);
        if fs::rename(directory, &removed).is_err() {
            return;
        }
    }
    let _ = fs::remove_dir_all(removed);
}
