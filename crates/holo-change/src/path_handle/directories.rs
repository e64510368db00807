//! Operations on directories, and less common operations on files: trees without symlinks, owners, writing in place.

use super::extended_attributes::ExtendedAttributes;
use super::{Durability, FileStat, Kind, PathHandle, Tree};
use crate::error::{PathError, Result, at};
use crate::resolution::Links;
use crate::shares::{self, SHARE};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, BufWriter, Write};
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

/// The suffix of a new file before it is renamed.
const SUFFIX: &str = ".new";
/// The buffer size for writing.
const BUFFER_SIZE: usize = 1 << 16;

/// The durability of a [replacement](PathHandle::replace): the state of the file after a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDisk {
    /// The old file, the new file or, on some file systems, an incomplete file. For data that can easily be recreated.
    Nothing,
    /// The old or the new file.
    Whole,
    /// The new file.
    New,
}

/// A function that writes the content of a file.
type Written<'a> = &'a dyn Fn(&mut dyn Write) -> Result<()>;

impl PathHandle {
    /// Atomically creates or replaces a file with this content and mode, and creates its directory if needed. If the
    /// process is killed, either the old or the new file exists.
    ///
    /// # Errors
    /// If the file cannot be written. The old file remains unchanged then, without a temporary file.
    pub fn replace(&self, content: &[u8], mode: u32, on_disk: OnDisk) -> Result<()> {
        let failed = |error| PathError::new("write", self.shown(), error);
        self.replace_by(&|file| file.write_all(content).map_err(failed), mode, on_disk)
    }

    /// Like [`replace`](PathHandle::replace), with a function that writes the content. It may be called again if
    /// another process removes the directory.
    ///
    /// # Errors
    /// Those of [`replace`](PathHandle::replace), and those of the function.
    pub fn replace_by(&self, write: Written<'_>, mode: u32, on_disk: OnDisk) -> Result<()> {
        let new = self.replacement();
        let written = new.in_folder(|| new.write_new(write, mode));
        let synced = written.and_then(|((), made)| match on_disk {
            OnDisk::Nothing => Ok(()),
            OnDisk::Whole | OnDisk::New => Durability::Each.sync([&new], &made),
        });
        let replaced = synced.and_then(|()| new.rename_to(self));
        if replaced.is_err() {
            // The original error is more useful than one from the cleanup.
            let _ = new.remove();
        }
        replaced?;
        match on_disk {
            OnDisk::New => Durability::Each.sync([], [self]),
            OnDisk::Nothing | OnDisk::Whole => Ok(()),
        }
    }

    /// Returns the path of the temporary file for [`replace`](PathHandle::replace). A killed process may leave it, and
    /// the next replacement overwrites it.
    #[must_use]
    pub fn replacement(&self) -> PathHandle {
        self.temporary(SUFFIX)
    }

    /// Removes the temporary files of killed processes in the directory, and the directory if it is empty then. No
    /// other process may use it.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn remove_replacements(&self) -> Result<()> {
        for name in self.siblings()? {
            if name.as_encoded_bytes().ends_with(SUFFIX.as_bytes()) {
                self.sibling(&name).remove()?;
            }
        }
        self.remove_empty_folders(Path::new(""));
        Ok(())
    }

    fn write_new(&self, write: Written<'_>, mode: u32) -> Result<()> {
        let mut file = BufWriter::with_capacity(BUFFER_SIZE, self.create()?);
        write(&mut file)?;
        let failed = |error| PathError::new("write", self.shown(), error);
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(|errno| failed(errno.into()))
    }
}

/// Removes files if they exist, with several threads if there are many, because freeing the blocks of a file may have
/// to wait for the device. Returns for each file whether it existed.
///
/// # Errors
/// If a file cannot be removed. Some of the others may remain then.
pub(crate) fn remove_all(places: &[PathHandle]) -> Result<Vec<bool>> {
    let mut were_there = vec![false; places.len()];
    let shares = places.chunks(SHARE).zip(were_there.chunks_mut(SHARE));
    let remove = |(): &(), (places, were_there): (&[PathHandle], &mut [bool])| {
        let mut both = places.iter().zip(were_there);
        both.try_for_each(|(place, was_there)| place.remove_if_there().map(|removed| *was_there = removed))
    };
    let removed =
        shares::work_on((places.len(), shares::threads_to_free(places.len())), shares, (&(), || Some(())), remove);
    removed.into_iter().collect::<Result<()>>()?;
    Ok(were_there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_handle::Tree;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::Path;

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

    #[test]
    fn a_file_is_replaced_with_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let place = Tree::open(folder.path()).unwrap().place(Path::new("a/b/file"));
        for (content, mode, on_disk) in
            [("one", 0o600, OnDisk::Nothing), ("two", 0o644, OnDisk::Whole), ("", 0o640, OnDisk::New)]
        {
            place.replace(content.as_bytes(), mode, on_disk).unwrap();
            let path = folder.path().join("a/b/file");
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
            assert_eq!(fs::read_dir(folder.path().join("a/b")).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_file_that_cannot_be_replaced_stays_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("in/the/way")).unwrap();
        let place = Tree::open(folder.path()).unwrap().place(Path::new("in/the"));
        assert!(place.replace(b"x", 0o600, OnDisk::New).is_err());
        assert!(folder.path().join("in/the/way").exists());
        assert_eq!(fs::read_dir(folder.path().join("in")).unwrap().count(), 1);
    }
}

#[cfg(test)]
mod removal_tests {
    use super::*;
    use crate::path_handle::Tree;
    use std::fs;
    use std::path::Path;

    #[test]
    fn many_files_are_removed_and_those_that_were_gone_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::open(folder.path()).unwrap();
        let places: Vec<PathHandle> = (0..1000).map(|number| tree.place(Path::new(&number.to_string()))).collect();
        for number in (0..1000).filter(|number| number % 3 != 0) {
            fs::write(folder.path().join(number.to_string()), "x").unwrap();
        }
        let expected: Vec<bool> = (0..1000).map(|number| number % 3 != 0).collect();
        assert_eq!(remove_all(&places).unwrap(), expected);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_removed_is_an_error_wherever_it_is() {
        for number in [0, 70, 299] {
            let folder = tempfile::tempdir().unwrap();
            let tree = Tree::open(folder.path()).unwrap();
            fs::create_dir(folder.path().join(number.to_string())).unwrap();
            let places: Vec<PathHandle> = (0..300).map(|number| tree.place(Path::new(&number.to_string()))).collect();
            let error = remove_all(&places).unwrap_err();
            assert!(error.to_string().contains(&format!("/{number}")), "{error}");
        }
    }

    #[test]
    fn whatever_is_renamed_over_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let tree = Tree::open(path).unwrap();
        fs::write(path.join("outside"), "outside").unwrap();
        let make: [fn(&Path); 4] = [
            |_| {},
            |to| fs::write(to, "old").unwrap(),
            |to| std::os::unix::fs::symlink("outside", to).unwrap(),
            |to| std::os::unix::net::UnixListener::bind(to).map(drop).unwrap(),
        ];
        for make in make {
            fs::write(path.join("from"), "new").unwrap();
            make(&path.join("to"));
            tree.place(Path::new("from")).rename_over(&tree.place(Path::new("to"))).unwrap();
            assert_eq!(fs::read_to_string(path.join("to")).unwrap(), "new");
            assert!(!path.join("from").exists());
            fs::remove_file(path.join("to")).unwrap();
        }
        assert_eq!(fs::read_to_string(path.join("outside")).unwrap(), "outside");
        fs::write(path.join("from"), "new").unwrap();
        fs::create_dir(path.join("to")).unwrap();
        assert!(tree.place(Path::new("from")).rename_over(&tree.place(Path::new("to"))).is_err());
        assert!(path.join("from").exists() && path.join("to").exists());
    }
}
