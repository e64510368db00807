//! Operations on directories, and less common operations on files: trees without symlinks, owners, writing in place.

use super::extended_attributes::ExtendedAttributes;
use super::{FileStat, Kind, PathHandle, Tree};
use crate::error::{PathError, Result, at};
use crate::resolution::Links;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

impl PathHandle {
    /// Returns the properties of the file, without following symlinks; `None` if it does not exist.
    ///
    /// # Errors
    /// If they cannot be determined.
    pub fn stat(&self) -> Result<Option<FileStat>> {
        Ok(self.raw_stat()?.map(FileStat::from))
    }

    /// Checks that a file can be created here: each parent is a directory, or does not exist.
    ///
    /// # Errors
    /// If a parent is not a directory.
    pub fn check_way(&self) -> Result<()> {
        for parent in self.path.ancestors().skip(1) {
            match self.tree.directory(parent) {
                Ok(_) => return Ok(()),
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(error) => return Err(PathError::new("make", self.shown(), error)),
            }
            let place = PathHandle { tree: Arc::clone(&self.tree), path: parent.to_owned() };
            let wrong = match place.stat()? {
                None => continue,
                // Another thread or process has created it in the meantime.
                Some(FileStat { kind: Kind::Directory, .. }) => return Ok(()),
                Some(FileStat { kind: Kind::Symlink, .. }) => "a symlink that leads to no directory",
                Some(_) => "not a directory",
            };
            let problem = format!("{} is {wrong}", place.shown().display());
            return Err(PathError::new("make", self.shown(), io::Error::other(problem)));
        }
        Ok(())
    }

    /// Returns the directory as a separate tree, in which no symlinks are followed. Paths in it stay inside, regardless
    /// of concurrent changes around it.
    ///
    /// # Errors
    /// If it is not a directory.
    pub fn as_tree(&self) -> Result<Arc<Tree>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = self.with("open", |directory, name| {
            // The root of a tree has an empty name.
            let name = if name.is_empty() { ".".as_ref() } else { name };
            rustix::fs::openat(directory, name, flags, Mode::empty())
        })?;
        Ok(Arc::new(Tree { root, shown: self.shown(), links: Links::None, last: Mutex::default() }))
    }

    /// Creates a directory. Returns false if it existed.
    ///
    /// # Errors
    /// If it cannot be created, or the path exists and is not a directory.
    pub fn create_directory(&self, mode: u32) -> Result<bool> {
        let made = self.with("mkdir", |directory, name| {
            match rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(mode)) {
                Ok(()) => Ok(true),
                Err(Errno::EXIST) => Ok(false),
                Err(errno) => Err(errno),
            }
        })?;
        if !made && self.stat()?.is_none_or(|stat| stat.kind != Kind::Directory) {
            return Err(PathError::new("mkdir", self.shown(), Errno::EXIST));
        }
        Ok(made)
    }

    /// Removes the directory if it is empty. Returns true if it does not exist any more.
    ///
    /// # Errors
    /// If it is empty and cannot be removed.
    pub fn remove_directory(&self) -> Result<bool> {
        self.tree.forget();
        match self.with("rmdir", |directory, name| rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)) {
            Ok(()) => Ok(true),
            Err(error) if error.is_missing() => Ok(true),
            // The directory is a mount point, or not empty.
            Err(error) => match Errno::from_io_error(&error.error) {
                Some(Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY) => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Removes the file or the directory with its contents, without following symlinks.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn remove_all(&self) -> Result<()> {
        match self.stat()? {
            None => Ok(()),
            Some(FileStat { kind: Kind::Directory, .. }) => {
                // Not recursive, because a tree may be deeper than the stack.
                let mut open = vec![self.clone()];
                while let Some(place) = open.last() {
                    let inside = PathHandle { tree: Arc::clone(&place.tree), path: place.path.join("x") };
                    let mut deeper = Vec::new();
                    for name in inside.siblings()? {
                        let child = inside.sibling(&name);
                        match child.stat()? {
                            Some(FileStat { kind: Kind::Directory, .. }) => deeper.push(child),
                            _ => child.remove()?,
                        }
                    }
                    if deeper.is_empty() {
                        if !place.remove_directory()? {
                            return Err(PathError::new("rmdir", place.shown(), Errno::NOTEMPTY));
                        }
                        open.pop();
                    } else {
                        open.append(&mut deeper);
                    }
                }
                Ok(())
            }
            Some(_) => self.remove(),
        }
    }

    /// Opens a regular file for reading and writing. Opening other types does not block.
    ///
    /// # Errors
    /// If the file does not exist, or cannot be written.
    pub fn open_to_write(&self) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        self.with("open", |directory, name| rustix::fs::openat(directory, name, flags, Mode::empty())).map(File::from)
    }

    /// Changes the owner of the file unless it is already correct, without following symlinks.
    ///
    /// # Errors
    /// If the file does not exist, or the change is not permitted.
    pub fn give_to(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let Some(stat) = self.stat()? else { return Err(PathError::missing("chown", self.shown())) };
        let uid = uid.filter(|uid| *uid != stat.uid).map(Uid::from_raw);
        let gid = gid.filter(|gid| *gid != stat.gid).map(Gid::from_raw);
        if uid.is_some() || gid.is_some() { self.change_owner(uid, gid) } else { Ok(()) }
    }

    /// Changes the mode of the file or directory. Symlinks have no mode, and are refused.
    ///
    /// # Errors
    /// If the file does not exist, or the change is not permitted.
    pub fn change_mode(&self, mode: u32) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = self.with("open", |directory, name| rustix::fs::openat(directory, name, flags, Mode::empty()))?;
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode)).map_err(at("chmod", &self.shown()))
    }

    /// Returns true for a mount point, including bind mounts of the same file system.
    ///
    /// # Errors
    /// If this cannot be determined.
    pub fn is_mount_point(&self) -> Result<bool> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let same_mount = ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
        self.with("open", |directory, name| {
            match rustix::fs::openat2(directory, name, flags, Mode::empty(), same_mount) {
                Ok(_) => Ok(false),
                Err(Errno::XDEV) => Ok(true),
                // An old kernel, or a sandbox that does not support the call. Mounts of the same file system are not
                // detected in this case.
                Err(Errno::NOSYS | Errno::PERM) => {
                    let here = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    Ok(rustix::fs::fstat(directory)?.st_dev != here.st_dev)
                }
                Err(errno) => Err(errno),
            }
        })
    }

    /// Returns true for an empty directory.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn is_empty_directory(&self) -> Result<bool> {
        if self.stat()?.is_none_or(|stat| stat.kind != Kind::Directory) {
            return Ok(false);
        }
        Ok(PathHandle { tree: Arc::clone(&self.tree), path: self.path.join("x") }.siblings()?.is_empty())
    }
}

/// Sets the owner, group and mode of an open file, in an order in which no bits are lost, and no others gain access in
/// between.
///
/// # Errors
/// If the change is not permitted.
pub fn set_ownership(file: &File, shown: &Path, uid: Option<u32>, gid: Option<u32>, mode: u32) -> Result<()> {
    give_owner(file, shown, uid, gid)?;
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode)).map_err(at("chmod", shown))
}

fn give_owner(file: &File, shown: &Path, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    let stat = FileStat::from(rustix::fs::fstat(file).map_err(at("stat", shown))?);
    let uid = uid.filter(|uid| *uid != stat.uid).map(Uid::from_raw);
    let gid = gid.filter(|gid| *gid != stat.gid).map(Gid::from_raw);
    if uid.is_some() || gid.is_some() {
        rustix::fs::fchown(file, uid, gid).map_err(at("chown", shown))?;
    }
    Ok(())
}

/// Sets the owner, group, extended attributes and mode of a new open file. Before that, only its owner can open it. Its
/// only ACL is that of the attributes, even if the directory has a default ACL. On a file system without ACLs, the mode
/// is [narrowed](ExtendedAttributes::narrowed).
///
/// # Errors
/// If the change is not permitted, or the disk is full.
pub fn set_ownership_of_new(
    file: &File,
    place: &PathHandle,
    uid: Option<u32>,
    gid: Option<u32>,
    mode: u32,
    attributes: &ExtendedAttributes,
) -> Result<()> {
    let shown = place.shown();
    give_owner(file, &shown, uid, gid)?;
    let mode = attributes.give(file, &shown, mode, place.inherits_acl())?;
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode)).map_err(at("chmod", &shown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    #[test]
    fn a_tree_of_its_own_follows_no_symlinks() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("in/real")).unwrap();
        fs::create_dir(folder.path().join("out")).unwrap();
        symlink("../out", folder.path().join("in/link")).unwrap();
        let whole = Tree::open(folder.path()).unwrap();
        let tree = whole.place(Path::new("in")).as_tree().unwrap();
        assert!(tree.place(Path::new("real/x")).create().is_ok());
        assert!(tree.place(Path::new("link/x")).create().is_err());
        assert!(whole.place(Path::new("in/link/x")).create().is_ok());
        assert!(whole.place(Path::new("in/link")).as_tree().is_err());
        let strict = whole.place(Path::new("/")).as_tree().unwrap();
        assert!(strict.place(Path::new("in/link/x")).exists().is_ok_and(|exists| !exists));
        // The tree refers to the opened directory, even if it is renamed.
        fs::rename(folder.path().join("in"), folder.path().join("moved")).unwrap();
        assert!(tree.place(Path::new("y")).create().is_ok());
        assert!(folder.path().join("moved/y").exists());
    }

    #[test]
    fn everything_below_goes_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir_all(path.join("gone/a/b/c")).unwrap();
        fs::create_dir(path.join("kept")).unwrap();
        fs::write(path.join("kept/file"), "").unwrap();
        symlink("../kept", path.join("gone/link")).unwrap();
        fs::write(path.join("gone/a/file"), "").unwrap();
        let tree = Tree::open(path).unwrap();
        tree.place(Path::new("gone")).remove_all().unwrap();
        tree.place(Path::new("gone")).remove_all().unwrap();
        assert!(!path.join("gone").exists() && path.join("kept/file").exists());
        assert!(!tree.place(Path::new("kept")).remove_directory().unwrap());
        assert!(tree.place(Path::new("missing/x")).remove_directory().unwrap());
    }

    #[test]
    fn directories_are_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::open(folder.path()).unwrap();
        let place = tree.place(Path::new("d"));
        assert!(place.create_directory(0o700).unwrap());
        assert!(!place.create_directory(0o700).unwrap());
        place.change_mode(0o751).unwrap();
        assert_eq!(fs::metadata(folder.path().join("d")).unwrap().permissions().mode() & 0o7777, 0o751);
        assert!(place.is_empty_directory().unwrap());
        symlink("d", folder.path().join("link")).unwrap();
        assert!(tree.place(Path::new("link")).create_directory(0o700).is_err());
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        place.give_to(Some(uid), Some(gid)).unwrap();
        let file = tree.place(Path::new("f")).create().unwrap();
        set_ownership(&file, Path::new("f"), Some(uid), None, 0o640).unwrap();
        assert_eq!(fs::metadata(folder.path().join("f")).unwrap().mode() & 0o7777, 0o640);
    }
}
