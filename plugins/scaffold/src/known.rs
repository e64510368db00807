//! Files of scaffolds that are known to be as they were made, and need not be read.

use holo_change::tracked::{State, Track, Tracker, Unmanaged};
use holo_change::{Fingerprint, PathHandle, Stamp, Tree, UnchangedRecord};
use holo_plugin::Host;
use std::cell::RefCell;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The file of the record, in the state directory.
const RECORD: &str = ".unchanged";

/// The record of what is known to be unchanged.
pub(crate) struct Known {
    record: RefCell<UnchangedRecord>,
    /// Where it is kept; none if it is not.
    place: Option<PathHandle>,
}

impl Known {
    /// Knows nothing, so that everything is read.
    pub(crate) fn nothing() -> Known {
        Known { record: RefCell::new(UnchangedRecord::none()), place: None }
    }

    /// Reads what earlier applies have recorded. In test mode that is done only where it is asked for.
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
        Known { record: RefCell::new(record), place: Some(place) }
    }

    /// Returns the state of a path. A file that is known to be as it was made is not read.
    pub(crate) fn state(&self, path: &Path, track: Option<&Track>, tracker: &Tracker) -> Result<State, Unmanaged> {
        let made = track.and_then(|track| track.provisioned.as_ref());
        let Some(made @ State::File { .. }) = made.filter(|_| self.place.is_some()) else { return tracker.state(path) };
        let Some(stamp) = Stamp::of(&tracker.place(path))? else { return Ok(State::Absent) };
        let fingerprint = Fingerprint::new(&[Some(stamp)], made);
        let key = path.as_os_str().as_bytes();
        if self.record.borrow().knows(key, fingerprint) {
            return Ok(made.clone());
        }
        let state = tracker.state(path)?;
        let mut record = self.record.borrow_mut();
        if state == *made && record.can_rely_on(&stamp) {
            record.insert(key, fingerprint);
        }
        Ok(state)
    }

    /// Forgets what is about to be changed.
    pub(crate) fn forget<P: AsRef<Path>>(&self, paths: impl IntoIterator<Item = P>) {
        let mut record = self.record.borrow_mut();
        paths.into_iter().for_each(|path| record.forget(path.as_ref().as_os_str().as_bytes()));
    }

    /// Keeps for the next apply what this one has learned.
    pub(crate) fn keep(&self) {
        if let Some(place) = &self.place {
            self.record.borrow().keep(place, &place.replacement());
        }
    }
}
