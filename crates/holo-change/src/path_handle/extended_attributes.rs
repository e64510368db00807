//! Extended attributes of files: ACLs, capabilities, security labels and user attributes.

use super::PathHandle;
use crate::acl::Acl;
use crate::error::{PathError, Result, at};
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::Text;
use rustix::fs::{FileType, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub(crate) const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
pub(crate) const DEFAULT_ACL: &str = "system.posix_acl_default";
pub(crate) const SELINUX: &str = "security.selinux";

/// The prefixes of attributes that belong to a file on any file system.
const KEPT: [&[u8]; 7] =
    [b"user.", b"trusted.", b"security.", b"system.posix_acl_", b"system.nfs4_acl", b"system.richacl", b"btrfs."];
/// Attributes that the kernel uses internally: metadata of overlayfs layers, and signatures of a specific inode.
const NOT_KEPT: [&[u8]; 3] = [b"trusted.overlay.", b"user.overlay.", b"security.evm"];
/// The hash or signature of the file's content.
const BOUND_TO_CONTENT: &[u8] = b"security.ima";

/// Sufficient for nearly all lists of names and values.
const USUAL_SIZE: usize = 512;

/// The extended attributes of a file or directory by name: ACLs, capabilities, security labels and user attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(Text, Text)>", into = "Vec<(Text, Text)>")]
pub struct ExtendedAttributes(BTreeMap<BString, BString>);

impl From<Vec<(Text, Text)>> for ExtendedAttributes {
    fn from(attributes: Vec<(Text, Text)>) -> Self {
        ExtendedAttributes(attributes.into_iter().map(|(name, value)| (name.0, value.0)).collect())
    }
}

impl From<ExtendedAttributes> for Vec<(Text, Text)> {
    fn from(attributes: ExtendedAttributes) -> Self {
        attributes.0.into_iter().map(|(name, value)| (Text(name), Text(value))).collect()
    }
}

impl ExtendedAttributes {
    /// Reads the attributes of a file or directory; empty for symlinks. A file without attributes needs only one system
    /// call.
    ///
    /// # Errors
    /// If the file does not exist, or the attributes cannot be read.
    pub fn of(place: &PathHandle) -> Result<ExtendedAttributes> {
        match place.with("listxattr", |directory, name| read(&by_descriptor(directory, name))) {
            // `/proc` itself may be missing.
            Err(error) if error.is_missing() => ExtendedAttributes::of_opened(place),
            read => read,
        }
    }

    /// Reads the attributes of an open file or directory.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn of_open(file: &std::fs::File, shown: &Path) -> Result<ExtendedAttributes> {
        read(file).map_err(at("listxattr", shown))
    }

    fn of_opened(place: &PathHandle) -> Result<ExtendedAttributes> {
        let stat = place.raw_stat()?.ok_or_else(|| PathError::missing("listxattr", place.shown()))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if !matches!(kind, FileType::RegularFile | FileType::Directory) {
            return Ok(ExtendedAttributes::default());
        }
        read(&place.open()?).map_err(at("listxattr", &place.shown()))
    }

    /// Returns true if there are no attributes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of the attributes.
    pub fn names(&self) -> impl Iterator<Item = &BStr> {
        self.0.keys().map(|name| name.as_bstr())
    }

    /// Returns the access ACL; `None` if the file has only a mode, or the ACL has an unknown format.
    #[must_use]
    pub fn acl(&self) -> Option<Acl> {
        Acl::from_bytes(self.0.get(ACCESS_ACL.as_bstr())?)
    }

    /// Returns the default ACL of a directory.
    #[must_use]
    pub fn default_acl(&self) -> Option<Acl> {
        Acl::from_bytes(self.0.get(DEFAULT_ACL.as_bytes().as_bstr())?)
    }

    /// Returns the SELinux context, if set.
    #[must_use]
    pub fn selinux_context(&self) -> Option<String> {
        let context = self.0.get(SELINUX.as_bytes().as_bstr())?;
        Some(context.trim_end_with(|letter| letter == '\0').to_str_lossy().into_owned())
    }

    /// Returns true if the file has an access ACL in addition to its mode.
    #[must_use]
    pub fn has_acl(&self) -> bool {
        self.0.contains_key(ACCESS_ACL.as_bstr())
    }

    /// Returns the attributes without those that depend on the content, for a file whose content is replaced.
    #[must_use]
    pub fn without_those_of_content(mut self) -> ExtendedAttributes {
        self.0.remove(BOUND_TO_CONTENT.as_bstr());
        self
    }

    /// Returns the mode for a file whose ACL is lost, given its mode with ACL. It does not grant additional permissions
    /// to anyone.
    #[must_use]
    pub fn narrowed(&self, mode: u32) -> u32 {
        let Some(acl) = self.0.get(ACCESS_ACL.as_bstr()) else { return mode };
        match Acl::from_bytes(acl) {
            Some(acl) => acl.narrowed(mode),
            None => mode & !0o077,
        }
    }

    /// Sets the attributes on an open file or directory that has no other attributes, except for an ACL inherited from
    /// its directory. Returns the mode to be set afterwards.
    ///
    /// Attributes that the file system does not support, or that may not be set, are omitted; without the ACL, the mode
    /// is narrowed. The owner must be set before, because changing it removes capabilities.
    ///
    /// # Errors
    /// If the disk is full, or an I/O error occurs.
    pub fn give(&self, file: impl rustix::fd::AsFd, shown: &Path, mode: u32, inherits: bool) -> Result<u32> {
        for (name, value) in self.0.iter().filter(|(name, _)| **name != ACCESS_ACL) {
            set(&file, OsStr::from_bytes(name), value).map_err(at("setxattr", shown))?;
        }
        let access_acl = OsStr::from_bytes(ACCESS_ACL);
        match self.0.get(ACCESS_ACL.as_bstr()) {
            // It is set together with the mode, so that no one has more access at any time than in the end.
            Some(bytes) => match set(&file, access_acl, &with_mode(bytes, mode)).map_err(at("setxattr", shown))? {
                true => Ok(mode),
                false => {
                    // An inherited ACL might grant even more permissions.
                    remove(&file, access_acl).map_err(at("removexattr", shown))?;
                    Ok(self.narrowed(mode))
                }
            },
            None if inherits => remove(&file, access_acl).map_err(at("removexattr", shown)).map(|()| mode),
            None => Ok(mode),
        }
    }
}

/// A file or directory with readable attributes.
trait HasAttributes {
    fn list(&self, buffer: &mut [u8]) -> rustix::io::Result<usize>;
    fn size_of_list(&self) -> rustix::io::Result<usize>;
    fn get(&self, name: &OsStr, buffer: &mut [u8]) -> rustix::io::Result<usize>;
    fn size_of(&self, name: &OsStr) -> rustix::io::Result<usize>;
}

/// Accessed by path, without following a final symlink.
impl HasAttributes for PathBuf {
    fn list(&self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        rustix::fs::llistxattr(self, buffer)
    }

    fn size_of_list(&self) -> rustix::io::Result<usize> {
        rustix::fs::llistxattr_query(self)
    }

    fn get(&self, name: &OsStr, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        rustix::fs::lgetxattr(self, name, buffer)
    }

    fn size_of(&self, name: &OsStr) -> rustix::io::Result<usize> {
        rustix::fs::lgetxattr_query(self, name)
    }
}

impl HasAttributes for std::fs::File {
    fn list(&self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        rustix::fs::flistxattr(self, buffer)
    }

    fn size_of_list(&self) -> rustix::io::Result<usize> {
        rustix::fs::flistxattr_query(self)
    }

    fn get(&self, name: &OsStr, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        rustix::fs::fgetxattr(self, name, buffer)
    }

    fn size_of(&self, name: &OsStr) -> rustix::io::Result<usize> {
        rustix::fs::fgetxattr_query(self, name)
    }
}

/// Returns the path of a file in an open directory, because the system calls for attributes do not accept both.
fn by_descriptor(directory: &OwnedFd, name: &OsStr) -> PathBuf {
    Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name)
}

fn read(file: &impl HasAttributes) -> rustix::io::Result<ExtendedAttributes> {
    let mut attributes = BTreeMap::new();
    let names = match whole(|buffer| file.list(buffer), || file.size_of_list()) {
        // The file system does not support attributes.
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(ExtendedAttributes::default()),
        names => names?,
    };
    let is_kept = |name: &&[u8]| {
        KEPT.iter().any(|kept| name.starts_with(kept)) && !NOT_KEPT.iter().any(|other| name.starts_with(other))
    };
    for name in names.split(|&byte| byte == 0).filter(is_kept) {
        let os_name = OsStr::from_bytes(name);
        match whole(|buffer| file.get(os_name, buffer), || file.size_of(os_name)) {
            Ok(value) => drop(attributes.insert(name.into(), value.into())),
            // The permissions must be known.
            Err(errno) if name == ACCESS_ACL && errno != Errno::NODATA => return Err(errno),
            // The attribute was removed in the meantime, or may not be read.
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::NOTSUP) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(ExtendedAttributes(attributes))
}

/// Reads a value whose size is unknown and may change concurrently.
fn whole(
    read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
    size: impl Fn() -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
    let mut buffer = vec![0; USUAL_SIZE];
    loop {
        match read(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(Errno::RANGE) => buffer.resize(size()?.max(buffer.len() + 1), 0),
            Err(errno) => return Err(errno),
        }
    }
}

/// Sets an attribute. Returns false if the file system does not support it, or the process lacks permission.
fn set(file: impl rustix::fd::AsFd, name: &OsStr, value: &[u8]) -> rustix::io::Result<bool> {
    match rustix::fs::fsetxattr(file, name, value, XattrFlags::empty()) {
        Ok(()) => Ok(true),
        // EINVAL: an invalid label, or users that do not exist in this namespace.
        Err(Errno::NOTSUP | Errno::NOSYS | Errno::PERM | Errno::ACCESS | Errno::INVAL) => Ok(false),
        Err(errno) => Err(errno),
    }
}

pub(crate) fn remove(file: impl rustix::fd::AsFd, name: &OsStr) -> rustix::io::Result<()> {
    match rustix::fs::fremovexattr(file, name) {
        Err(Errno::NODATA | Errno::NOTSUP | Errno::NOSYS) => Ok(()),
        removed => removed,
    }
}

/// Returns true if files created in this directory inherit an ACL.
pub(crate) fn has_default_acl(directory: &OwnedFd) -> bool {
    let path = by_descriptor(directory, OsStr::new(""));
    // A value that does not fit counts too. Without `/proc`, true is assumed.
    !matches!(rustix::fs::getxattr_query(path, DEFAULT_ACL), Err(Errno::NODATA | Errno::NOTSUP | Errno::NOSYS))
}

/// Returns true if the file system does not support ACLs, so that a file may have lost its ACL there.
pub fn is_without_acls(place: &PathHandle) -> bool {
    let asked = place.with("getxattr", |directory, name| {
        rustix::fs::lgetxattr_query(by_descriptor(directory, name), OsStr::from_bytes(ACCESS_ACL))
    });
    asked.is_err_and(|error| Errno::from_io_error(&error.error) == Some(Errno::NOTSUP))
}

/// Returns an ACL with the entries for owner, mask and others taken from a mode.
fn with_mode(bytes: &[u8], mode: u32) -> Vec<u8> {
    Acl::from_bytes(bytes).map_or_else(|| bytes.to_vec(), |acl| acl.with_mode(mode).to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::Tag::{self, Group, GroupObj, Mask, Other, User, UserObj};
    use crate::path_handle::Tree;
    use std::fs::File;

    fn acl(entries: &[(Tag, u32)]) -> Vec<u8> {
        Acl::new(entries.iter().copied()).to_bytes()
    }

    fn with_acl(entries: &[(Tag, u32)]) -> ExtendedAttributes {
        ExtendedAttributes([(ACCESS_ACL.into(), acl(entries).into())].into())
    }

    #[test]
    fn without_its_acl_a_file_allows_nobody_more() {
        for (entries, mode, narrowed) in [
            // A named user may read, but the owning group may not.
            (&[(UserObj, 6), (User(7), 6), (GroupObj, 0), (Mask, 6), (Other, 0)][..], 0o660, 0o600),
            // The mask reduces the permissions of the owning group.
            (&[(UserObj, 6), (User(7), 6), (GroupObj, 6), (Mask, 4), (Other, 0)], 0o640, 0o640),
            // A named user has fewer permissions than others.
            (&[(UserObj, 6), (User(7), 0), (GroupObj, 4), (Mask, 4), (Other, 4)], 0o644, 0o600),
            (&[(UserObj, 6), (GroupObj, 4), (Group(7), 0), (Mask, 4), (Other, 4)], 0o644, 0o640),
            (&[(UserObj, 7), (User(7), 7), (GroupObj, 5), (Mask, 7), (Other, 5)], 0o4775, 0o4755),
            (&[(UserObj, 6), (GroupObj, 4), (Other, 4)], 0o644, 0o644),
        ] {
            assert_eq!(with_acl(entries).narrowed(mode), narrowed, "{entries:?} {mode:o}");
        }
        assert_eq!(ExtendedAttributes::default().narrowed(0o664), 0o664);
        let odd = ExtendedAttributes([(ACCESS_ACL.into(), "no ACL".into())].into());
        assert_eq!(odd.narrowed(0o4775), 0o4700);
    }

    #[test]
    fn the_mode_decides_about_the_mask() {
        let entries = [(UserObj, 7), (User(7), 6), (GroupObj, 5), (Mask, 7), (Other, 4)];
        let expected = acl(&[(UserObj, 6), (User(7), 6), (GroupObj, 5), (Mask, 4), (Other, 0)]);
        assert_eq!(with_mode(&acl(&entries), 0o640), expected);
        assert_eq!(
            with_mode(&acl(&[(UserObj, 7), (GroupObj, 5), (Other, 4)]), 0o640),
            acl(&[(UserObj, 6), (GroupObj, 4), (Other, 0)])
        );
        assert_eq!(with_mode(b"", 0o640), b"");
    }

    #[test]
    fn attributes_survive_a_record() {
        let attributes = ExtendedAttributes([("user.a".into(), "text".into()), ("user.b".into(), "\0".into())].into());
        let json = serde_json::to_string(&attributes).unwrap();
        assert_eq!(serde_json::from_str::<ExtendedAttributes>(&json).unwrap(), attributes, "{json}");
    }

    #[test]
    fn attributes_are_read_as_they_were_given() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::open(folder.path()).unwrap();
        let place = tree.place(Path::new("file"));
        let file = place.create().unwrap();
        assert!(ExtendedAttributes::of(&place).unwrap().is_empty());
        assert!(ExtendedAttributes::of(&tree.place(Path::new("missing"))).unwrap_err().is_missing());
        let value = "x".repeat(2 * USUAL_SIZE);
        if !set(&file, OsStr::new("user.holo"), value.as_bytes()).unwrap() {
            // The file system does not support attributes.
            return;
        }
        let attributes = ExtendedAttributes([("user.holo".into(), value.into())].into());
        assert_eq!(ExtendedAttributes::of(&place).unwrap(), attributes);
        assert_eq!(ExtendedAttributes::of_opened(&place).unwrap(), attributes);
        let copy = tree.place(Path::new("copy"));
        assert_eq!(attributes.give(copy.create().unwrap(), Path::new("copy"), 0o640, false).unwrap(), 0o640);
        assert_eq!(ExtendedAttributes::of(&copy).unwrap(), attributes);
        std::os::unix::fs::symlink("file", folder.path().join("link")).unwrap();
        assert!(ExtendedAttributes::of(&tree.place(Path::new("link"))).unwrap().is_empty());
        assert!(read(&File::open(folder.path()).unwrap()).unwrap().is_empty());
    }
}
