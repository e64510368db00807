//! Putting in order what an apply that was killed has left behind.

use super::{BASE, ImageStore, PROVISIONED, intent_name};
use crate::error::Result;
use crate::image::Image;
use crate::locations::Locations;
use crate::path_handle::TEMPORARY;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// The intents that a killed apply has left; nearly always none.
#[derive(Debug, Default)]
pub struct Recovery {
    intents: HashSet<OsString>,
    was_needed: bool,
}

impl Recovery {
    /// Looks for what was left behind, and removes what is of no use to any entity. `targets` is asked for the paths of all entities' targets
    /// if there is anything.
    ///
    /// # Errors
    /// If something cannot be looked at or removed.
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
        // Some may have been the targets' own files, and it was not checked whether they are open elsewhere.
        let _ = store.separate_open_bases(&files_below(&locations.state_dir().join(BASE)));
        for folder in [BASE, PROVISIONED] {
            remove_empty_folders(&locations.state_dir().join(folder), folder, store);
        }
        Ok(Recovery { intents, was_needed: true })
    }

    /// Sees whether anything was left behind, and leaves it as it is.
    ///
    /// # Errors
    /// If that cannot be told.
    pub fn look(store: &ImageStore) -> Result<Recovery> {
        Ok(Recovery { intents: HashSet::new(), was_needed: store.all_staged()?.is_some() })
    }

    /// Returns true if there was anything at all, be it an empty folder.
    #[must_use]
    pub fn was_needed(&self) -> bool {
        self.was_needed
    }

    /// Recovers the target that an apply was at when it was killed: if it is what it was going to be, that is recorded. The record of one
    /// whose base has been moved back to its place is removed: an apply keeps the base before it records anything.
    ///
    /// # Errors
    /// If that cannot be told or recorded.
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
    /// Returns true if a killed apply has moved a base back to its place, and the record of the target is still there.
    #[must_use]
    pub fn has_records_without_base(&self, locations: &Locations) -> bool {
        let recorded = files_below(&locations.state_dir().join(PROVISIONED));
        recorded.iter().any(|path| !self.base(path).exists().unwrap_or(true))
    }
}

/// Returns the files and symlinks below a folder, as if it were the root.
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
            // Only empty ones can be removed.
            store.state(&Path::new(keep).join(below).join("x")).remove_empty_folders(Path::new(keep));
        }
    }
}
