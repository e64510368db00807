//! The pin, which selects a generation whose inputs are used instead of the current ones.

use super::inputs::{Access, GENERATED, Node};
use super::store::{Generation, GenerationError, Store};
use crate::entities::resources::Generated;
use crate::error::IoError;
use crate::host::config;
use crate::host::root::Root;
use holo_change::tracked::Digest;
use holo_protocol::words::reason;
use jiff::Timestamp;
use rustix::fs::{AtFlags, CWD, FlockOperation, Gid, Mode, OFlags, Uid, flock};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
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
        let is_pinned = || Pin::read(root).is_ok_and(|pin| pin.map(|pin| pin.inputs(root)).as_deref() == root.inputs());
        root.has_temporary_inputs() || is_pinned()
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

/// The parent of all plugins' resource directories.
const RESOURCES: &str = "usr/share/holo";
/// The file next to the inputs that describes their generation.
pub(super) const GENERATION: &str = "generation.json";

impl Store {
    /// Writes the inputs of a generation to a new directory. Plugins that were added since get an empty directory
    /// there, so that their entities are cleaned up.
    ///
    /// # Errors
    /// If an input cannot be read, or a file cannot be written.
    pub fn check_out(&self, generation: &Generation, root: &Root, directory: &Path) -> Result<(), GenerationError> {
        let inputs = self.inputs(generation.number)?;
        let io = |operation, path: &Path, error| GenerationError::Io(IoError::new(operation, path, error));
        fs::create_dir_all(directory).map_err(|error| io("mkdir", directory, error))?;
        let mut files: HashMap<Digest, Vec<(PathBuf, Access)>> = HashMap::new();
        let mut directories = Vec::new();
        for (path, node) in &inputs {
            let path = directory.join(path);
            match node {
                Node::Directory(access) => {
                    // Until it gets its mode, its files are private.
                    fs::DirBuilder::new().mode(0o700).create(&path).map_err(|error| io("mkdir", &path, error))?;
                    directories.push((path, *access));
                }
                Node::Symlink(target) => symlink(target, &path).map_err(|error| io("symlink", &path, error))?,
                Node::File { access, content } => files.entry(content.clone()).or_default().push((path, *access)),
            }
        }
        let today = config::read(&root.today()).map(|today| today.plugins).unwrap_or_default();
        for plugin in today {
            let path = directory.join(RESOURCES).join(plugin.id);
            fs::create_dir_all(&path).map_err(|error| io("mkdir", &path, error))?;
        }
        self.read_files(generation.number, files, |files, content| write_all(&files, content))?;
        let description = directory.join(GENERATION);
        let written = serde_json::to_vec(generation).map_err(io::Error::from);
        written.and_then(|text| fs::write(&description, text)).map_err(|error| io("write", &description, error))?;
        // Set last, as the modes may deny access to ourselves.
        for (path, access) in directories.iter().rev() {
            give(path, *access).map_err(|error| io("chmod", path, error))?;
        }
        Ok(())
    }
}

/// Copies generated files of an earlier run, whose inputs are in this directory, to the virtual root. Inputs that are
/// not those of a generation have none.
///
/// # Errors
/// If a file cannot be read or written.
pub fn restore_generated(inputs: &Path, virtual_root: &Path) -> Result<Generated, IoError> {
    let description = inputs.join(GENERATION);
    let read = match fs::read(&description) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Generated::default()),
        read => read.and_then(|text| Ok(serde_json::from_slice::<Generation>(&text)?)),
    };
    let generated = read.map_err(|error| IoError::new("open", &description, error))?.generators();
    for file in generated.keys() {
        let (from, to) = (inputs.join(GENERATED).join(file), virtual_root.join(file));
        let parent = to.parent().unwrap_or(virtual_root);
        let copied = fs::create_dir_all(parent).and_then(|()| match from.read_link() {
            Ok(target) => symlink(target, &to),
            Err(_) if from.is_dir() => fs::create_dir_all(&to),
            Err(_) => fs::copy(&from, &to).map(drop),
        });
        copied.map_err(|error| IoError::new("copy", &from, error))?;
    }
    Ok(generated)
}

/// Writes files with the same content.
fn write_all(files: &[(PathBuf, Access)], content: &mut dyn Read) -> Result<(), IoError> {
    let Some(((first, first_access), others)) = files.split_first() else { return Ok(()) };
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| IoError::new("write", &path, error)
    };
    let create = |path: &Path| OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    create(first).and_then(|mut file| io::copy(content, &mut file)).map_err(failed(first))?;
    for (other, access) in others {
        let copied = create(other).and_then(|mut file| io::copy(&mut File::open(first)?, &mut file));
        copied.and_then(|_| give(other, *access)).map_err(failed(other))?;
    }
    give(first, *first_access).map_err(failed(first))
}

/// Sets the owner and mode of a file or directory. Without root privileges, the owner stays the current user.
pub(super) fn give(path: &Path, access: Access) -> io::Result<()> {
    let owner = (Uid::from_raw(access.uid), Gid::from_raw(access.gid));
    match rustix::fs::chownat(CWD, path, Some(owner.0), Some(owner.1), AtFlags::SYMLINK_NOFOLLOW) {
        Err(rustix::io::Errno::PERM) if !rustix::process::geteuid().is_root() => {}
        given => given?,
    }
    fs::set_permissions(path, Permissions::from_mode(access.mode))
}

fn sync_file_system(directory: &Path) -> io::Result<()> {
    let directory = rustix::fs::open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(rustix::fs::syncfs(directory)?)
}
