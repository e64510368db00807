//! The pin, which selects a generation whose inputs are used instead of the current ones.

use super::checkout::{GENERATION, sync_file_system};
use super::generation::Generation;
use super::store::{GenerationError, Store};
use crate::error::IoError;
use crate::host::root::Root;
use holo_protocol::words::reason;
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;
/// Maximum number of attempts to lock the inputs of a generation while other runs keep switching to another one.
const ATTEMPTS: u32 = 100;
/// The extension of a directory of inputs that is being removed.
const REMOVED: &str = "removed";

/// A generation whose inputs are used until it is released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The version of the format.
    version: u32,
    /// The number of the generation.
    pub generation: u32,
    /// The time at which the generation was recorded.
    pub time: Timestamp,
    /// The time at which the pin was set.
    pub since: Timestamp,
    /// The name of the directory with its inputs.
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
    /// The inputs of the generation are missing.
    #[error(
        "cannot use generation {number}: {}: {reason}; `holo rollback {number}` restores its inputs, `holo rollback --release` uses today's",
        path.display()
    )]
    NoInputs {
        /// Its number.
        number: u32,
        /// The path of the missing file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

impl Pin {
    /// Returns the pinned generation, if any.
    ///
    /// # Errors
    /// If the pin cannot be read.
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

    /// Returns the pinned generation, if any, with a lock on the directory of its inputs: no other run removes them
    /// while the file is open. There is no lock if the file system does not support it.
    ///
    /// # Errors
    /// If the pin cannot be read.
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

    /// Returns true if a run must still use the inputs of this root.
    #[must_use]
    pub fn is_current(root: &Root) -> bool {
        match root.inputs() {
            // A dry run uses its own inputs, whatever the pin.
            Some(inputs) if !inputs.starts_with(root.pinned_inputs()) => true,
            inputs => Pin::read(root).is_ok_and(|pin| pin.map(|pin| pin.inputs(root)).as_deref() == inputs),
        }
    }

    /// Returns the directory of its inputs.
    #[must_use]
    pub fn inputs(&self, root: &Root) -> PathBuf {
        root.pinned_inputs().join(&self.directory)
    }

    /// Reads the metadata of the generation. That file is written last, so its presence means that the inputs are
    /// complete.
    ///
    /// # Errors
    /// If the inputs are missing.
    pub fn generation(&self, root: &Root) -> Result<Generation, PinError> {
        let path = self.inputs(root).join(GENERATION);
        let no_inputs = |reason: String| PinError::NoInputs { number: self.generation, path: path.clone(), reason };
        let text = fs::read(&path).map_err(|error| no_inputs(reason(&error)))?;
        serde_json::from_slice(&text).map_err(|error| no_inputs(error.to_string()))
    }

    /// Writes out the inputs of a generation, and uses them from now on. `run` is the unique ID of the run.
    ///
    /// # Errors
    /// If its inputs cannot be read, or a file cannot be written. The inputs in use do not change in this case.
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
        // Anyone who can read an original input must be able to read its copy. Plugins' state directories are private
        // only on the running system.
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

    /// Uses the current inputs from now on. Returns false if there was no pin.
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

/// Replaces a file, and waits until the change is on disk.
fn replace_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(new, path)?;
    sync_directory_of(path)
}

/// Syncs the directory that contains a path.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| match File::open(parent)?.sync_all() {
        // Some file systems do not support this for directories.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    })
}

/// Returns true if the error means that there is no pin. Its directory is closed to other users unless there is one.
fn is_none(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

/// Removes unused inputs, such as those that an earlier run could not remove because another run was reading them. Must
/// only be called while holding the lock of Holo.
pub fn tidy(root: &Root) {
    if let Ok(pin) = Pin::read(root) {
        remove_unused(root, pin.as_ref());
    }
}

/// Removes the inputs of all generations except this one, unless a run is reading them. The next call tries again.
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

/// Removes a directory unless another run has locked it. It is renamed first, so that no run sees it partially removed.
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
