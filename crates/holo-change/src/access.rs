//! File metadata: owner, group, mode, ACLs and SELinux context, changed in place, and the records of the original values and those that
//! were set.

use crate::acl::Acl;
use crate::error::{PathError, Result, at};
use crate::overwriting::check_in_place;
use crate::path_handle::{
    ACCESS_ACL, DEFAULT_ACL, ExtendedAttributes, FileStat, Kind, PathHandle, SELINUX, remove_attribute,
};
use crate::paths::path_bytes;
use crate::tracked::Decision;
use bstr::{BString, ByteSlice};
use holo_protocol::Text;
use rustix::fs::{FileType, Gid, Mode, Uid, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const MODE_BITS: u32 = 0o7777;

/// The metadata of a file that controls access to it. Fields that are not managed, or unknown, are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// The owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// All twelve mode bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// The ACL. If the file has only a mode, the equivalent ACL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acl: Option<Acl>,
    /// The default ACL of a directory; empty if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_acl: Option<Acl>,
    /// The SELinux context; empty if the file has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selinux: Option<String>,
}

impl Access {
    /// Returns the owner, group and mode. Symlinks have no mode.
    #[must_use]
    pub fn of_stat(stat: &FileStat) -> Access {
        let mode = (stat.kind != Kind::Symlink).then_some(stat.mode);
        Access { uid: Some(stat.uid), gid: Some(stat.gid), mode, ..Access::default() }
    }

    /// Returns the ACLs and the SELinux context of a file or directory.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn of_attributes(place: &PathHandle, stat: &FileStat) -> Result<Access> {
        let attributes = ExtendedAttributes::of(place)?;
        let default_acl = (stat.kind == Kind::Directory).then(|| attributes.default_acl().unwrap_or_default());
        Ok(Access {
            acl: Some(attributes.acl().unwrap_or_else(|| Acl::of_mode(stat.mode))),
            default_acl,
            selinux: Some(attributes.selinux_context().unwrap_or_default()),
            ..Access::default()
        })
    }

    /// Returns the fields that are also set in `other`.
    #[must_use]
    pub fn limited_to(&self, other: &Access) -> Access {
        fn both<T: Clone, U>(ours: &Option<T>, others: &Option<U>) -> Option<T> {
            ours.clone().filter(|_| others.is_some())
        }
        Access {
            uid: both(&self.uid, &other.uid),
            gid: both(&self.gid, &other.gid),
            mode: both(&self.mode, &other.mode),
            acl: both(&self.acl, &other.acl),
            default_acl: both(&self.default_acl, &other.default_acl),
            selinux: both(&self.selinux, &other.selinux),
        }
    }

    /// Returns these fields, completed with those of `other`.
    #[must_use]
    pub fn or(&self, other: &Access) -> Access {
        let ours = self.clone();
        Access {
            uid: ours.uid.or(other.uid),
            gid: ours.gid.or(other.gid),
            mode: ours.mode.or(other.mode),
            acl: ours.acl.or_else(|| other.acl.clone()),
            default_acl: ours.default_acl.or_else(|| other.default_acl.clone()),
            selinux: ours.selinux.or_else(|| other.selinux.clone()),
        }
    }

    /// Returns the fields that differ from `current`.
    #[must_use]
    pub fn missing_in(&self, current: &Access) -> Access {
        fn missing<T: Clone + PartialEq>(wanted: &Option<T>, current: &Option<T>) -> Option<T> {
            wanted.clone().filter(|_| wanted != current)
        }
        Access {
            uid: missing(&self.uid, &current.uid),
            gid: missing(&self.gid, &current.gid),
            mode: missing(&self.mode, &current.mode),
            acl: missing(&self.acl, &current.acl),
            default_acl: missing(&self.default_acl, &current.default_acl),
            selinux: missing(&self.selinux, &current.selinux),
        }
    }

    /// Returns true if no field is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Access::default()
    }

    /// Returns the names of the fields as a fragment such as `the owner and mode`.
    #[must_use]
    pub fn parts(&self) -> String {
        let parts = [
            (self.mode.is_some(), "mode"),
            (self.uid.is_some(), "owner"),
            (self.gid.is_some(), "group"),
            (self.acl.is_some(), "ACL"),
            (self.default_acl.is_some(), "default ACL"),
            (self.selinux.is_some(), "SELinux context"),
        ];
        let names: Vec<&str> = parts.iter().filter(|(is_there, _)| *is_there).map(|(_, name)| *name).collect();
        match names.split_last() {
            Some((last, [])) => format!("the {last}"),
            Some((last, names)) => format!("the {} and {last}", names.join(", ")),
            None => String::new(),
        }
    }

    /// Applies the fields to a file, directory or symlink. Symlinks are not followed.
    ///
    /// # Errors
    /// If the file has another type by now, has several links in a directory of another user, or the system refuses the
    /// change.
    pub fn give(&self, place: &PathHandle) -> Result<()> {
        let Some(stat) = place.stat()? else { return Err(PathError::missing("chown", place.shown())) };
        if stat.kind == Kind::Symlink {
            return place.change_owner(self.uid.map(Uid::from_raw), self.gid.map(Gid::from_raw));
        }
        let shown = place.shown();
        if stat.kind == Kind::Other {
            return Err(PathError::new("chmod", shown, Errno::INVAL));
        }
        let file = place.open()?;
        let opened = rustix::fs::fstat(&file).map_err(at("stat", &shown))?;
        if FileType::from_raw_mode(opened.st_mode) != FileType::Directory {
            check_in_place(&opened, place)?;
        }
        self.give_open(&file, opened.st_mode & MODE_BITS, &shown)?;
        rustix::fs::fsync(&file)
            .or_else(|errno| if errno == Errno::INVAL { Ok(()) } else { Err(errno) })
            .map_err(at("sync", &shown))
    }

    fn give_open(&self, file: &File, mode: u32, shown: &Path) -> Result<()> {
        let chmod = |mode: u32| rustix::fs::fchmod(file, Mode::from_raw_mode(mode)).map_err(at("chmod", shown));
        if self.uid.is_some() || self.gid.is_some() {
            // The new owner or group must not have, even briefly, permissions that are about to be removed.
            let narrowed = mode & self.mode.unwrap_or(mode);
            if narrowed != mode {
                chmod(narrowed)?;
            }
            let (uid, gid) = (self.uid.map(Uid::from_raw), self.gid.map(Gid::from_raw));
            rustix::fs::fchown(file, uid, gid).map_err(at("chown", shown))?;
        }
        if let Some(acl) = &self.acl {
            set_acl(file, acl, mode, shown)?;
        }
        match &self.default_acl {
            Some(acl) if acl.is_empty() => {
                remove_attribute(file, OsStr::new(DEFAULT_ACL)).map_err(at("removexattr", shown))?;
            }
            Some(acl) => set(file, OsStr::new(DEFAULT_ACL), &acl.to_bytes()).map_err(|errno| no_acl(errno, shown))?,
            None => {}
        }
        match self.selinux.as_deref() {
            Some("") => remove_attribute(file, OsStr::new(SELINUX)).map_err(at("removexattr", shown))?,
            Some(context) => {
                let value = [context.as_bytes(), b"\0"].concat();
                set(file, OsStr::new(SELINUX), &value).map_err(|errno| no_context(errno, context, shown))?;
            }
            None => {}
        }
        self.mode.map_or(Ok(()), chmod)
    }
}

/// Sets an ACL; one that is equivalent to a mode becomes that mode.
fn set_acl(file: &File, acl: &Acl, mode: u32, shown: &Path) -> Result<()> {
    match set(file, OsStr::from_bytes(ACCESS_ACL), &acl.to_bytes()) {
        // File systems without ACLs only have modes.
        Err(Errno::NOTSUP) if acl.is_minimal() => {
            let mode = mode & !0o777 | acl.mode();
            rustix::fs::fchmod(file, Mode::from_raw_mode(mode)).map_err(at("chmod", shown))
        }
        set => set.map_err(|errno| no_acl(errno, shown)),
    }
}

fn set(file: &File, name: &OsStr, value: &[u8]) -> rustix::io::Result<()> {
    rustix::fs::fsetxattr(file, name, value, XattrFlags::empty())
}

fn no_acl(errno: Errno, shown: &Path) -> PathError {
    if errno != Errno::NOTSUP {
        return PathError::new("set the ACL of", shown, errno);
    }
    let words = "its file system has no ACLs; mount it with them, or leave out the key acl";
    PathError::new("set the ACL of", shown, io::Error::new(io::ErrorKind::Unsupported, words))
}

fn no_context(errno: Errno, context: &str, shown: &Path) -> PathError {
    let words = match errno {
        Errno::NOTSUP | Errno::NOSYS => "its file system cannot hold a SELinux context",
        Errno::INVAL => "the SELinux policy does not know it",
        Errno::PERM | Errno::ACCESS if !is_selinux_on() => {
            "SELinux is off on this machine, and the system does not let us store a context for later"
        }
        errno => return PathError::new("set the SELinux context of", shown, errno),
    };
    PathError::new("set the SELinux context of", shown, io::Error::other(format!("{context}: {words}")))
}

/// Returns true if SELinux is enabled, enforcing or permissive.
fn is_selinux_on() -> bool {
    Path::new("/sys/fs/selinux/enforce").exists()
}

/// The mode bits that a change of the owner clears on files.
const ID_BITS: u32 = 0o6000;

/// The paths whose metadata an entity has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(Text, AccessTrack)>", into = "Vec<(Text, AccessTrack)>")]
pub struct AccessTracks(BTreeMap<BString, AccessTrack>);

impl From<Vec<(Text, AccessTrack)>> for AccessTracks {
    fn from(tracks: Vec<(Text, AccessTrack)>) -> Self {
        AccessTracks(tracks.into_iter().map(|(path, track)| (path.0, track)).collect())
    }
}

impl From<AccessTracks> for Vec<(Text, AccessTrack)> {
    fn from(tracks: AccessTracks) -> Self {
        tracks.0.into_iter().map(|(path, track)| (Text(path), track)).collect()
    }
}

impl AccessTracks {
    /// Returns the record of a path.
    #[must_use]
    pub fn get(&self, path: &Path) -> Option<&AccessTrack> {
        self.0.get(&path_bytes(path))
    }

    /// Returns the record of a path, which is created from `base` if it does not exist.
    pub fn get_or_insert(&mut self, path: &Path, base: impl FnOnce() -> Access) -> &mut AccessTrack {
        self.0.entry(path_bytes(path)).or_insert_with(|| AccessTrack::new(base()))
    }

    /// Removes the record of a path.
    pub fn remove(&mut self, path: &Path) {
        self.0.remove(&path_bytes(path));
    }

    /// Returns all paths in order, with their records.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (PathBuf, &AccessTrack)> {
        self.0.iter().map(|(path, track)| (path.to_path_lossy().into_owned(), track))
    }

    /// Returns true if no path has a record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the records of another entity; existing ones take precedence.
    pub fn take_over(&mut self, other: AccessTracks) {
        for (path, track) in other.0 {
            self.0.entry(path).or_insert(track);
        }
    }
}

/// The metadata of a path: the original values, and those that were set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessTrack {
    /// The metadata before the first change.
    pub base: Access,
    /// The metadata that was set last, or was about to be set.
    pub made: Access,
    /// The metadata that was set before `made`.
    #[serde(default, skip_serializing_if = "Access::is_empty")]
    pub before: Access,
}

impl AccessTrack {
    /// Creates the record of an unchanged path.
    #[must_use]
    pub fn new(base: Access) -> AccessTrack {
        AccessTrack { made: base.clone(), base, before: Access::default() }
    }

    /// Returns the record with an original ACL that has this mode.
    #[must_use]
    pub fn with_mode(&self, mode: u32) -> AccessTrack {
        let mut track = self.clone();
        track.base.acl = track.base.acl.map(|acl| acl.with_mode(mode));
        track
    }

    /// Records the metadata that is about to be set on a path with the metadata `current`.
    pub fn intend(&mut self, current: &Access, desired: &Access) {
        self.base = self.base.or(&current.limited_to(desired));
        self.before = std::mem::take(&mut self.made);
        self.made = desired.or(&self.before);
    }

    /// Decides on a change to the desired metadata: values that were neither set by us nor found originally are manual
    /// changes.
    ///
    /// `modes` are the modes that the path was given as part of its state: a chmod to one of them also changes the ACL.
    #[must_use]
    pub fn decide(&self, current: &Access, desired: &Access, modes: &[u32]) -> Decision {
        let missing = desired.missing_in(current);
        if missing.is_empty() {
            return Decision::Nothing;
        }
        // Fields that were never managed cannot be manual changes of managed values.
        let ours = current.limited_to(&missing).limited_to(&self.made);
        let known = [&self.base, &self.made, &self.before];
        let is_known = |is_so: &dyn Fn(&Access) -> bool| known.iter().any(|known| is_so(known));
        let ours_alone = (ours.uid.is_none() || is_known(&|known| known.uid == ours.uid))
            && (ours.gid.is_none() || is_known(&|known| known.gid == ours.gid))
            && ours.mode.is_none_or(|mode| {
                // A kill may have occurred between the changes of owner and mode.
                let narrowed = |known: u32| mode & 0o1777 == known & self.made.mode.unwrap_or(known) & 0o1777;
                is_known(&|known| {
                    known.mode.is_some_and(|known| known & !ID_BITS == mode & !ID_BITS || narrowed(known))
                })
            })
            && (ours.acl.is_none()
                || is_known(&|known| {
                    let after_chmod = |mode: &u32| known.acl.clone().map(|acl| acl.with_mode(*mode)) == ours.acl;
                    known.acl == ours.acl || modes.iter().any(after_chmod)
                }))
            && (ours.default_acl.is_none() || is_known(&|known| known.default_acl == ours.default_acl))
            && (ours.selinux.is_none() || is_known(&|known| known.selinux == ours.selinux));
        if ours_alone { Decision::Change } else { Decision::NeedsForce }
    }

    /// Returns the changes that restore the original metadata. The set-user-ID and set-group-ID bits of a file are not
    /// restored together with its owner, because the interim owner may have changed the content.
    #[must_use]
    pub fn restoration(&self, current: &Access, is_file: bool) -> Access {
        let mut missing = self.base.missing_in(current);
        let changes_owner = missing.uid.is_some() || missing.gid.is_some();
        if is_file && changes_owner {
            missing.mode = missing.mode.or(current.mode).map(|mode| mode & !ID_BITS);
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::{Acl, Tag};

    fn with_acl(acl: Acl) -> Access {
        Access { acl: Some(acl), ..Access::default() }
    }

    #[test]
    fn an_acl_changed_by_our_own_chmod_is_ours() {
        let named = |mask| {
            let entries = [(Tag::User(1001), 0o6), (Tag::GroupObj, 0o4), (Tag::Mask, mask)];
            Acl::new(Acl::of_mode(0o640).entries().chain(entries))
        };
        let desired = with_acl(named(0o2));
        for (made, current) in [(Acl::of_mode(0o444), Acl::of_mode(0o660)), (named(0o4), named(0o6))] {
            let (track, current) = (AccessTrack::new(with_acl(made)), with_acl(current));
            assert_eq!(track.decide(&current, &desired, &[0o640, 0o660]), Decision::Change);
            assert_eq!(track.decide(&current, &desired, &[0o640]), Decision::NeedsForce);
            assert_eq!(track.decide(&current, &desired, &[]), Decision::NeedsForce);
        }
        // Removing the entry of a user is no chmod.
        let track = AccessTrack::new(with_acl(named(0o6)));
        assert_eq!(track.decide(&with_acl(Acl::of_mode(0o660)), &desired, &[0o660]), Decision::NeedsForce);
    }
}
