//! The intents of a change, which are on disk before the first path is changed.

use super::Tracker;
use super::contents::StagedContent;
use super::entity_change::PathChange;
use super::made_directories::MadeDirectories;
use super::state::{State, Unmanaged};
use super::steps::{Step, writes_in_place};
use super::tracks::{Track, Tracks};
use crate::error::Result;
use crate::path_handle::ExtendedAttributes;
use crate::paths::path_bytes;
use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

impl Tracker {
    /// Returns the parent directories that are missing, or were created by one of our plugins; they are removed with
    /// their last user.
    pub(super) fn own_parents(
        &self,
        made: &BTreeSet<&Path>,
        directories: &MadeDirectories,
    ) -> Result<BTreeSet<PathBuf>> {
        let mut own = BTreeSet::new();
        for path in made {
            for parent in path.ancestors().skip(1) {
                if parent == Path::new("/") || made.contains(parent) {
                    break;
                }
                if own.contains(parent) {
                    break;
                }
                if self.place(parent).exists()? {
                    self.place(path).check_way()?;
                    own.extend(parent.ancestors().filter(|above| directories.contains(above)).map(Path::to_owned));
                    break;
                }
                own.insert(parent.to_owned());
            }
        }
        Ok(own)
    }

    /// Records the current states of the paths as bases, and their desired states as intents. The contents of bases are
    /// staged.
    pub(super) fn record_intents(
        &self,
        tracks: &mut Tracks,
        wanted: &[PathChange],
        directories: &MadeDirectories,
        staged: &mut Vec<StagedContent>,
    ) -> std::result::Result<Vec<Step>, Unmanaged> {
        let mut steps = Vec::with_capacity(wanted.len());
        for PathChange { path, found, desired, in_place, attributes_only, sensitive } in wanted {
            let (current, stamp) = self.stamped(path)?;
            let is_expected = found.as_ref().is_none_or(|found| *found == current) || current == *desired;
            if !is_expected {
                return Err(Unmanaged::Meanwhile(self.place(path).shown().display().to_string()));
            }
            if matches!(desired, State::Absent | State::Directory { .. }) && self.is_overlaid(path) {
                return Err(Unmanaged::Overlaid(self.place_itself(path).shown().display().to_string()));
            }
            let key = path_bytes(path);
            let is_known = tracks.0.contains_key(&key);
            if !is_known {
                self.reject_edited(path)?;
            }
            let writes_over = *in_place && writes_in_place(&current, desired);
            if current.content().is_some() && (!is_known || writes_over) {
                staged.extend(self.contents.stage_file(&self.place(path))?);
            }
            let track = match tracks.0.entry(key) {
                Entry::Occupied(track) => track.into_mut(),
                Entry::Vacant(vacant) => {
                    // A parent directory that we have created is not part of the original state.
                    let is_own_directory = matches!(current, State::Directory { .. }) && directories.contains(path);
                    let mut track = Track::new(if is_own_directory { State::Absent } else { current.clone() });
                    if track.base.attributes().is_some() {
                        track.extended = ExtendedAttributes::of(&self.place(path))?;
                    }
                    vacant.insert(Box::new(track))
                }
            };
            // An earlier intent that was reached is a provisioned state.
            if track.intent.as_ref() == Some(&current) {
                track.intent = None;
                track.set_provisioned(current.clone());
            }
            track.over = writes_over.then(|| current.clone());
            (track.in_place, track.attributes_only, track.sensitive) = (*in_place, *attributes_only, *sensitive);
            track.intent = Some(desired.clone());
            // A file that replaces another gets its attributes; one that is created again gets the original ones.
            let extended = match (&current, desired) {
                (State::File { .. }, State::File { .. }) if current != *desired => {
                    ExtendedAttributes::of(&self.place(path))?.without_those_of_content()
                }
                _ if track.base.kind() == desired.kind() => track.extended.clone().without_those_of_content(),
                _ => ExtendedAttributes::default(),
            };
            steps.push(Step {
                path: path.clone(),
                current,
                stamp,
                desired: desired.clone(),
                extended,
                in_place: *in_place,
                temporary: None,
            });
        }
        Ok(steps)
    }
}
