//! Entries of a manifest.

use crate::error::Result;
use crate::image::Stamp;
use crate::path_handle::{FileStat, Kind, PathHandle};
use holo_protocol::Text;
use serde::{Deserialize, Serialize};

/// A source of file digests, which may be cached.
pub trait FileDigests {
    /// Returns the SHA-256 of the content of a file with this stamp, as hexadecimal digits.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn sha256(&self, file: &PathHandle, stamp: &Stamp) -> Result<String>;
}

/// The requested owner. If the user is not set, it is the current user of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ownership {
    /// The user ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The group ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

impl Ownership {
    /// Returns the parts of the owner `after` that differ from the requested ones, or from the defaults for new files.
    #[must_use]
    pub fn changed_to(self, after: Ownership) -> Ownership {
        let own_user = rustix::process::geteuid().as_raw();
        let own_group = rustix::process::getegid().as_raw();
        Ownership {
            uid: after.uid.filter(|uid| *uid != self.uid.unwrap_or(own_user)),
            gid: after.gid.filter(|gid| *gid != self.gid.unwrap_or(own_group)),
        }
    }

    /// Returns true if a file has this owner. A group that was not requested is ignored, because it may be inherited
    /// from the directory.
    #[must_use]
    pub fn matches(self, stat: &FileStat) -> bool {
        let uid = self.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
        uid == stat.uid && self.gid.is_none_or(|gid| gid == stat.gid)
    }
}

/// A created file, directory or symlink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// The type and its properties.
    #[serde(flatten)]
    pub kind: EntryKind,
    /// The owner.
    #[serde(flatten)]
    pub owner: Ownership,
}

/// The type of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum EntryKind {
    /// A directory.
    Directory {
        /// The mode.
        mode: u32,
    },
    /// A file.
    File {
        /// The mode.
        mode: u32,
        /// The length.
        size: u64,
        /// The SHA-256 of the content.
        sha256: String,
    },
    /// A symlink.
    Symlink {
        /// The target.
        target: Text,
    },
}

impl ManifestEntry {
    /// Returns true for a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        matches!(self.kind, EntryKind::Directory { .. })
    }

    /// Returns the entry for the current state of a file or symlink; `None` if it is neither.
    ///
    /// # Errors
    /// If the path cannot be read.
    pub fn of(path: &PathHandle, digests: &dyn FileDigests) -> Result<Option<ManifestEntry>> {
        let Some(stamp) = Stamp::of(path)? else { return Ok(None) };
        let stat = stamp.stat();
        let kind = match stat.kind {
            Kind::File => EntryKind::File { mode: stat.mode, size: stat.size, sha256: digests.sha256(path, &stamp)? },
            Kind::Symlink => EntryKind::Symlink { target: path.read_link()?.into() },
            Kind::Directory | Kind::Other => return Ok(None),
        };
        Ok(Some(ManifestEntry { kind, owner: Ownership { uid: Some(stat.uid), gid: Some(stat.gid) } }))
    }

    /// Returns true if a path matches the entry. Mode and owner of directories are ignored, because users may change
    /// them.
    ///
    /// # Errors
    /// If the path cannot be read.
    pub fn is_at(&self, path: &PathHandle, digests: &dyn FileDigests) -> Result<bool> {
        Stamp::of(path)?.map_or(Ok(false), |stamp| self.matches(path, &stamp, digests))
    }

    /// Like [`is_at`](ManifestEntry::is_at), for a path with a known stamp.
    ///
    /// # Errors
    /// If the path cannot be read.
    pub fn matches(&self, path: &PathHandle, stamp: &Stamp, digests: &dyn FileDigests) -> Result<bool> {
        let stat = stamp.stat();
        match &self.kind {
            EntryKind::Directory { .. } => Ok(stat.kind == Kind::Directory),
            EntryKind::Symlink { target } => {
                Ok(stat.kind == Kind::Symlink && self.owner.matches(&stat) && *target.0 == path.read_link()?)
            }
            EntryKind::File { mode, size, sha256 } => {
                let is_alike =
                    stat.kind == Kind::File && (stat.mode, stat.size) == (*mode, *size) && self.owner.matches(&stat);
                Ok(is_alike && *sha256 == digests.sha256(path, stamp)?)
            }
        }
    }
}
