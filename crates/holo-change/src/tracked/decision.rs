//! Decisions on whether paths may be changed without losing manual changes.

use super::Tracker;
use super::state::State;
use super::tracks::Track;
use crate::error::Result;
use std::path::Path;

/// A decision on a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// No change is needed.
    Nothing,
    /// The path can be changed without losing manual changes.
    Change,
    /// The change would overwrite manual changes.
    NeedsForce,
}

impl Tracker {
    /// Decides on the change of a path.
    ///
    /// # Errors
    /// If the lists of created directories cannot be read.
    pub fn decide(&self, path: &Path, track: Option<&Track>, current: &State, desired: &State) -> Result<Decision> {
        let decision = decide(track, current, desired);
        // A directory that was created as a parent of another path is not a manual change either.
        let is_on_the_way = decision == Decision::NeedsForce
            && matches!(current, State::Directory { .. })
            && self.directories()?.contains(path);
        Ok(if is_on_the_way { Decision::Change } else { decision })
    }
}

pub(super) fn decide(track: Option<&Track>, current: &State, desired: &State) -> Decision {
    if current == desired {
        return Decision::Nothing;
    }
    // The intended state of a killed run is not a manual change.
    let Some(provisioned) = track.and_then(|track| track.provisioned.as_ref()) else { return Decision::Change };
    let intent = track.and_then(|track| track.intent.as_ref());
    // Nor is a missing file.
    let is_ours = *current == State::Absent || current == provisioned;
    if is_ours || intent.is_some_and(|intent| current == intent || is_on_the_way(provisioned, current, intent)) {
        Decision::Change
    } else {
        Decision::NeedsForce
    }
}

/// Returns true if the state may be the result of a kill during a step.
pub(super) fn is_on_the_way(provisioned: &State, current: &State, intent: &State) -> bool {
    let Some((current_has, intent_has)) = current.attributes().zip(intent.attributes()) else { return false };
    if matches!((current, intent), (State::Directory { .. }, State::Directory { .. }))
        && !matches!(provisioned, State::Directory { .. })
    {
        // A directory is created with a private mode, before its owner and mode are set.
        return true;
    }
    // The owner is set first, which clears bits that the mode may set again.
    let provisioned_mode = provisioned.attributes().map(|attributes| attributes.mode & 0o1777);
    current.content() == intent.content()
        && provisioned.content() == intent.content()
        && provisioned.kind() == intent.kind()
        && (current_has.uid, current_has.gid) == (intent_has.uid, intent_has.gid)
        && Some(current_has.mode & 0o1777) == provisioned_mode
}
