//! Decisions about paths: what may be changed without losing a person's work.

use super::Tracker;
use super::state::State;
use super::tracks::Track;
use crate::error::Result;
use std::path::Path;

/// A decision about a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: it is as it shall be.
    Nothing,
    /// It is to be changed, and no work of a person's is lost.
    Change,
    /// It is to be changed, which would lose a person's work.
    NeedsForce,
}

impl Tracker {
    /// Decides what has to be done with a path.
    ///
    /// # Errors
    /// If the lists of the directories that we have made cannot be read.
    pub fn decide(&self, path: &Path, track: Option<&Track>, current: &State, desired: &State) -> Result<Decision> {
        let decision = decide(track, current, desired);
        // A directory that was made on the way to something else is no person's work either.
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
    // A state that a killed run was about to make is no person's work.
    let Some(provisioned) = track.and_then(|track| track.provisioned.as_ref()) else { return Decision::Change };
    let intent = track.and_then(|track| track.intent.as_ref());
    // Nor is nothing at all.
    let is_ours = *current == State::Absent || current == provisioned;
    if is_ours || intent.is_some_and(|intent| current == intent || is_on_the_way(provisioned, current, intent)) {
        Decision::Change
    } else {
        Decision::NeedsForce
    }
}

/// Returns true if a kill in the middle of a step can have left this.
pub(super) fn is_on_the_way(provisioned: &State, current: &State, intent: &State) -> bool {
    let Some((current_has, intent_has)) = current.attributes().zip(intent.attributes()) else { return false };
    if matches!((current, intent), (State::Directory { .. }, State::Directory { .. }))
        && !matches!(provisioned, State::Directory { .. })
    {
        // It is made private, and gets owner and mode then.
        return true;
    }
    // The owner comes first, and takes bits away that the mode may bring back.
    let provisioned_mode = provisioned.attributes().map(|attributes| attributes.mode & 0o1777);
    current.content() == intent.content()
        && provisioned.content() == intent.content()
        && provisioned.kind() == intent.kind()
        && (current_has.uid, current_has.gid) == (intent_has.uid, intent_has.gid)
        && Some(current_has.mode & 0o1777) == provisioned_mode
}
