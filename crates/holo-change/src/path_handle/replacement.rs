//! Replacing and removing complete files, such as the records of a plugin.

use super::{Durability, PathHandle};
use crate::error::{PathError, Result};
use crate::shares::{self, SHARE};
use rustix::fs::Mode;
use std::io::{BufWriter, Write};
use std::path::Path;

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
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

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
