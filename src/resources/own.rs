//! The administrator's own resource files, which count instead of others at the same path.

use super::copy;
use crate::error::FatalError;
use holo_protocol::API_VERSION_4;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use walkdir::{DirEntry, WalkDir};

/// The administrator's own resource directories.
#[derive(Debug, Default)]
pub(super) struct OwnResources {
    root: PathBuf,
    /// The plugins that are given theirs.
    given: BTreeSet<String>,
    /// The plugins that know of one directory only, so that theirs is laid over that.
    laid: BTreeSet<String>,
    /// The files that have been laid over others, by their paths below the root.
    files: BTreeSet<PathBuf>,
}

impl OwnResources {
    /// Finds the directories of these plugins, each with the version that it speaks.
    pub(super) fn find<'a>(
        root: PathBuf,
        plugins: impl Iterator<Item = (&'a str, u32)>,
    ) -> Result<OwnResources, FatalError> {
        let mut own = OwnResources { root, ..OwnResources::default() };
        // Most machines have none, which is found out once for all plugins.
        let names: BTreeSet<_> = match fs::read_dir(&own.root) {
            Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(own),
            Err(error) => return Err(FatalError::io("open", &own.root, error)),
        };
        for (id, version) in plugins.filter(|(id, _)| names.contains(OsStr::new(id))) {
            if own.root.join(id).is_dir() {
                let plugins = if version >= API_VERSION_4 { &mut own.given } else { &mut own.laid };
                plugins.insert(id.to_owned());
            }
        }
        Ok(own)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory that the plugin is given.
    pub(super) fn directory(&self, plugin_id: &str) -> Option<PathBuf> {
        self.given.contains(plugin_id).then(|| self.root.join(plugin_id))
    }

    /// Returns true if the plugin's directory is laid over its other resource files.
    pub(super) fn is_laid_over(&self, plugin_id: &str) -> bool {
        self.laid.contains(plugin_id)
    }

    /// Returns true if the path below the virtual root is that of a file of the administrator's.
    pub(super) fn has_laid(&self, below: &[u8]) -> bool {
        !self.files.is_empty() && self.files.contains(Path::new(OsStr::from_bytes(below)))
    }

    /// Lays the directories over what is below the virtual root.
    pub(super) fn lay(&mut self, virtual_root: &Path) -> Result<(), FatalError> {
        for id in &self.laid {
            for entry in WalkDir::new(self.root.join(id)) {
                let entry = entry.map_err(|error| FatalError::walk(&self.root, error))?;
                if let Ok(below) = entry.path().strip_prefix(&self.root)
                    && lay(&entry, &virtual_root.join(below))?
                {
                    self.files.insert(below.to_owned());
                }
            }
        }
        Ok(())
    }
}

/// Lays one thing over what is at the path. Returns true if it is a file there now.
fn lay(entry: &DirEntry, to: &Path) -> Result<bool, FatalError> {
    let failed = |error| FatalError::io("replace", to, error);
    let replaced = to.symlink_metadata().ok();
    if entry.file_type().is_dir() {
        if replaced.is_some_and(|replaced| !replaced.is_dir()) {
            fs::remove_file(to).map_err(failed)?;
        }
        copy::copy(entry, to)?;
        return Ok(false);
    }
    let is_mask = is_mask(entry, replaced.is_some());
    match replaced {
        Some(replaced) if replaced.is_dir() => fs::remove_dir_all(to).map_err(failed)?,
        Some(_) => fs::remove_file(to).map_err(failed)?,
        None => {}
    }
    if !is_mask {
        copy::copy(entry, to)?;
    }
    Ok(!is_mask)
}

/// Returns true if a file stands for nothing: a link to `/dev/null`, or an empty one where there would be another otherwise.
fn is_mask(entry: &DirEntry, hides_something: bool) -> bool {
    if entry.path_is_symlink() {
        return fs::read_link(entry.path()).is_ok_and(|target| target == Path::new("/dev/null"));
    }
    hides_something && entry.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0)
}
