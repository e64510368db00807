//! Entries of a manifest: what an archive has brought to a path.

use crate::checksum_cache::ChecksumCache;
use holo_change::error::Result;
use holo_change::{FileStat, Kind, PathHandle};

/// The owner that the definition asks for. Without one, it is the user that this process runs as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ownership {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
}

impl Ownership {
    /// Returns true if a file has this owner. A group that was not asked for may come from the directory.
    pub(crate) fn matches(self, stat: &FileStat) -> bool {
        let uid = self.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
        uid == stat.uid && self.gid.is_none_or(|gid| gid == stat.gid)
    }
}

/// A file, directory or symlink that was extracted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManifestEntry {
    pub(crate) kind: EntryKind,
    pub(crate) owner: Ownership,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Directory { mode: u32 },
    File { mode: u32, size: u64, sha256: String },
    Symlink { target: Vec<u8> },
}

impl ManifestEntry {
    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.kind, EntryKind::Directory { .. })
    }

    /// Returns true if a path is as the entry says. Mode and owner of a directory are not compared: users may change them.
    ///
    /// # Errors
    /// If the path cannot be read.
    pub(crate) fn is_at(&self, path: &PathHandle, checksums: &ChecksumCache) -> Result<bool> {
        let Some(stat) = path.stat()? else { return Ok(false) };
        match &self.kind {
            EntryKind::Directory { .. } => Ok(stat.kind == Kind::Directory),
            EntryKind::Symlink { target } => {
                Ok(stat.kind == Kind::Symlink && self.owner.matches(&stat) && *target == path.read_link()?)
            }
            EntryKind::File { mode, size, sha256 } => {
                let is_alike =
                    stat.kind == Kind::File && (stat.mode, stat.size) == (*mode, *size) && self.owner.matches(&stat);
                Ok(is_alike && *sha256 == checksums.digests(path, None)?.sha256)
            }
        }
    }
}
