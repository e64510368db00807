//! The directories of a plugin's resource files, and the precedence of files with the same path.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, FileType};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The directories of a plugin's resource files.
///
/// If several directories contain a file with the same relative path, the one in the directory with the highest
/// precedence is used. An empty file, or a link to `/dev/null`, masks the others. Subdirectories are united.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceDirs {
    /// In order of precedence, highest first.
    stronger: Vec<PathBuf>,
    weakest: PathBuf,
}

/// A file or folder in a directory of resource files.
#[derive(Clone, Debug)]
pub struct ResourceFile {
    /// Its path relative to the directory.
    pub below: PathBuf,
    /// Its path.
    pub path: PathBuf,
    /// Its type; symlinks are not followed.
    pub file_type: FileType,
    /// The index of the directory with the highest precedence that contains it.
    pub directory: usize,
    /// For a folder, the indexes of the other directories that contain it.
    united: Vec<usize>,
}

/// A directory of resource files cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct ListError {
    /// The directory.
    pub path: PathBuf,
    /// The reason.
    pub error: io::Error,
}

/// The resource file is masked by a directory of higher precedence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is masked by {}", .0.display())]
pub struct MaskedError(pub PathBuf);

impl From<PathBuf> for ResourceDirs {
    fn from(only: PathBuf) -> ResourceDirs {
        ResourceDirs { stronger: Vec::new(), weakest: only }
    }
}

impl ResourceDirs {
    /// Returns the directories, given in order of precedence, highest first; `None` if the list is empty.
    #[must_use]
    pub fn new(mut directories: Vec<PathBuf>) -> Option<ResourceDirs> {
        let weakest = directories.pop()?;
        Some(ResourceDirs { stronger: directories, weakest })
    }

    /// Returns the directories in order of precedence, highest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Path> {
        self.stronger.iter().chain([&self.weakest]).map(PathBuf::as_path)
    }

    /// Returns a directory by its index.
    #[must_use]
    pub fn directory(&self, index: usize) -> &Path {
        self.stronger.get(index).unwrap_or(&self.weakest)
    }

    /// Returns the directory that contains the resource files of packages.
    #[must_use]
    pub fn weakest(&self) -> &Path {
        &self.weakest
    }

    /// Lists a folder of all directories: in any order if there is only one directory, otherwise by name.
    ///
    /// # Errors
    /// If the folder does not exist, or cannot be read in one of the directories.
    pub fn list(&self, below: &Path) -> Result<Vec<ResourceFile>, ListError> {
        let all: Vec<usize> = (0..=self.stronger.len()).collect();
        self.list_in(&all, below)
    }

    /// Lists all files in all directories, without following symlinks and without the folders themselves.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn walk(&self) -> Result<Vec<ResourceFile>, ListError> {
        self.walk_where(|_| true)
    }

    /// Like [`walk`](Self::walk), but skips paths and folders for which `counts` is false.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn walk_where(&self, counts: impl Fn(&Path) -> bool) -> Result<Vec<ResourceFile>, ListError> {
        let mut files = Vec::new();
        let mut open = vec![self.list(Path::new(""))?];
        while let Some(listed) = open.pop() {
            for file in listed.into_iter().filter(|file| counts(&file.below)) {
                if file.file_type.is_dir() {
                    let united: Vec<usize> = [file.directory].into_iter().chain(file.united).collect();
                    open.push(self.list_in(&united, &file.below)?);
                } else {
                    files.push(file);
                }
            }
        }
        Ok(files)
    }

    /// Returns the directory whose file at this path is used; the one with the lowest precedence if none has it.
    ///
    /// # Errors
    /// If the file is masked.
    pub fn directory_of(&self, below: &Path) -> Result<&Path, MaskedError> {
        self.index_of(below).map(|index| self.directory(index))
    }

    /// Returns the index of the directory whose file at this path is used; that of the lowest precedence if none has
    /// it.
    ///
    /// # Errors
    /// If the file is masked.
    pub fn index_of(&self, below: &Path) -> Result<usize, MaskedError> {
        for (index, directory) in self.stronger.iter().enumerate() {
            let path = directory.join(below);
            match fs::symlink_metadata(&path) {
                Ok(metadata) => {
                    let mut weaker = self.iter().skip(index + 1);
                    let mut hides = || weaker.any(|weaker| weaker.join(below).symlink_metadata().is_ok());
                    let masks =
                        is_null(&path, metadata.file_type()) || (metadata.is_file() && metadata.len() == 0 && hides());
                    return if masks { Err(MaskedError(path)) } else { Ok(index) };
                }
                // A file can mask a whole folder.
                Err(error) if error.kind() == ErrorKind::NotADirectory => {
                    let file = path.ancestors().find(|path| path.symlink_metadata().is_ok());
                    return Err(MaskedError(file.unwrap_or(directory).to_owned()));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(_) => return Ok(index),
            }
        }
        Ok(self.stronger.len())
    }

    /// Returns a path for messages: that of the file in use, or of the file that masks it, or that which the file would
    /// have among those of packages.
    #[must_use]
    pub fn shown(&self, below: &Path) -> PathBuf {
        self.directory_of(below).map_or_else(|MaskedError(mask)| mask, |directory| directory.join(below))
    }

    fn list_in(&self, indexes: &[usize], below: &Path) -> Result<Vec<ResourceFile>, ListError> {
        let mut unreadable = None;
        let mut lists = Vec::new();
        for &index in indexes {
            let folder = if below.as_os_str().is_empty() {
                self.directory(index).to_owned()
            } else {
                self.directory(index).join(below)
            };
            match entries(&folder) {
                Ok(entries) => lists.push((index, folder, entries)),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    unreadable = Some(ListError { path: folder, error });
                }
                Err(error) => return Err(ListError { path: folder, error }),
            }
        }
        let file = |index: usize, folder: &Path, (name, file_type): (OsString, FileType)| ResourceFile {
            below: below.join(&name),
            path: folder.join(name),
            file_type,
            directory: index,
            united: Vec::new(),
        };
        match (lists.len(), unreadable) {
            (0, Some(error)) => return Err(error),
            (1, _) if self.stronger.is_empty() => {
                let only = lists.into_iter().flat_map(|(index, folder, entries)| {
                    entries.into_iter().map(move |entry| file(index, &folder, entry))
                });
                return Ok(only.collect());
            }
            _ => {}
        }
        let mut united: BTreeMap<OsString, (ResourceFile, bool)> = BTreeMap::new();
        for (index, folder, entries) in lists {
            for entry in entries {
                match united.get_mut(&entry.0) {
                    Some((stronger, _)) if stronger.file_type.is_dir() && entry.1.is_dir() => {
                        stronger.united.push(index);
                    }
                    Some((_, hides)) => *hides = true,
                    None => {
                        united.insert(entry.0.clone(), (file(index, &folder, entry), false));
                    }
                }
            }
        }
        let counts = |(file, hides): &(ResourceFile, bool)| {
            let is_stronger = file.directory < self.stronger.len();
            let is_empty = || fs::metadata(&file.path).is_ok_and(|metadata| metadata.len() == 0);
            let is_null = is_stronger && is_null(&file.path, file.file_type);
            let masks = *hides && file.file_type.is_file() && is_empty();
            !masks && !is_null
        };
        Ok(united.into_values().filter(counts).map(|(file, _)| file).collect())
    }
}

fn entries(folder: &Path) -> io::Result<Vec<(OsString, FileType)>> {
    fs::read_dir(folder)?.map(|entry| entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?)))).collect()
}

/// Returns true if the path is a link to `/dev/null`.
fn is_null(path: &Path, file_type: FileType) -> bool {
    file_type.is_symlink() && fs::read_link(path).is_ok_and(|target| target == Path::new("/dev/null"))
}

#[cfg(test)]
mod tests;
