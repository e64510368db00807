//! Files in the cache directory that show the current state of an entity, and the result of applying it.

use crate::{FilePair, Host};
use bstr::ByteSlice;
use holo_change::{Kind, PathError, PathHandle, hex};
use std::fmt::Display;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The placeholder for sensitive content.
pub const SENSITIVE: &[u8] = b"(sensitive)\n";

/// Returns a warning if an entity writes sensitive content into a file with a mode that lets everyone read it.
#[must_use]
pub fn exposure(id: impl Display, shown: &Path, mode: u32) -> Option<String> {
    let text = || format!("{id} writes sensitive content into {}, which everyone can read", shown.display());
    (mode & 0o004 != 0).then(text)
}

/// Two directories in the cache: one for the current state, and one for the result of an apply.
#[derive(Debug)]
pub struct Preview {
    folder: PathBuf,
}

/// An object to be displayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A file.
    File {
        /// Its content.
        content: Vec<u8>,
        /// Its mode. Unless the pair of files [has modes](FilePair::has_modes), only the execute permission of the owner is
        /// displayed.
        mode: u32,
    },
    /// A symlink with this target.
    Symlink(PathBuf),
    /// A directory with this mode, which must be empty.
    Directory(u32),
}

impl Preview {
    /// Creates empty directories for the entity with this ID.
    ///
    /// # Errors
    /// If the directories cannot be created.
    pub fn new(host: &Host, id: &[u8]) -> io::Result<Preview> {
        let name = hex(id);
        // File names are limited to 255 bytes.
        let parts = name.as_bytes().chunks(200).map(|part| String::from_utf8_lossy(part).into_owned());
        let folder = parts.fold(host.cache_dir().join("previews"), |folder, part| folder.join(part)).join("_");
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        for side in ["from", "to"] {
            // The contents may only be readable by root.
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder.join(side))?;
        }
        Ok(Preview { folder })
    }

    /// Creates the files for two texts that describe the entity with this ID; an empty text means that the file does
    /// not exist.
    ///
    /// # Errors
    /// If the files cannot be created.
    pub fn texts(host: &Host, id: &str, from: &str, to: &str) -> io::Result<FilePair> {
        let preview = Preview::new(host, id.as_bytes())?;
        let below = Path::new("text");
        for (path, text) in [(preview.from(below), from), (preview.to(below), to)] {
            if !text.is_empty() {
                Shown::File { content: text.into(), mode: 0o600 }.write(&path)?;
            }
        }
        Ok(preview.pair(below, Path::new(id)))
    }

    /// Returns the path for the current state of the file at this path below the entity.
    #[must_use]
    pub fn from(&self, below: &Path) -> PathBuf {
        self.folder.join("from").join(below)
    }

    /// Returns the path for the result of the file at this path below the entity.
    #[must_use]
    pub fn to(&self, below: &Path) -> PathBuf {
        self.folder.join("to").join(below)
    }

    /// Returns both as a pair, labelled with the path of the entity as displayed to the user.
    #[must_use]
    pub fn pair(&self, below: &Path, shown: &Path) -> FilePair {
        let label = shown.as_os_str().as_encoded_bytes();
        FilePair::new(self.from(below), self.to(below)).with_from_label(label).with_to_label(label)
    }
}

impl Shown {
    /// Returns the file or symlink at a path; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn found(place: &PathHandle) -> Result<Option<Shown>, PathError> {
        let Some(stat) = place.stat()? else { return Ok(None) };
        Ok(match stat.kind {
            Kind::File => place.read_if_file()?.map(|content| Shown::File { content, mode: stat.mode }),
            Kind::Symlink => Some(Shown::Symlink(place.read_link()?.to_path_lossy().into_owned())),
            Kind::Directory | Kind::Other => None,
        })
    }

    /// Creates the object at a path in the cache.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        match self {
            Shown::Symlink(target) => symlink(target, path),
            Shown::Directory(mode) => {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
                fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))
            }
            Shown::File { content, mode } => {
                fs::write(path, content)?;
                fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))
            }
        }
    }
}
