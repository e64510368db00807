//! A change of a target until it is committed, and the outcome for its entity.

use holo_change::image_store::{ImageChange, ImageStore};
use holo_change::{Ended, Meanwhile, PathHandle};
use holo_plugin::{Applied, ForceTo};
use std::path::{Path, PathBuf};

/// A change to commit for an entity.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) files: ImageChange,
    pub(crate) consequences: Consequences,
}

/// What to do after a change, besides its files.
#[derive(Debug)]
pub(crate) struct Consequences {
    /// The index of the entity in its set.
    pub(crate) index: usize,
    /// The outcome on success.
    pub(crate) outcome: Applied,
    /// Files in the cache from which the new content is read.
    pub(crate) scratch: Vec<PathHandle>,
    /// True if a stock file may have been moved away from the target's path.
    pub(crate) may_have_moved_stock: bool,
}

/// The result of a change.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The index of the entity in its set.
    pub(crate) index: usize,
    pub(crate) applied: Applied,
    /// The error, if any.
    pub(crate) failure: Option<String>,
    /// The target whose original file has become its base.
    pub(crate) shares_base: Option<PathBuf>,
}

impl Change {
    pub(crate) fn new(index: usize, path: &Path) -> Change {
        let outcome = Applied::Unchanged;
        let consequences = Consequences { index, outcome, scratch: Vec::new(), may_have_moved_stock: false };
        Change { files: ImageChange::new(path), consequences }
    }

    /// Sets the outcome on success.
    pub(crate) fn outcome(&mut self, outcome: Applied) {
        self.consequences.outcome = outcome;
    }

    /// Returns the outcome if no change is needed.
    pub(crate) fn into_outcome(self) -> Applied {
        self.consequences.clean_up();
        self.consequences.outcome
    }
}

impl Consequences {
    fn clean_up(&self) {
        self.scratch.iter().for_each(|place| drop(place.remove()));
    }
}

/// Returns why force is required after the target was changed concurrently.
pub(crate) fn force_to(meanwhile: Meanwhile) -> ForceTo {
    match meanwhile {
        Meanwhile::Changed => ForceTo::Overwrite,
        Meanwhile::Gone => ForceTo::Restore,
    }
}

impl From<Ended<ImageStore, Consequences>> for Outcome {
    fn from((files, consequences, result): Ended<ImageStore, Consequences>) -> Outcome {
        consequences.clean_up();
        let Consequences { index, outcome, may_have_moved_stock, .. } = consequences;
        let applied = match (&result, files.refused()) {
            (Ok(()), None) => outcome,
            (Ok(()), Some(meanwhile)) => Applied::NeedsForce(force_to(meanwhile)),
            (Err(_), _) if files.is_target_replaced() || may_have_moved_stock => FAILED,
            (Err(_), _) => FAILED_UNCHANGED,
        };
        let failure = result.err().map(|error| error.to_string());
        Outcome { index, applied, failure, shares_base: files.shared_base().map(Path::to_owned) }
    }
}

/// An entity failed. Version 3 of the plugin reports that with messages, not with its exit status.
pub(crate) const FAILED: Applied = Applied::Failed { version_3_status: 0, nothing_changed: false };

/// An entity failed, and its target is unchanged.
pub(crate) const FAILED_UNCHANGED: Applied = Applied::Failed { version_3_status: 0, nothing_changed: true };
