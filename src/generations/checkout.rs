//! Writes the inputs of a generation to a directory.

use super::generation::Generation;
use super::inputs::GENERATED;
use super::store::{GenerationError, Store};
use super::tree::{Access, Node};
use crate::entities::resources::Generated;
use crate::error::IoError;
use crate::host::config;
use crate::host::root::Root;
use holo_change::tracked::Digest;
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

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

/// Copies generated files of an earlier run, whose inputs are in this directory, to the virtual root.
///
/// # Errors
/// If a file cannot be read or written.
pub fn restore_generated(inputs: &Path, virtual_root: &Path) -> Result<Generated, IoError> {
    let description = inputs.join(GENERATION);
    let read = fs::read(&description).and_then(|text| Ok(serde_json::from_slice::<Generation>(&text)?));
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
fn give(path: &Path, access: Access) -> io::Result<()> {
    let owner = (Uid::from_raw(access.uid), Gid::from_raw(access.gid));
    match rustix::fs::chownat(CWD, path, Some(owner.0), Some(owner.1), AtFlags::SYMLINK_NOFOLLOW) {
        Err(rustix::io::Errno::PERM) if !rustix::process::geteuid().is_root() => {}
        given => given?,
    }
    fs::set_permissions(path, Permissions::from_mode(access.mode))
}

pub(super) fn sync_file_system(directory: &Path) -> io::Result<()> {
    let directory = rustix::fs::open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(rustix::fs::syncfs(directory)?)
}
