//! The administrator's own resource files, which override others at the same path.

use crate::error::FatalError;
use holo_protocol::API_VERSION_4;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};
use walkdir::{DirEntry, WalkDir};

/// The administrator's own resource directories.
#[derive(Debug, Default)]
pub(crate) struct OwnResources {
    root: PathBuf,
    /// The plugins that read their directory themselves.
    given: BTreeSet<String>,
    /// The plugins that support a single directory, which the administrator's is merged into.
    laid: BTreeSet<String>,
    /// The files that have been merged, by path relative to the root.
    files: BTreeSet<PathBuf>,
}

impl OwnResources {
    /// Finds the directories of these plugins, each given with its version.
    pub(crate) fn find<'a>(
        root: PathBuf,
        plugins: impl Iterator<Item = (&'a str, u32)>,
    ) -> Result<OwnResources, FatalError> {
        let mut own = OwnResources { root, ..OwnResources::default() };
        // Most machines have none, which a single check for all plugins detects.
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

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the administrator's directory that the plugin reads.
    pub(crate) fn directory(&self, plugin_id: &str) -> Option<PathBuf> {
        self.given.contains(plugin_id).then(|| self.root.join(plugin_id))
    }

    /// Returns true if the plugin's directory is merged into its other resource files.
    pub(crate) fn is_laid_over(&self, plugin_id: &str) -> bool {
        self.laid.contains(plugin_id)
    }

    /// Returns true if the path, relative to the virtual root, is that of a merged file.
    pub(crate) fn has_laid(&self, below: &[u8]) -> bool {
        !self.files.is_empty() && self.files.contains(Path::new(OsStr::from_bytes(below)))
    }

    /// Merges the directories into the virtual root.
    pub(crate) fn lay(&mut self, virtual_root: &Path) -> Result<(), FatalError> {
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

/// Puts an entry in place of an existing path. Returns true if the result is a file.
fn lay(entry: &DirEntry, to: &Path) -> Result<bool, FatalError> {
    let failed = |error| FatalError::io("replace", to, error);
    let replaced = to.symlink_metadata().ok();
    if entry.file_type().is_dir() {
        if replaced.is_some_and(|replaced| !replaced.is_dir()) {
            fs::remove_file(to).map_err(failed)?;
        }
        super::copy(entry, to)?;
        return Ok(false);
    }
    let is_mask = is_mask(entry, replaced.is_some());
    match replaced {
        Some(replaced) if replaced.is_dir() => fs::remove_dir_all(to).map_err(failed)?,
        Some(_) => fs::remove_file(to).map_err(failed)?,
        None => {}
    }
    if !is_mask {
        super::copy(entry, to)?;
    }
    Ok(!is_mask)
}

/// Returns true if a file masks another: a link to `/dev/null`, or an empty file at the path of another.
fn is_mask(entry: &DirEntry, hides_something: bool) -> bool {
    if entry.path_is_symlink() {
        return fs::read_link(entry.path()).is_ok_and(|target| target == Path::new("/dev/null"));
    }
    hides_something && entry.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0)
}
