//! Entries of a manifest.

use crate::error::Result;
use crate::image::Stamp;
use crate::path_handle::{FileStat, Kind, PathHandle};

/// The digests of files, which may be cached.
pub trait FileDigests {
    /// Returns the SHA-256 of the content of a file that has this stamp, as hexadecimal digits.
    ///
    /// # Errors
    /// If it cannot be read.
    fn sha256(&self, file: &PathHandle, stamp: &Stamp) -> Result<String>;
}

/// The owner that was asked for. Without one, it is the user that this process runs as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// The user.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
}

impl Ownership {
    /// Returns the owner that something would have, where that is not what this one asks for, or what is made without asking.
    #[must_use]
    pub fn changed_to(self, after: Ownership) -> Ownership {
        let own_user = rustix::process::geteuid().as_raw();
        let own_group = rustix::process::getegid().as_raw();
        Ownership {
            uid: after.uid.filter(|uid| *uid != self.uid.unwrap_or(own_user)),
            gid: after.gid.filter(|gid| *gid != self.gid.unwrap_or(own_group)),
        }
    }

    /// Returns true if a file has this owner. A group that was not asked for may come from the directory.
    #[must_use]
    pub fn matches(self, stat: &FileStat) -> bool {
        let uid = self.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
        uid == stat.uid && self.gid.is_none_or(|gid| gid == stat.gid)
    }
}

/// A file, directory or symlink that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestEntry {
    /// Its type, with what goes with that.
    pub kind: EntryKind,
    /// Its owner.
    pub owner: Ownership,
}

/// The type of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Directory {
        /// Its mode.
        mode: u32,
    },
    /// A file.
    File {
        /// Its mode.
        mode: u32,
        /// Its length.
        size: u64,
        /// The digest of its content.
        sha256: String,
    },
    /// A symlink.
    Symlink {
        /// The path that it leads to.
        target: Vec<u8>,
    },
}

impl ManifestEntry {
    /// Returns true for a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        matches!(self.kind, EntryKind::Directory { .. })
    }

    /// Returns the entry of a file or symlink as it is now; none if there is neither.
    ///
    /// # Errors
    /// If the path cannot be read.
    pub fn of(path: &PathHandle, digests: &dyn FileDigests) -> Result<Option<ManifestEntry>> {
        let Some(stamp) = Stamp::of(path)? else { return Ok(None) };
        let stat = stamp.stat();
        let kind = match stat.kind {
            Kind::File => EntryKind::File { mode: stat.mode, size: stat.size, sha256: digests.sha256(path, &stamp)? },
            Kind::Symlink => EntryKind::Symlink { target: path.read_link()? },
            Kind::Directory | Kind::Other => return Ok(None),
        };
        Ok(Some(ManifestEntry { kind, owner: Ownership { uid: Some(stat.uid), gid: Some(stat.gid) } }))
    }

    /// Returns true if a path is as the entry says. Mode and owner of a directory are not compared: users may change them.
    ///
    /// # Errors
    /// If the path cannot be read.
    pub fn is_at(&self, path: &PathHandle, digests: &dyn FileDigests) -> Result<bool> {
        Stamp::of(path)?.map_or(Ok(false), |stamp| self.matches(path, &stamp, digests))
    }

    /// Returns true if a path that has this stamp is as the entry says, as [`is_at`](ManifestEntry::is_at).
    ///
    /// # Errors
    /// If the path cannot be read.
    pub fn matches(&self, path: &PathHandle, stamp: &Stamp, digests: &dyn FileDigests) -> Result<bool> {
        let stat = stamp.stat();
        match &self.kind {
            EntryKind::Directory { .. } => Ok(stat.kind == Kind::Directory),
            EntryKind::Symlink { target } => {
                Ok(stat.kind == Kind::Symlink && self.owner.matches(&stat) && *target == path.read_link()?)
            }
            EntryKind::File { mode, size, sha256 } => {
                let is_alike =
                    stat.kind == Kind::File && (stat.mode, stat.size) == (*mode, *size) && self.owner.matches(&stat);
                Ok(is_alike && *sha256 == digests.sha256(path, stamp)?)
            }
        }
    }
}
