//! Files that are replaced as a whole, such as the records of a plugin.

use super::Place;
use crate::Durability;
use crate::error::{PathError, Result};
use rustix::fs::Mode;
use std::io::Write;

/// What a new file is called until it takes its place.
const SUFFIX: &str = ".new";

/// What is on disk when a file has been [replaced](Place::replace), and would be there after a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDisk {
    /// It can be the old file, the new one or, on some file systems, half of one: for what is easily found out again.
    Nothing,
    /// It is the old file or the new one.
    Whole,
    /// It is the new file.
    New,
}

impl Place {
    /// Makes a file with this content and mode here, in one step, and the folder if there is none: whoever is killed meanwhile leaves the
    /// old file, or the new one.
    ///
    /// # Errors
    /// If it cannot be written. Then the old file is still there, and nothing beside it.
    pub fn replace(&self, content: &[u8], mode: u32, on_disk: OnDisk) -> Result<()> {
        let made = self.create_folder()?;
        let new = self.replacement();
        let replaced = new.write_new(content, mode).and_then(|()| {
            if on_disk != OnDisk::Nothing {
                Durability::Each.sync([&new], &made)?;
            }
            new.rename_to(self)
        });
        if replaced.is_err() {
            // Why it could not be written is more interesting than why it cannot be removed.
            let _ = new.remove();
        }
        replaced?;
        if on_disk == OnDisk::New { Durability::Each.sync([], [self]) } else { Ok(()) }
    }

    /// Where a file is before it [replaces](Place::replace) another: whoever is killed then leaves it there, and the next who replaces the
    /// file overwrites it.
    #[must_use]
    pub fn replacement(&self) -> Place {
        self.temporary(SUFFIX)
    }

    fn write_new(&self, content: &[u8], mode: u32) -> Result<()> {
        let mut file = self.create()?;
        let chmod = |file| rustix::fs::fchmod(file, Mode::from_raw_mode(mode)).map_err(std::io::Error::from);
        file.write_all(content)
            .and_then(|()| chmod(&file))
            .map_err(|error| PathError::new("write", self.shown(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;
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
    fn what_cannot_be_replaced_stays_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("in/the/way")).unwrap();
        let place = Tree::open(folder.path()).unwrap().place(Path::new("in/the"));
        assert!(place.replace(b"x", 0o600, OnDisk::New).is_err());
        assert!(folder.path().join("in/the/way").exists());
        assert_eq!(fs::read_dir(folder.path().join("in")).unwrap().count(), 1);
    }
}
