//! The record of a scaffold, and its files that are known to be unchanged since they were provisioned.

use bstr::BString;
use holo_change::tracked::{HasTracks, State, Track, Tracker, Tracks, Unmanaged};
use holo_change::{Fingerprint, PathHandle, Stamp, Tree, UnchangedRecord};
use holo_plugin::{Host, Text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The record of a scaffold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// The states before the first apply, and the provisioned states.
    tracks: Tracks,
    /// The files whose programs have not all succeeded since the file was written.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    due: BTreeSet<Text>,
    /// The rendered states of the files that programs have changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rendered: Vec<Rendered>,
}

/// The rendered state of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rendered {
    path: Text,
    state: State,
}

impl HasTracks for Record {
    fn tracks(&mut self) -> &mut Tracks {
        &mut self.tracks
    }
}

impl Record {
    /// Returns the states before the first apply, and the provisioned states.
    pub(crate) fn tracks(&self) -> &Tracks {
        &self.tracks
    }

    /// Like [`Record::tracks`], but mutable.
    pub(crate) fn tracks_mut(&mut self) -> &mut Tracks {
        &mut self.tracks
    }

    /// Returns true if a file's programs have not all succeeded since it was written.
    pub(crate) fn is_due(&self, path: &Path) -> bool {
        self.due.contains(&Text(bytes(path)))
    }

    /// Sets the files whose programs must be run.
    pub(crate) fn set_due(&mut self, paths: &BTreeSet<&Path>) {
        self.due = paths.iter().map(|path| Text(bytes(path))).collect();
    }

    /// Returns the rendered state of a file, if a program has changed it since.
    pub(crate) fn rendered(&self, path: &Path) -> Option<&State> {
        self.rendered.iter().find(|rendered| rendered.path.0 == bytes(path)).map(|rendered| &rendered.state)
    }

    /// Records the rendered state of a file, and its state after its programs were run.
    pub(crate) fn set_rendered(&mut self, path: &Path, rendered: State, made: State) {
        self.tracks.set_provisioned(path, made);
        self.rendered.push(Rendered { path: Text(bytes(path)), state: rendered });
    }

    /// Removes the rendered states of all files except these.
    pub(crate) fn forget_rendered(&mut self, keep: &BTreeSet<&Path>) {
        let keep: BTreeSet<BString> = keep.iter().map(|path| bytes(path)).collect();
        self.rendered.retain(|rendered| keep.contains(&rendered.path.0));
    }
}

fn bytes(path: &Path) -> BString {
    path.as_os_str().as_bytes().into()
}

/// The name of the record in the state directory.
const RECORD: &str = ".unchanged";

/// The record of files that are known to be unchanged. All scaffolds of a run share it: it is read before the first
/// one, and written after the last one. A run that is killed before that only loses the shortcut, as the files that it
/// changed have other stamps.
#[derive(Debug)]
pub(crate) struct Known {
    record: RwLock<UnchangedRecord>,
    /// The path of the record's file, or `None` if the record is not saved.
    place: Option<PathHandle>,
    /// True if scaffolds were applied: a run that only reads does not save the record.
    is_to_keep: AtomicBool,
}

impl Known {
    fn new(record: UnchangedRecord, place: Option<PathHandle>) -> Known {
        Known { record: RwLock::new(record), place, is_to_keep: AtomicBool::new(false) }
    }

    fn record(&self) -> RwLockReadGuard<'_, UnchangedRecord> {
        self.record.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_mut(&self) -> RwLockWriteGuard<'_, UnchangedRecord> {
        self.record.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an empty record, so that all files are read.
    pub(crate) fn nothing() -> Known {
        Known::new(UnchangedRecord::none(), None)
    }

    /// Reads the record of earlier applies. In test mode, this must be enabled by an environment variable.
    pub(crate) fn open(host: &Host) -> Known {
        let asked_for = || std::env::var_os("HOLO_SCAFFOLD_RECORD").is_some_and(|value| value == "1");
        if host.test_mode() && !asked_for() {
            return Known::nothing();
        }
        let Ok(state) = Tree::open(host.state_dir()) else { return Known::nothing() };
        let place = state.place(Path::new(RECORD));
        let mut record = UnchangedRecord::open(&place);
        if host.verifies() {
            record.distrust();
        }
        Known::new(record, Some(place))
    }

    /// Returns the state of a path. A file that is known to be unchanged is not read.
    pub(crate) fn state(&self, path: &Path, track: Option<&Track>, tracker: &Tracker) -> Result<State, Unmanaged> {
        let made = track.and_then(|track| track.provisioned.as_ref());
        let Some(made @ State::File { .. }) = made.filter(|_| self.place.is_some()) else { return tracker.state(path) };
        let Some(stamp) = Stamp::of(&tracker.place(path))? else { return Ok(State::Absent) };
        let fingerprint = Fingerprint::new(&[Some(stamp)], made);
        let key = path.as_os_str().as_bytes();
        if self.record().knows(key, fingerprint) {
            return Ok(made.clone());
        }
        let state = tracker.state(path)?;
        let mut record = self.record_mut();
        if state == *made && record.can_rely_on(&stamp) {
            record.insert(key, fingerprint);
        }
        Ok(state)
    }

    /// Removes paths that are about to be changed.
    pub(crate) fn forget<P: AsRef<Path>>(&self, paths: impl IntoIterator<Item = P>) {
        let mut record = self.record_mut();
        paths.into_iter().for_each(|path| record.forget(path.as_ref().as_os_str().as_bytes()));
    }

    /// Requests that the record is saved at the end of the run.
    pub(crate) fn note_applied(&self) {
        self.is_to_keep.store(true, Ordering::Relaxed);
    }

    /// Saves the record for the next apply.
    pub(crate) fn keep(&self, host: &Host) {
        let Some(place) = self.place.as_ref().filter(|_| self.is_to_keep.load(Ordering::Relaxed)) else { return };
        let Ok(_held) = Tree::open(host.state_dir()).and_then(|state| state.hold()) else { return };
        self.record().keep(place, &place.replacement());
    }
}
