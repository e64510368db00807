//! The temporary root in which a plugin is tested.

use crate::error::FatalError;
use crate::host::cache::CacheDirectory;
use crate::plugin::Directories;
use bstr::{BStr, BString, ByteSlice};
use holo_testing::IoError;
use holo_testing::tree::{self, Section, Tree};
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The initial contents of a root.
pub(super) struct Contents {
    /// The tree that is copied to it.
    pub(super) root: Option<PathBuf>,
    /// The contents of the resource directory, if they do not come from the tree.
    pub(super) resources: Option<PathBuf>,
}

/// A temporary root in the run's cache directory.
pub(super) struct Scratch {
    directories: Directories,
    temporary: PathBuf,
    work: PathBuf,
    /// The path of the plugin's state, as named in a [`Snapshot`].
    state: BString,
    strays: HashSet<PathBuf>,
}

impl Scratch {
    pub(super) fn new(
        base: &CacheDirectory,
        name: &str,
        plugin_id: &str,
        contents: &Contents,
    ) -> Result<Scratch, FatalError> {
        let root = base.subdirectory(&format!("{name}/root"))?;
        if let Some(tree) = &contents.root {
            copy(tree, &root)?;
        }
        let state = format!("var/lib/holo/{plugin_id}");
        let directories = Directories {
            resources: root.join("usr/share/holo").join(plugin_id),
            own_resources: None,
            inputs: None,
            state: root.join(&state),
            cache: base.path().join(name).join("cache"),
            root,
        };
        if let Some(resources) = &contents.resources {
            remove(&directories.resources)?;
            make(&directories.resources)?;
            copy(resources, &directories.resources)?;
        }
        for path in [&directories.resources, &directories.state, &directories.root.join("run")] {
            make(path)?;
        }
        let (temporary, work) = (base.subdirectory("tmp")?, base.subdirectory("work")?);
        let scratch = Scratch { directories, temporary, work, state: state.into(), strays: HashSet::new() };
        scratch.begin_run()?;
        Ok(scratch)
    }

    /// Empties the cache directory, as at the beginning of each run.
    pub(super) fn begin_run(&self) -> Result<(), FatalError> {
        remove(&self.directories.cache)?;
        make(&self.directories.cache)
    }

    pub(super) fn directories(&self) -> &Directories {
        &self.directories
    }

    /// Returns the same directories relative to the working directory.
    pub(super) fn relative_directories(&self) -> Directories {
        let Directories { root, resources, state, cache, .. } = &self.directories;
        let relative = |path: &Path| {
            let below = self.work.parent().and_then(|base| path.strip_prefix(base).ok());
            below.map_or_else(|| path.to_owned(), |below| Path::new("..").join(below))
        };
        Directories {
            root: relative(root),
            resources: relative(resources),
            own_resources: None,
            inputs: None,
            state: relative(state),
            cache: relative(cache),
        }
    }

    /// Returns the directory for the plugin's temporary files.
    pub(super) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Returns the current state of the root.
    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot(Tree::read(&self.directories.root))
    }

    /// Creates an empty directory in the plugin's cache, which snapshots exclude.
    pub(super) fn fresh_directory(&self) -> Result<PathBuf, FatalError> {
        let directory = self.directories.cache.join("plugin-check-adopted");
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(FatalError::io("remove", &directory, error));
            }
            _ => {}
        }
        fs::create_dir_all(&directory).map_err(|error| FatalError::io("mkdir", &directory, error))?;
        Ok(directory)
    }

    /// Returns true if a path, as named in a [`Snapshot`], belongs to the plugin's state.
    pub(super) fn is_state(&self, path: &BStr) -> bool {
        path.strip_prefix(self.state.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    /// Returns the names that have appeared in the working directory since the last call.
    pub(super) fn strays(&mut self) -> Vec<OsString> {
        Self::appeared(&self.work, &mut self.strays)
    }

    /// Returns the names that have appeared among temporary files since the last call.
    pub(super) fn temporary_strays(&mut self) -> Vec<OsString> {
        Self::appeared(&self.temporary, &mut self.strays)
    }

    fn appeared(folder: &Path, known: &mut HashSet<PathBuf>) -> Vec<OsString> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter(|entry| known.insert(entry.path())).map(|entry| entry.file_name()).collect()
    }
}

/// A tree cannot be copied.
#[derive(Debug, thiserror::Error)]
#[error("cannot copy {}: {source}", path.display())]
struct CopyError {
    path: PathBuf,
    source: IoError,
}

fn copy(from: &Path, to: &Path) -> Result<(), FatalError> {
    let copied = Tree::read(from).and_then(|tree| tree::materialise(&tree, to));
    copied.map_err(|source| FatalError::could_not_run(CopyError { path: from.to_owned(), source }))
}

fn make(folder: &Path) -> Result<(), FatalError> {
    fs::create_dir_all(folder).map_err(|error| FatalError::io("mkdir", folder, error))
}

fn remove(folder: &Path) -> Result<(), FatalError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FatalError::io("remove", folder, error)),
        _ => Ok(()),
    }
}

/// The state of a root at some time, or the error of reading it.
pub(super) struct Snapshot(Result<Tree, IoError>);

impl Snapshot {
    /// Returns the paths that differ in a later snapshot, relative to the root.
    pub(super) fn changes(&self, later: &Snapshot) -> Vec<BString> {
        let (Ok(before), Ok(after)) = (&self.0, &later.0) else { return Vec::new() };
        let (before, after) = (by_path(before), by_path(after));
        let gone = before.keys().filter(|path| !after.contains_key(*path));
        let new = after.iter().filter(|(path, now)| before.get(*path) != Some(*now)).map(|(path, _)| path);
        let mut paths: Vec<BString> = gone.chain(new).map(|path| (*path).to_owned()).collect();
        // Omit a directory if a path below it is listed.
        let is_parent = |path: &BString, other: &BString| {
            other.strip_prefix(path.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
        };
        let all = paths.clone();
        paths.retain(|path| !all.iter().any(|other| is_parent(path, other)));
        paths.sort_unstable();
        paths
    }

    /// Returns the error of reading the root, if any.
    pub(super) fn problem(&self) -> Option<&IoError> {
        self.0.as_ref().err()
    }
}

fn by_path(tree: &Tree) -> BTreeMap<&BStr, &Section> {
    tree.sections().iter().map(|section| (section.path.as_bstr(), section)).collect()
}

/// A working directory, until drop.
///
/// Plugins inherit ours; in an empty one, every file that they leave there is noticed.
pub(super) struct WorkingDirectory(Option<PathBuf>);

impl WorkingDirectory {
    pub(super) fn enter(path: &Path) -> Result<WorkingDirectory, FatalError> {
        let before = env::current_dir().ok();
        env::set_current_dir(path).map_err(|error| FatalError::io("chdir", path, error))?;
        Ok(WorkingDirectory(before))
    }
}

impl Drop for WorkingDirectory {
    fn drop(&mut self) {
        // If it no longer exists, there is no directory to return to.
        let _ = self.0.as_ref().map(env::set_current_dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_covers_contents_modes_and_empty_directories() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let snapshot = || Snapshot(Tree::read(folder.path()));
        fs::create_dir(at("empty")).unwrap();
        fs::write(at("same"), "x").unwrap();
        fs::write(at("gone"), "x").unwrap();
        let before = snapshot();
        assert!(before.changes(&snapshot()).is_empty());
        fs::write(at("empty/new"), "x").unwrap();
        fs::write(at("same"), "y").unwrap();
        fs::remove_file(at("gone")).unwrap();
        assert_eq!(before.changes(&snapshot()), ["empty/new", "gone", "same"]);
    }
}
