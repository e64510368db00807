//! Stamps: file metadata that shows changes without reading the content.

use super::{Content, Image, MODE_BITS, Unmanageable};
use crate::error::{Result, at};
use crate::path_handle::{FileStat, Kind, PathHandle};
use crate::resolution::is_trusted;
use rustix::fs::{FileType, Stat};
use std::fs::File;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The resolution of time stamps on FAT, in seconds; no other file system supported by Linux has a coarser one.
const COARSEST_TICK: u64 = 2;

/// The mode bits that permit others than the owner to write. With an ACL, the group bits are its mask.
const OTHERS_WRITE: u32 = 0o022;

/// Returns true if a change at this time, in seconds since 1970, was long enough before this moment that the next change
/// has another time.
#[must_use]
pub fn is_settled(changed: u64, moment: SystemTime) -> bool {
    let moment = moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    changed.saturating_add(COARSEST_TICK) < moment
}

/// The metadata of a file. Its content, mode and owner cannot be changed without changing its stamp.
///
/// There is one exception: if a file changes twice within a tick of the file system's clock, both stamps may be equal.
/// Therefore a stamp is only conclusive if it was settled when it was taken.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    device: u64,
    inode: u64,
    names: u64,
    size: u64,
    /// Both times, in seconds since 1970 and additional nanoseconds.
    modified: i64,
    changed: i64,
    modified_nsec: u32,
    changed_nsec: u32,
    /// Includes the file type.
    mode: u32,
    uid: u32,
    gid: u32,
}

// Many stamps may be kept in memory. The kernel's structure is twice as large.
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

/// A change of a file by another process since it was examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meanwhile {
    /// The file was replaced or modified.
    Changed,
    /// The file was removed.
    Gone,
}

impl Stamp {
    /// Returns the stamp of a path; `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be examined.
    pub fn of(place: &PathHandle) -> Result<Option<Stamp>> {
        place.raw_stat().map(|stat| stat.map(Stamp::from))
    }

    /// Returns the stamp of a path; symlinks are followed if `follow` is set.
    ///
    /// # Errors
    /// If the path cannot be examined.
    pub fn of_path(path: &Path, follow: bool) -> std::io::Result<Stamp> {
        let stat = if follow { rustix::fs::stat(path) } else { rustix::fs::lstat(path) };
        Ok(Stamp::from(stat?))
    }

    /// Returns the inode number.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Returns the file properties.
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

    /// Returns the change of a path since it had this stamp; `None` as a stamp means that it did not exist. Changes of
    /// the number of links are ignored if `but_for_names` is set.
    ///
    /// # Errors
    /// If the path cannot be examined.
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

    /// Returns the stamp of an open file; `shown` is its path in an error.
    ///
    /// # Errors
    /// If the file cannot be examined.
    pub fn of_open(file: &File, shown: &Path) -> Result<Stamp> {
        rustix::fs::fstat(file).map(Stamp::from).map_err(at("stat", shown))
    }

    /// Returns true if both stamps are of the same file, changed or not.
    #[must_use]
    pub fn is_same_file(&self, other: &Stamp) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Returns the image of the file with this stamp.
    ///
    /// # Errors
    /// If it is neither a file nor a symlink, or cannot be examined.
    pub fn image(&self, place: &PathHandle) -> std::result::Result<Image, Unmanageable> {
        let content = match FileType::from_raw_mode(self.mode) {
            FileType::RegularFile => Content::File { place: place.clone(), size: self.size },
            FileType::Symlink => Content::Symlink(place.read_link()?),
            _ => return Err(Unmanageable::WrongType),
        };
        let mode = self.mode & MODE_BITS;
        Ok(Image { content, mode, uid: self.uid, gid: self.gid, attributes_of: place.clone() })
    }

    /// Returns true if the file has not changed between both stamps.
    #[must_use]
    pub fn is_same(&self, other: &Stamp) -> bool {
        self.to_bytes() == other.to_bytes()
    }

    /// Returns true if the file has not changed between both stamps, except that a link may have been added or removed.
    #[must_use]
    pub fn is_same_but_for_names(&self, other: &Stamp) -> bool {
        self.nameless().is_same(&other.nameless())
    }

    /// Returns the stamp without the parts that change when a link is added or removed.
    #[must_use]
    pub fn nameless(&self) -> Stamp {
        Stamp { changed: 0, changed_nsec: 0, ..*self }
    }

    /// Returns true if any later write shows in the stamp, because the modification time was set to the past.
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

    /// Returns the number of links.
    #[must_use]
    pub fn names(&self) -> u64 {
        self.names
    }

    /// Returns true for a regular file that only root and the current user can write, unless it is already open: it has
    /// exactly this number of links, and its mode does not permit others to write.
    #[must_use]
    pub fn is_ours_alone(&self, names: u64) -> bool {
        let stat = self.stat();
        stat.kind == Kind::File && is_trusted(stat.uid) && stat.mode & OTHERS_WRITE == 0 && stat.names == names
    }

    /// Returns true if the last change was long enough before this moment that the next change results in a different
    /// stamp.
    #[must_use]
    pub fn is_settled(&self, moment: SystemTime) -> bool {
        let seconds = |time| u64::try_from(time).unwrap_or_default();
        is_settled(seconds(self.modified).max(seconds(self.changed)), moment)
    }

    /// Returns the stamp as bytes that are only valid on this machine: device, inode, type, mode, owner, group, size,
    /// and the times of modification and change.
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
            // Longer than a tick of any clock used in tests.
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
        // An incorrect clock may have created files with times in the future.
        let future = now + Duration::from_secs(3600);
        File::options().write(true).open(folder.path().join("file")).unwrap().set_modified(future).unwrap();
        let stamp = Stamp::of(&place).unwrap().unwrap();
        assert!(!stamp.is_settled(now + Duration::from_secs(60)));
    }
}
