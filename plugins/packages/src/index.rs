//! The age of what a package manager knows of packages, and the names in it.

use crate::manager::Manager;
use crate::model::{IndexPaths, Key};
use holo_plugin::definitions::did_you_mean;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The age up to which an index is taken to have every name that there is.
const FRESH: Duration = Duration::from_secs(60 * 60);

impl Manager<'_> {
    /// Notes that the index has been fetched anew.
    pub(crate) fn note_index(&self) {
        let stamp = self.stamp();
        // A stamp that cannot be left costs another refresh.
        let _ = stamp.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(stamp, ""));
    }

    fn stamp(&self) -> PathBuf {
        self.system.host().state_dir().join("index").join(self.provider.name())
    }

    /// Returns the age of the index; none if there is no index, or one that may be from elsewhere than it would be now.
    pub(crate) fn index_age(&self) -> Option<Duration> {
        let IndexPaths { made, sources } = self.provider.index_paths();
        let made = made.iter().filter_map(|path| time(&self.system.path(path))).chain(time(&self.stamp())).max()?;
        let sources = sources.iter().filter_map(|path| newest(&self.system.path(path))).max();
        let is_outdated = sources.is_some_and(|changed| changed > made);
        // What is from the future is as good as new.
        (!is_outdated).then(|| made.elapsed().unwrap_or_default())
    }

    /// Returns true if a name that is not in the index is that of no package.
    pub(crate) fn has_fresh_index(&self, limit: Option<Duration>) -> bool {
        self.has_refreshed() || self.index_age().is_some_and(|age| age <= limit.unwrap_or(FRESH))
    }

    /// Returns the question whether another package was meant, for one that is not known.
    pub(crate) fn hint(&self, key: &Key) -> Option<String> {
        let names = self.provider.names(&self.system).ok()?;
        did_you_mean(&key.name, names.iter().map(String::as_str))
    }
}

fn time(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// Returns the time at which a file, or any file in a directory, was changed last.
fn newest(path: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| time(&entry.path())).chain(time(path)).max()
}
