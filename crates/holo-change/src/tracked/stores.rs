//! The stores in which plugins keep their records of paths: each in its state directory, beside that of the others.

use super::contents::Contents;
use super::directories::OwnDirectories;
use super::tracks::Tracks;
use super::{CONTENTS, DIRECTORIES, UNTIDY};
use crate::base_store::{BaseStore, Remembered};
use crate::error::{PathError, Result};
use crate::image_store::BASE;
use crate::locations::Locations;
use crate::path_handle::Durability;
use crate::path_handle::{PathHandle, Tree};
use crate::paths::without_root;
use rustix::io::Errno;
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The plugin that lays files over others, and has bases where version 3 has them.
const OVERLAYS: &str = "files";
/// The folder in its state directory in which it keeps what it knows of declared files.
const DECLARED: &str = ".declared";
/// Is there while something is taken over from another entity, or might be.
const TAKEOVERS: &str = "takeovers";
/// The time that another plugin may take to be done with its state directory.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// The overlays: files that a plugin lays over what others bring.
#[derive(Clone, Debug)]
pub struct Overlays(Option<Arc<Tree>>);

impl Overlays {
    /// Returns those of the plugin whose state directory is beside ours.
    #[must_use]
    pub fn of(locations: &Locations) -> Overlays {
        let state = locations.state_dir().parent().map(|all| all.join(OVERLAYS));
        // Without bases, nothing need be looked for.
        let state = state.filter(|state| state.join(BASE).is_dir());
        Overlays(state.and_then(|state| Tree::open(&state).ok()))
    }

    /// Returns the place of what an overlay lies over at a path: the overlay's base, which is what others bring.
    #[must_use]
    pub fn base(&self, path: &Path) -> Option<PathHandle> {
        let base = self.0.as_ref()?.place(&Path::new(BASE).join(without_root(path)));
        base.is_file_or_symlink().is_ok_and(|is_there| is_there).then_some(base)
    }

    /// Returns true if something lies over what is at a path.
    #[must_use]
    pub fn lie_over(&self, path: &Path) -> bool {
        self.base(path).is_some()
    }
}

/// The records of a plugin about paths.
#[derive(Clone, Debug)]
pub(super) struct PluginStore {
    /// The plugin, as its state directory is called.
    pub(super) plugin: String,
    pub(super) bases: BaseStore,
    /// The state directories of all plugins.
    all: PathBuf,
}

impl PluginStore {
    pub(super) fn own(locations: &Locations, bases: &BaseStore) -> PluginStore {
        let state = locations.state_dir();
        let plugin = state.file_name().unwrap_or_default().to_string_lossy().into_owned();
        PluginStore { plugin, bases: bases.clone(), all: state.parent().unwrap_or(Path::new("")).to_owned() }
    }

    /// The stores of the other plugins, as far as there are any.
    pub(super) fn others(&self) -> Vec<PluginStore> {
        let Ok(entries) = std::fs::read_dir(&self.all) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names.retain(|name| *name != self.plugin && !name.starts_with('.'));
        names.iter().filter_map(|name| self.store(name)).collect()
    }

    /// The store of a plugin, if there is one.
    pub(super) fn store(&self, plugin: &str) -> Option<PluginStore> {
        if plugin == self.plugin {
            return Some(self.clone());
        }
        let is_name = !plugin.is_empty() && !plugin.contains('/') && plugin != "..";
        let folder = Path::new(if plugin == OVERLAYS { DECLARED } else { "" });
        let state = self.all.join(plugin);
        if !is_name || !state.join(folder).is_dir() {
            return None;
        }
        let bases = BaseStore::at(&Tree::open(&state).ok()?, folder);
        Some(PluginStore { plugin: plugin.to_owned(), bases, all: self.all.clone() })
    }

    /// A place in the folder of the store.
    pub(super) fn place(&self, name: &str) -> PathHandle {
        self.bases.tree().place(&self.bases.folder().join(name))
    }

    pub(super) fn contents(&self) -> Contents {
        Contents::new(self.bases.tree(), self.bases.folder().join(CONTENTS))
    }

    pub(super) fn directories(&self) -> Result<OwnDirectories> {
        OwnDirectories::read(self.place(DIRECTORIES))
    }

    /// Makes an empty file that says something by being there.
    pub(super) fn mark(&self, name: &str) -> Result<()> {
        let mark = self.place(name);
        if !mark.exists()? {
            mark.create_folder()?;
            mark.create()?;
        }
        Ok(())
    }

    /// Says that an entity takes over from another one: when this returns, that is on disk.
    pub(super) fn begin_takeover(&self) -> Result<()> {
        let mark = self.place(TAKEOVERS);
        self.mark(TAKEOVERS)?;
        Durability::Each.sync([], [&mark])
    }

    /// Returns true if an entity of this plugin may be about to take over from another one.
    pub(super) fn has_takeovers(&self) -> Result<bool> {
        self.place(TAKEOVERS).exists()
    }

    pub(super) fn end_takeovers(&self, are_pending: bool) -> Result<()> {
        if are_pending { Ok(()) } else { self.place(TAKEOVERS).remove() }
    }

    /// Those of the records of these entities in which there are tracks.
    pub(super) fn records_of(&self, ids: &[String]) -> Vec<(String, Tracks)> {
        let recall = |id: &String| self.bases.recall::<Value>(id).ok()?;
        ids.iter().filter_map(recall).filter_map(|record| Some((record.id.clone(), tracks_of(&record.base)?))).collect()
    }

    /// All records in which there are tracks. What cannot be read, or is something else, is none.
    pub(super) fn records(&self) -> Vec<(String, Tracks)> {
        let tracks = |remembered: &Remembered<Value>| Some((remembered.id.clone(), tracks_of(&remembered.base)?));
        self.bases.all_readable().iter().filter_map(tracks).collect()
    }

    /// Takes a path out of a record; its new owner has it on disk.
    pub(super) fn release(&self, id: &str, path: &Path) -> Result<()> {
        let Some(mut remembered) = self.bases.recall::<Value>(id)? else { return Ok(()) };
        let Some(mut tracks) = tracks_of(&remembered.base) else { return Ok(()) };
        if tracks.get(path).is_none() {
            return Ok(());
        }
        tracks.forget(path);
        if tracks.is_empty() {
            self.bases.forget(id)?;
        } else {
            set_tracks(&mut remembered.base, &tracks);
            self.bases.keep(&remembered)?;
        }
        Ok(())
    }

    /// Removes what nothing needs any more, for a plugin that may not be called again.
    pub(super) fn tidy(&self) -> Result<()> {
        let records = self.records();
        if records.is_empty() {
            self.contents().keep_only(&BTreeSet::new())?;
            self.place(UNTIDY).remove()?;
            self.remove_empty_folders();
            return Ok(());
        }
        self.mark(UNTIDY)
    }

    /// Removes the folders of the records if they are empty. A run that was killed after the last record was removed has left them.
    pub(super) fn remove_empty_folders(&self) {
        for place in [self.bases.place("x"), self.place(UNTIDY)] {
            place.remove_empty_folders(Path::new(""));
        }
    }

    /// Waits until the plugin is done with its state directory, and keeps it out. Two that wait for each other give up.
    pub(super) fn hold(&self) -> Result<OwnedFd> {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(held) = self.bases.tree().try_hold()? {
                return Ok(held);
            }
            if waited >= PATIENCE {
                let shown = self.bases.tree().place(Path::new("")).shown();
                return Err(PathError::new("lock", shown, Errno::AGAIN));
            }
            thread::sleep(PAUSE);
            waited += PAUSE;
        }
    }
}

/// The tracks are all of a record, or a part of it that is called so.
fn tracks_of(base: &Value) -> Option<Tracks> {
    let entries = if base.is_array() { base } else { base.get("tracks")? };
    serde_json::from_value(entries.clone()).ok()
}

fn set_tracks(base: &mut Value, tracks: &Tracks) {
    let Ok(entries) = serde_json::to_value(tracks) else { return };
    if base.is_array() {
        *base = entries;
    } else if let Some(old) = base.get_mut("tracks") {
        *old = entries;
    }
}
