//! Recovery after an apply was killed.

use super::{BASE, ImageStore, PROVISIONED, intent_name};
use crate::error::Result;
use crate::image::Image;
use crate::locations::Locations;
use crate::path_handle::TEMPORARY;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// The intents of a killed apply; nearly always empty.
#[derive(Debug, Default)]
pub struct Recovery {
    intents: HashSet<OsString>,
    was_needed: bool,
}

impl Recovery {
    /// Finds the files of a killed apply, and removes those that no entity needs. `targets` returns the target paths of
    /// all entities; it is only called if there are files.
    ///
    /// # Errors
    /// If a file cannot be examined or removed.
    pub fn begin(
        store: &ImageStore,
        locations: &Locations,
        targets: impl FnOnce() -> Vec<PathBuf>,
    ) -> Result<Recovery> {
        let Some(names) = store.all_staged()? else { return Ok(Recovery::default()) };
        let useful: HashSet<OsString> = targets().iter().map(|path| intent_name(path).into()).collect();
        let mut intents = HashSet::new();
        for name in names {
            if useful.contains(&name) {
                intents.insert(name);
            } else {
                store.staged(&name).remove()?;
            }
        }
        // Some may be the files of former targets, for which open descriptors were not checked yet.
        let _ = store.separate_open_bases(&files_below(&locations.state_dir().join(BASE)));
        for folder in [BASE, PROVISIONED] {
            remove_empty_folders(&locations.state_dir().join(folder), folder, store);
        }
        Ok(Recovery { intents, was_needed: true })
    }

    /// Checks whether files of a killed apply exist, without modifying them.
    ///
    /// # Errors
    /// If this cannot be determined.
    pub fn look(store: &ImageStore) -> Result<Recovery> {
        Ok(Recovery { intents: HashSet::new(), was_needed: store.all_staged()?.is_some() })
    }

    /// Returns true if the staging directory existed, even if it was empty.
    #[must_use]
    pub fn was_needed(&self) -> bool {
        self.was_needed
    }

    /// Recovers the target of a killed apply: if it already has its intended state, that state is recorded. If the base
    /// of the target was moved back, its record is removed; this is unambiguous because an apply saves the base before
    /// it records an image.
    ///
    /// # Errors
    /// If the state cannot be determined or recorded.
    pub fn recover(&self, path: &Path, store: &ImageStore) -> Result<()> {
        if self.was_needed && !store.base(path).exists()? {
            store.provisioned(path).remove()?;
        }
        if !self.intents.contains(&OsString::from(intent_name(path))) {
            return Ok(());
        }
        let (intent, target) = (store.intent(path), store.target(path));
        target.temporary(TEMPORARY).remove()?;
        let (Ok(Some(intended)), Ok(Some(current))) = (Image::load(&intent), Image::load(&target)) else {
            return intent.remove();
        };
        if !current.equals(&intended)? {
            return intent.remove();
        }
        let provisioned = store.provisioned(path);
        provisioned.create_folder()?;
        intent.rename_to(&provisioned)
    }
}

impl ImageStore {
    /// Returns true if a killed apply has moved a base back to its target, but has not removed the record.
    #[must_use]
    pub fn has_records_without_base(&self, locations: &Locations) -> bool {
        let recorded = files_below(&locations.state_dir().join(PROVISIONED));
        recorded.iter().any(|path| !self.base(path).exists().unwrap_or(true))
    }
}

/// Returns the files and symlinks below a directory, as absolute paths relative to it.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let files = WalkDir::new(folder).into_iter().flatten().filter(|entry| !entry.file_type().is_dir());
    let below = files.filter_map(|entry| entry.path().strip_prefix(folder).map(|path| Path::new("/").join(path)).ok());
    below.collect()
}

fn remove_empty_folders(folder: &Path, keep: &str, store: &ImageStore) {
    let below = |path: PathBuf| path.strip_prefix(folder).map(Path::to_owned).ok();
    for entry in WalkDir::new(folder).min_depth(1).contents_first(true).into_iter().flatten() {
        if entry.file_type().is_dir()
            && let Some(below) = below(entry.into_path())
        {
            // Only empty directories can be removed.
            store.state(&Path::new(keep).join(below).join("x")).remove_empty_folders(Path::new(keep));
        }
    }
}
