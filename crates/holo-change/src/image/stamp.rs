//! Stamps: the file system's answers about places, by which a change is seen without reading.

use super::{Content, Image, MODE_BITS, Unmanageable};
use crate::error::{Result, at};
use crate::path_handle::{FileStat, Kind, PathHandle};
use crate::resolution::is_trusted;
use rustix::fs::{FileType, Stat};
use std::fs::File;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// FAT counts time in steps of so many seconds; no file system that Linux knows has larger ones.
const COARSEST_TICK: u64 = 2;

/// The bits of a mode by which others than the owner may write; with an ACL, those of the group are its mask.
const OTHERS_WRITE: u32 = 0o022;

/// The file system's answer about a place. Nobody can change what is there, be it content, mode or owner, without changing its stamp.
///
/// There is one gap: what changes twice within a tick of the file system's clock may have the same stamp both times. So a stamp says
/// something of later times only if it was settled when it was taken.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    device: u64,
    inode: u64,
    names: u64,
    size: u64,
    /// The seconds of both times since 1970, and the nanoseconds beside them.
    modified: i64,
    changed: i64,
    modified_nsec: u32,
    changed_nsec: u32,
    /// The type is in it, too.
    mode: u32,
    uid: u32,
    gid: u32,
}

// There may be very many: of the kernel's answer, twice as long, only this is kept.
impl From<Stat> for Stamp {
    fn from(stat: Stat) -> Stamp {
        Stamp {
            device: stat.st_dev,
            inode: stat.st_ino,
            names: stat.st_nlink,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: stat.st_mtime,
            changed: stat.st_ctime,
            modified_nsec: u32::try_from(stat.st_mtime_nsec).unwrap_or_default(),
            changed_nsec: u32::try_from(stat.st_ctime_nsec).unwrap_or_default(),
            mode: stat.st_mode,
            uid: stat.st_uid,
            gid: stat.st_gid,
        }
    }
}

/// Somebody's change of a file since it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meanwhile {
    /// It is another one, or was written to.
    Changed,
    /// It is gone.
    Gone,
}

impl Stamp {
    /// The stamp of what is at a place; none if nothing is.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub fn of(place: &PathHandle) -> Result<Option<Stamp>> {
        place.raw_stat().map(|stat| stat.map(Stamp::from))
    }

    /// Returns the stamp of what is at a path, or of what it leads to if `follow` is set.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub fn of_path(path: &Path, follow: bool) -> std::io::Result<Stamp> {
        let stat = if follow { rustix::fs::stat(path) } else { rustix::fs::lstat(path) };
        Ok(Stamp::from(stat?))
    }

    /// Returns the number of the file on its file system.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// The properties of what had this stamp.
    #[must_use]
    pub fn stat(&self) -> FileStat {
        FileStat {
            kind: Kind::of_mode(self.mode),
            mode: self.mode & MODE_BITS,
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            names: self.names,
            device: self.device,
        }
    }

    /// Returns what somebody has done to a place since it had this stamp; without one, since nothing was there. That it got or lost another
    /// name is nothing if `but_for_names` is set.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub fn meanwhile(before: Option<&Stamp>, place: &PathHandle, but_for_names: bool) -> Result<Option<Meanwhile>> {
        let is_same = match (before, Stamp::of(place)?) {
            (None, None) => true,
            (None, Some(_)) => false,
            (Some(_), None) => return Ok(Some(Meanwhile::Gone)),
            (Some(before), Some(now)) if but_for_names => now.is_same_but_for_names(before),
            (Some(before), Some(now)) => now.is_same(before),
        };
        Ok((!is_same).then_some(Meanwhile::Changed))
    }

    /// Returns the stamp of an open file; `shown` is its path, for an error.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub fn of_open(file: &File, shown: &Path) -> Result<Stamp> {
        rustix::fs::fstat(file).map(Stamp::from).map_err(at("stat", shown))
    }

    /// Returns true if both are stamps of one file, be it changed or not.
    #[must_use]
    pub fn is_same_file(&self, other: &Stamp) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// The image of what had this stamp at that place.
    ///
    /// # Errors
    /// If it is neither a file nor a symlink, or cannot be looked at.
    pub fn image(&self, place: &PathHandle) -> std::result::Result<Image, Unmanageable> {
        let content = match FileType::from_raw_mode(self.mode) {
            FileType::RegularFile => Content::File { place: place.clone(), size: self.size },
            FileType::Symlink => Content::Symlink(place.read_link()?),
            _ => return Err(Unmanageable::WrongType),
        };
        let mode = self.mode & MODE_BITS;
        Ok(Image { content, mode, uid: self.uid, gid: self.gid, attributes_of: place.clone() })
    }

    /// Returns true if nothing has happened to the file between the two stamps.
    #[must_use]
    pub fn is_same(&self, other: &Stamp) -> bool {
        self.to_bytes() == other.to_bytes()
    }

    /// Returns true if nothing has happened to the file between the two stamps but that it got or lost another name.
    #[must_use]
    pub fn is_same_but_for_names(&self, other: &Stamp) -> bool {
        self.nameless().is_same(&other.nameless())
    }

    /// Returns what all stamps of a file have in common between which nothing happens but that it gets or loses names.
    #[must_use]
    pub fn nameless(&self) -> Stamp {
        Stamp { changed: 0, changed_nsec: 0, ..*self }
    }

    /// Returns true if whatever is written to the file from now on shows in its stamp: it has been given an earlier time of modification than
    /// its present.
    #[must_use]
    pub fn shows_writing(&self) -> bool {
        let seconds = |time| u64::try_from(time).unwrap_or_default();
        seconds(self.modified) + COARSEST_TICK < seconds(self.changed)
    }

    /// Returns true if both files are on the same file system.
    #[must_use]
    pub fn is_on_device_of(&self, other: &Stamp) -> bool {
        self.device == other.device
    }

    /// The number of names by which the file was known.
    #[must_use]
    pub fn names(&self) -> u64 {
        self.names
    }

    /// Returns true if this is a file that nobody but root and we can write to, unless it is open already: it has no more names than these,
    /// and the mode lets nobody else.
    #[must_use]
    pub fn is_ours_alone(&self, names: u64) -> bool {
        let stat = self.stat();
        stat.kind == Kind::File && is_trusted(stat.uid) && stat.mode & OTHERS_WRITE == 0 && stat.names == names
    }

    /// Returns true if the last change was long enough before this moment for the next one to be seen by another stamp.
    #[must_use]
    pub fn is_settled(&self, moment: SystemTime) -> bool {
        let seconds = |time| u64::try_from(time).unwrap_or_default();
        let changed = seconds(self.modified).max(seconds(self.changed));
        let now = moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        changed + COARSEST_TICK < now
    }

    /// All of it, for this machine only: device, inode, type, mode, owner, group, size, and when content and inode changed last.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [
            &self.device.to_ne_bytes()[..],
            &self.inode.to_ne_bytes(),
            &self.mode.to_ne_bytes(),
            &self.uid.to_ne_bytes(),
            &self.gid.to_ne_bytes(),
            &self.size.to_ne_bytes(),
            &self.modified.to_ne_bytes(),
            &u64::from(self.modified_nsec).to_ne_bytes(),
            &self.changed.to_ne_bytes(),
            &u64::from(self.changed_nsec).to_ne_bytes(),
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_handle::Tree;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn stamps_tell_states_of_a_file_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let place = Tree::open(folder.path()).unwrap().place(Path::new("file"));
        let mut seen: Vec<Vec<u8>> = Vec::new();
        let mut stamp = || {
            // Longer than a tick of any clock that tests run by.
            std::thread::sleep(Duration::from_millis(20));
            let stamp = Stamp::of(&place).unwrap().unwrap().to_bytes();
            assert!(!seen.contains(&stamp), "state number {} looks like an earlier one", seen.len());
            seen.push(stamp);
        };
        fs::write(&path, "one").unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        stamp();
        fs::write(&path, "two").unwrap();
        stamp();
        File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        stamp();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        stamp();
        fs::copy(&path, folder.path().join("copy")).unwrap();
        fs::rename(folder.path().join("copy"), &path).unwrap();
        stamp();
        fs::remove_file(&path).unwrap();
        symlink("copy", &path).unwrap();
        stamp();
        fs::remove_file(&path).unwrap();
        assert!(Stamp::of(&place).unwrap().is_none());
    }

    #[test]
    fn a_recent_change_is_not_settled() {
        let folder = tempfile::tempdir().unwrap();
        let place = Tree::open(folder.path()).unwrap().place(Path::new("file"));
        fs::write(folder.path().join("file"), "one").unwrap();
        let stamp = Stamp::of(&place).unwrap().unwrap();
        let now = SystemTime::now();
        for (moment, settled) in [
            (now - Duration::from_secs(3600), false),
            (now, false),
            (now + Duration::from_secs(COARSEST_TICK - 1), false),
            (now + Duration::from_secs(COARSEST_TICK + 2), true),
            (UNIX_EPOCH, false),
        ] {
            assert_eq!(stamp.is_settled(moment), settled, "{moment:?}");
        }
        // A clock that was wrong once has left files of the future.
        let future = now + Duration::from_secs(3600);
        File::options().write(true).open(folder.path().join("file")).unwrap().set_modified(future).unwrap();
        let stamp = Stamp::of(&place).unwrap().unwrap();
        assert!(!stamp.is_settled(now + Duration::from_secs(60)));
    }
}
