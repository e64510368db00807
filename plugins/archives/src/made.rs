//! What we made at a path, and whether it is still that.

use crate::known::Known;
use holo_change::error::Result;
use holo_change::{FileStat, Kind, PathHandle};

/// Who owns what we make; what is not given is whoever we are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
}

impl Owner {
    /// Whether that is who owns it. A group that was not asked for may come from the directory.
    pub(crate) fn owns(self, looks: &FileStat) -> bool {
        let uid = self.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
        uid == looks.uid && self.gid.is_none_or(|gid| gid == looks.gid)
    }
}

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) thing: Thing,
    pub(crate) owner: Owner,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Thing {
    Directory { mode: u32 },
    File { mode: u32, size: u64, sha256: String },
    Symlink { target: Vec<u8> },
}

impl Made {
    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.thing, Thing::Directory { .. })
    }

    /// Whether this is what is at a place. Of a directory only that it is one: people may give theirs to others.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn is_at(&self, place: &PathHandle, known: &Known) -> Result<bool> {
        let Some(looks) = place.stat()? else { return Ok(false) };
        match &self.thing {
            Thing::Directory { .. } => Ok(looks.kind == Kind::Directory),
            Thing::Symlink { target } => {
                Ok(looks.kind == Kind::Symlink && self.owner.owns(&looks) && *target == place.read_link()?)
            }
            Thing::File { mode, size, sha256 } => {
                let is_alike =
                    looks.kind == Kind::File && (looks.mode, looks.size) == (*mode, *size) && self.owner.owns(&looks);
                Ok(is_alike && *sha256 == known.sums(place, None)?.sha256)
            }
        }
    }
}
