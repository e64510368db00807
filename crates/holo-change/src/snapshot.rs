//! Reading files in directories whose owners may replace any file at any time, and replacing the files only if they are
//! unchanged.
//!
//! Symlinks are not followed, files of other users are not read, and existing files are not written to. If this is done
//! as the owner of the directory, the owner cannot cause anything that the owner could not do directly.

use crate::error::{PathError, Result, at};
use crate::image::Stamp;
use crate::overwriting::{check_in_place, with_hint};
use crate::path_handle::{Durability, ExtendedAttributes, Kind, PathHandle, set_ownership_of_new};
use rustix::io::Errno;
use std::io::{self, Read, Write};

/// The content of a file when it was read. Without a stamp, the file did not exist.
#[derive(Debug)]
pub struct Snapshot {
    /// The content.
    pub content: Vec<u8>,
    /// The stamp.
    pub stamp: Option<Stamp>,
    /// The required owner.
    owner: u32,
    /// The owner and group of a new file, where they are not those of the process.
    owners: (Option<u32>, Option<u32>),
    /// The ACL and other attributes.
    attributes: ExtendedAttributes,
}

impl Snapshot {
    /// Returns the snapshot of a file that does not exist.
    #[must_use]
    pub fn absent(owner: u32) -> Snapshot {
        Snapshot {
            content: Vec::new(),
            stamp: None,
            owner,
            owners: (None, None),
            attributes: ExtendedAttributes::default(),
        }
    }

    /// Sets the owner and group of a new file, where they are not those of the process.
    #[must_use]
    pub fn with_owners(self, uid: Option<u32>, gid: Option<u32>) -> Snapshot {
        Snapshot { owners: (uid, gid), ..self }
    }

    /// Reads a regular file of any owner; a replacement gets the same owner and group. `None` if the file does not
    /// exist.
    ///
    /// # Errors
    /// If it is not a regular file, or cannot be read.
    pub fn of_any_owner(place: &PathHandle, max_size: u64) -> Result<Option<Snapshot>> {
        let Some(stat) = place.stat()? else { return Ok(None) };
        let snapshot = Snapshot::read(place, stat.uid, max_size)?;
        let owners = snapshot.stamp.as_ref().map(|stamp| (Some(stamp.stat().uid), Some(stamp.stat().gid)));
        Ok(owners.map(|owners| Snapshot { owners, ..snapshot }))
    }

    /// Overwrites the file in place, if it is unchanged; returns whether it was. This is not atomic: the caller must
    /// keep both contents to recognize the [state after a kill](crate::is_between).
    ///
    /// # Errors
    /// If the file cannot be written, or has another hard link, through which it could have been placed here.
    pub fn overwrite(&self, place: &PathHandle, content: &[u8]) -> Result<bool> {
        let mut file = place.open_to_write()?;
        let shown = place.shown();
        check_in_place(&rustix::fs::fstat(&file).map_err(at("stat", &shown))?, place)?;
        if !self.is_current(place) {
            return Ok(false);
        }
        file.write_all(content).and_then(|()| file.set_len(content.len() as u64)).map_err(at("write", &shown))?;
        file.sync_all().map_err(at("sync", &shown))?;
        Ok(true)
    }

    /// Removes the file, if it is unchanged; returns whether it was.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self, place: &PathHandle) -> Result<bool> {
        let is_current = self.is_current(place);
        if is_current {
            place.remove()?;
            Durability::Each.sync([], [place])?;
        }
        Ok(is_current)
    }

    /// Reads a regular file that belongs to `owner` and has at most `max_size` bytes.
    ///
    /// # Errors
    /// If it is not such a file, or cannot be read.
    pub fn read(place: &PathHandle, owner: u32, max_size: u64) -> Result<Snapshot> {
        let failed = |operation| move |error: io::Error| PathError::new(operation, place.shown(), error);
        let file = match place.open() {
            Ok(file) => file,
            Err(error) if error.error.kind() == io::ErrorKind::NotFound => return Ok(Snapshot::absent(owner)),
            Err(error) => return Err(explain_unopened(place, error, "a regular file")),
        };
        let stamp = Stamp::of_open(&file, &place.shown())?;
        let stat = stamp.stat();
        if stat.kind != Kind::File {
            return Err(failed("open")(io::Error::other("it is not a regular file")));
        }
        demand_owner(stat.uid, owner, place)?;
        let attributes = ExtendedAttributes::of_open(&file, &place.shown())?.without_those_of_content();
        // With enough capacity, a file takes two reads. Otherwise they start with 32 bytes.
        let room = usize::try_from(stat.size.min(max_size) + 1).unwrap_or_default();
        let mut content = Vec::with_capacity(room);
        file.take(max_size + 1).read_to_end(&mut content).map_err(failed("read"))?;
        if content.len() as u64 > max_size {
            let text = format!("it is larger than {} MiB", max_size >> 20);
            return Err(failed("read")(io::Error::other(text)));
        }
        Ok(Snapshot { content, stamp: Some(stamp), owner, owners: (None, None), attributes })
    }

    /// Reads the current file if it has the same content.
    fn again(&self, place: &PathHandle) -> Option<Snapshot> {
        // The caller tries again, and reports a file that cannot be read.
        let now = Snapshot::read(place, self.owner, self.content.len() as u64).ok()?;
        (now.content == self.content).then_some(now)
    }

    /// Returns true if the file is unchanged. The content is compared too, because two changes within a tick have the
    /// same stamp.
    fn is_current(&self, place: &PathHandle) -> bool {
        let version = |snapshot: &Snapshot| snapshot.stamp.as_ref().map(Stamp::to_bytes);
        self.again(place).is_some_and(|now| version(&now) == version(self))
    }

    /// Replaces the file with a new one of this content and mode, if it is unchanged. Returns the stamp of the new
    /// file, or `None` if the file was changed. The new file gets the attributes of the original one.
    ///
    /// # Errors
    /// If it cannot be written or renamed.
    pub fn replace(
        &self,
        place: &PathHandle,
        temporary: &PathHandle,
        content: &[u8],
        mode: u32,
    ) -> Result<Option<Stamp>> {
        // A killed process may have left one.
        temporary.remove()?;
        let replaced = self.write(temporary, content, mode).and_then(|new| {
            let is_in_place = self.is_current(place) && self.move_into_place(place, temporary)?;
            Ok(is_in_place.then_some(new))
        });
        if !matches!(replaced, Ok(Some(_))) {
            // The first error is reported.
            let removed = temporary.remove();
            return replaced.and_then(|none| removed.map(|()| none));
        }
        Durability::Each.sync([], [place])?;
        replaced
    }

    /// Writes the new file, and syncs it.
    fn write(&self, temporary: &PathHandle, content: &[u8], mode: u32) -> Result<Stamp> {
        let shown = temporary.shown();
        let mut file = temporary.create()?;
        file.write_all(content).map_err(at("write", &shown))?;
        // The mode must not depend on the umask.
        let (uid, gid) = self.owners;
        set_ownership_of_new(&file, temporary, uid, gid, mode, &self.attributes)?;
        file.sync_all().map_err(at("sync", &shown))?;
        Stamp::of_open(&file, &shown)
    }

    /// Moves the new file into place, unless the file was changed; returns whether it was moved. The old file is
    /// examined once more after it has been moved away, so that changes in between are not lost.
    fn move_into_place(&self, place: &PathHandle, temporary: &PathHandle) -> Result<bool> {
        let Some(stamp) = &self.stamp else { return temporary.rename_to_free(place) };
        if let Err(error) = temporary.exchange_with(place) {
            return match Errno::from_io_error(&error.error) {
                Some(Errno::NOENT) => Ok(false),
                // Some network file systems do not support this.
                Some(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => temporary.rename_to(place).map(|()| true),
                _ => Err(with_hint(error)),
            };
        }
        let replaced = self.again(temporary).and_then(|now| now.stamp);
        let is_same = replaced.is_some_and(|replaced| replaced.is_same_file(stamp));
        if is_same {
            temporary.remove()?;
        } else {
            temporary.exchange_with(place)?;
        }
        Ok(is_same)
    }
}

/// Fails if a file or directory belongs to another user, because it may be a hard link.
///
/// # Errors
/// The error names both owners.
pub fn demand_owner(uid: u32, owner: u32, place: &PathHandle) -> Result<()> {
    if uid == owner {
        return Ok(());
    }
    let text = format!("it belongs to another user (UID {uid} instead of {owner})");
    Err(PathError::new("open", place.shown(), io::Error::new(io::ErrorKind::PermissionDenied, text)))
}

/// Returns a more specific error for a file that could not be opened.
#[must_use]
pub fn explain_unopened(place: &PathHandle, error: PathError, wanted: &str) -> PathError {
    let is_symlink = place.stat().is_ok_and(|stat| stat.is_some_and(|stat| stat.kind == Kind::Symlink));
    let reason = match Errno::from_io_error(&error.error) {
        _ if is_symlink => io::Error::other("it is a symlink, which is not followed"),
        Some(Errno::LOOP | Errno::NOTDIR | Errno::NXIO | Errno::NODEV) => {
            io::Error::other(format!("it is not {wanted}"))
        }
        _ => error.error,
    };
    PathError::new("open", place.shown(), reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_handle::Tree;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::Path;

    struct Scene {
        folder: tempfile::TempDir,
        place: PathHandle,
        temporary: PathHandle,
        uid: u32,
    }

    impl Scene {
        fn new() -> Scene {
            let folder = tempfile::tempdir().unwrap();
            let tree = Tree::open(folder.path()).unwrap();
            let uid = fs::metadata(folder.path()).unwrap().uid();
            Scene { place: tree.place(Path::new("file")), temporary: tree.place(Path::new(".new")), folder, uid }
        }

        fn write(&self, text: &str) {
            fs::write(self.folder.path().join("file"), text).unwrap();
        }

        fn read(&self) -> Snapshot {
            Snapshot::read(&self.place, self.uid, 100).unwrap()
        }

        /// Replaces the file with "ours". Returns whether it was replaced, and the resulting content.
        fn replace(&self, found: &Snapshot) -> (bool, String) {
            let replaced = found.replace(&self.place, &self.temporary, b"ours", 0o600).unwrap();
            assert_eq!(fs::read_dir(self.folder.path()).unwrap().count(), 1, "nothing is left beside it");
            let path = self.folder.path().join("file");
            if replaced.is_some() {
                assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
            }
            (replaced.is_some(), fs::read_to_string(path).unwrap())
        }
    }

    #[test]
    fn a_file_that_is_as_it_was_read_is_replaced() {
        let scene = Scene::new();
        assert_eq!(scene.replace(&scene.read()), (true, "ours".to_owned()));
        scene.write("theirs");
        fs::write(scene.folder.path().join(".new"), "of a killed process").unwrap();
        let found = scene.read();
        assert_eq!(found.content, b"theirs");
        assert_eq!(scene.replace(&found), (true, "ours".to_owned()));
    }

    #[test]
    fn a_file_that_was_changed_since_stays() {
        let scene = Scene::new();
        let nothing = scene.read();
        scene.write("made");
        assert_eq!(scene.replace(&nothing), (false, "made".to_owned()));
        let found = scene.read();
        scene.write("made, and longer");
        assert_eq!(scene.replace(&found), (false, "made, and longer".to_owned()));
        let found = scene.read();
        fs::remove_file(scene.folder.path().join("file")).unwrap();
        scene.write("made, and longer");
        assert_eq!(scene.replace(&found), (false, "made, and longer".to_owned()), "it is another one");
    }

    #[test]
    fn only_the_owners_regular_files_are_read() {
        let scene = Scene::new();
        let path = scene.folder.path().join("file");
        let error = |owner: u32, max_size: u64| Snapshot::read(&scene.place, owner, max_size).unwrap_err().to_string();
        scene.write("text");
        assert!(error(scene.uid + 1, 100).contains("it belongs to another user"));
        assert!(error(scene.uid, 3).contains("it is larger than"));
        fs::remove_file(&path).unwrap();
        symlink("elsewhere", &path).unwrap();
        assert!(error(scene.uid, 100).ends_with("it is a symlink, which is not followed"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(error(scene.uid, 100).ends_with("it is not a regular file"));
    }
}
