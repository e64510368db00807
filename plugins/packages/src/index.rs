//! The age of a package index, and the names in it.

use crate::manager::Manager;
use crate::model::{IndexPaths, Key};
use holo_plugin::definitions::did_you_mean;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The age up to which an index is assumed to contain every existing name.
const FRESH: Duration = Duration::from_secs(60 * 60);

impl Manager<'_> {
    /// Records that the index was refreshed.
    pub(crate) fn note_index(&self) {
        let stamp = self.stamp();
        // Without the stamp, the index is refreshed once more than necessary.
        let _ = stamp.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(stamp, ""));
    }

    fn stamp(&self) -> PathBuf {
        self.system.host().state_dir().join("index").join(self.provider.name())
    }

    /// Returns the age of the index, or `None` if there is no index or its sources have changed since.
    pub(crate) fn index_age(&self) -> Option<Duration> {
        let IndexPaths { made, sources } = self.provider.index_paths();
        let made = made.iter().filter_map(|path| time(&self.system.path(path))).chain(time(&self.stamp())).max()?;
        let sources = sources.iter().filter_map(|path| newest(&self.system.path(path))).max();
        let is_outdated = sources.is_some_and(|changed| changed > made);
        // A time in the future counts as now.
        (!is_outdated).then(|| made.elapsed().unwrap_or_default())
    }

    /// Returns true if the index is fresh enough to conclude that a name missing in it does not exist.
    pub(crate) fn has_fresh_index(&self, limit: Option<Duration>) -> bool {
        self.has_refreshed() || self.index_age().is_some_and(|age| age <= limit.unwrap_or(FRESH))
    }

    /// Returns a question whether a similarly named package was meant.
    pub(crate) fn hint(&self, key: &Key) -> Option<String> {
        let names = self.provider.names(&self.system).ok()?;
        did_you_mean(&key.name, names.iter().map(String::as_str))
    }
}

fn time(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// Returns the modification time of a file, or the latest one of a directory and its entries.
fn newest(path: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| time(&entry.path())).chain(time(path)).max()
}
