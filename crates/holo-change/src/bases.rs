//! Bases that are complete files, by path: copies of the original files.
//!
//! Each path has one base, regardless of the entities that change it. Callers must record that a base is going to be
//! saved before they save it, so that a killed run leaves no unreferenced ones.

use crate::error::{PathError, Result};
use crate::image::{Image, Unmanageable};
use crate::path_handle::{Durability, PathHandle, TEMPORARY, Tree};
use crate::paths::{hex, path_bytes};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;

/// The directory of the bases in a state directory.
const FOLDER: &str = "kept";
/// The length of the name of a base: the first digits of the SHA-256 of its path.
const NAME_SIZE: usize = 32;

/// The bases in a state directory.
#[derive(Clone, Debug)]
pub struct Bases {
    state: Arc<Tree>,
}

impl Bases {
    /// Returns the bases in a state directory.
    #[must_use]
    pub fn new(state: &Arc<Tree>) -> Bases {
        Bases { state: Arc::clone(state) }
    }

    /// Returns the location of the base of a canonical path.
    #[must_use]
    pub fn location(&self, path: &Path) -> PathHandle {
        let name: String = hex(&Sha256::digest(path_bytes(path))).chars().take(NAME_SIZE).collect();
        self.state.place(&Path::new(FOLDER).join(name))
    }

    /// Returns true if a path has a base.
    ///
    /// # Errors
    /// If this cannot be determined.
    pub fn has(&self, path: &Path) -> Result<bool> {
        self.location(path).exists()
    }

    /// Returns true if any path has a base.
    ///
    /// # Errors
    /// If this cannot be determined.
    pub fn are_any(&self) -> Result<bool> {
        self.state.place(Path::new(FOLDER)).exists()
    }

    /// Returns true if a file is equal to the base of a path.
    ///
    /// # Errors
    /// If either cannot be read.
    pub fn is_base(&self, path: &Path, file: &PathHandle) -> Result<bool> {
        let image = |file: &PathHandle| match Image::load(file) {
            Ok(image) => Ok(image),
            Err(Unmanageable::WrongType) => Ok(None),
            Err(Unmanageable::Path(error)) => Err(error),
        };
        let Some(base) = image(&self.location(path))? else { return Ok(false) };
        image(file)?.map_or(Ok(false), |current| current.equals(&base))
    }

    /// Saves copies of files as the bases of paths. When this returns, they are on disk.
    ///
    /// # Errors
    /// If a file cannot be copied.
    pub fn save<'a>(
        &self,
        files: impl IntoIterator<Item = (&'a Path, PathHandle)>,
    ) -> std::result::Result<(), Unmanageable> {
        let (mut bases, mut folders, mut incomplete) = (Vec::new(), Vec::new(), Vec::new());
        for (path, file) in files {
            let Some(image) = Image::load(&file)? else { continue };
            let base = self.location(path);
            let new = base.replacement();
            let ((), made) = new.in_folder(|| image.write_to(&new))?;
            folders.extend(made);
            incomplete.push(new);
            bases.push(base);
        }
        let durability = Durability::of(bases.len());
        durability.sync(&incomplete, &folders)?;
        incomplete.iter().zip(&bases).try_for_each(|(new, base)| new.rename_to(base))?;
        Ok(durability.sync([], &bases)?)
    }

    /// Saves the base of a path with the function `write`. When this returns, the base is on disk.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save_written(&self, path: &Path, write: impl Fn(&PathHandle) -> Result<()>) -> Result<()> {
        let base = self.location(path);
        let new = base.replacement();
        let ((), folders) = new.in_folder(|| write(&new))?;
        Durability::Each.sync([&new], &folders)?;
        new.rename_to(&base)?;
        Durability::Each.sync([], [&base])
    }

    /// Atomically replaces a file with the base of a path. The file is not synced.
    ///
    /// # Errors
    /// If the base cannot be copied.
    pub fn restore(&self, path: &Path, file: &PathHandle) -> std::result::Result<(), Unmanageable> {
        replace_by_copy(&self.location(path), &file.temporary(TEMPORARY), file)
    }

    /// Removes the temporary file that a killed process may have left next to a file while restoring it.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn tidy_beside(&self, file: &PathHandle) -> Result<()> {
        file.temporary(TEMPORARY).remove()
    }

    /// Removes the base of a path, and the directory if it is empty then. When this returns, the removal is on disk.
    ///
    /// # Errors
    /// If the base cannot be removed.
    pub fn remove(&self, path: &Path) -> Result<()> {
        let base = self.location(path);
        if base.exists()? {
            base.remove()?;
            Durability::Each.sync([], [&base])?;
            base.remove_empty_folders(Path::new(""));
        }
        Ok(())
    }

    /// Removes incomplete copies of a killed process. No other process may use the store.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn tidy(&self) -> Result<()> {
        self.state.place(&Path::new(FOLDER).join("x")).remove_replacements()
    }
}

/// Atomically replaces a file with a copy of another one. The temporary path must be on the file system of the target.
/// The result is not synced.
///
/// # Errors
/// If the file cannot be copied.
pub fn replace_by_copy(
    from: &PathHandle,
    temporary: &PathHandle,
    to: &PathHandle,
) -> std::result::Result<(), Unmanageable> {
    let Some(image) = Image::load(from)? else {
        return Err(PathError::missing("open", from.shown()).into());
    };
    to.create_folder()?;
    temporary.in_folder(|| image.write_to(temporary))?;
    Durability::Each.sync([temporary], [])?;
    Ok(temporary.rename_to(to)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_base_is_saved_restored_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "a person's\n").unwrap();
        let tree = Tree::open(folder.path()).unwrap();
        let (bases, path) = (Bases::new(&tree), Path::new("/file"));
        let file = tree.place(path);
        assert!(!bases.are_any().unwrap() && !bases.is_base(path, &file).unwrap());
        bases.save([(path, file.clone())]).unwrap();
        assert!(bases.has(path).unwrap() && bases.is_base(path, &file).unwrap());
        fs::write(folder.path().join("file"), "ours\n").unwrap();
        assert!(!bases.is_base(path, &file).unwrap());
        bases.restore(path, &file).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("file")).unwrap(), "a person's\n");
        // A killed run may have left an incomplete base.
        fs::write(bases.location(path).replacement().shown(), "a per").unwrap();
        bases.remove(path).unwrap();
        bases.tidy().unwrap();
        assert!(!folder.path().join("kept").exists());
        assert!(bases.restore(path, &file).is_err());
        fs::write(folder.path().join("file.holonew"), "a per").unwrap();
        bases.tidy_beside(&file).unwrap();
        assert!(!folder.path().join("file.holonew").exists());
    }

    #[test]
    fn bases_come_and_go_side_by_side() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for number in 0..4 {
                let folder = folder.path();
                scope.spawn(move || {
                    let name = format!("file{number}");
                    fs::write(folder.join(&name), &name).unwrap();
                    let tree = Tree::open(folder).unwrap();
                    let (bases, path) = (Bases::new(&tree), Path::new("/").join(&name));
                    for _ in 0..200 {
                        bases.save([(&*path, tree.place(&path))]).unwrap();
                        assert!(bases.is_base(&path, &tree.place(&path)).unwrap());
                        bases.remove(&path).unwrap();
                        assert!(!bases.has(&path).unwrap());
                    }
                });
            }
        });
        assert!(!folder.path().join("kept").exists());
    }
}
