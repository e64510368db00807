//! Restores the state before the first apply.

use super::{Executor, is_known_sensitive};
use crate::change::Change;
use crate::entity::Scaffold;
use crate::error::{Result, ScaffoldError, of_change};
use crate::preview;
use crate::record::Record;
use holo_change::tracked::{Decision, Found, State, Tracker};
use holo_plugin::{Applied, Mode, Output, Verdict};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The steps of scrubbing.
struct Scrubbing {
    changes: Vec<(Change, PathBuf)>,
    found: Found,
    /// The paths that cannot be restored while there is an overlay on them.
    waiting: Vec<PathBuf>,
}

impl Executor<'_> {
    /// Checks what scrubbing would do.
    pub(super) fn check_scrubbing(&self, entity: &Scaffold) -> Result<Verdict> {
        let Some(remembered) = self.recall(entity)? else { return Ok(Verdict::InDesiredState) };
        let scrubbing = self.scrubbing(entity, &remembered.base, false)?;
        if !scrubbing.waiting.is_empty() && scrubbing.found.is_empty() {
            return Ok(Verdict::InDesiredState);
        }
        let words = |(change, path): &(Change, PathBuf)| format!("{} {}", change.doing(), self.shown(path));
        Ok(Verdict::WouldChange(scrubbing.changes.iter().map(words).collect()))
    }

    /// Returns the steps of scrubbing, or an error if it needs force.
    fn scrubbing(&self, entity: &Scaffold, record: &Record, force: bool) -> Result<Scrubbing> {
        let tracker = self.inside(&self.tracker.canonical(&entity.target)?)?;
        let mut scrubbing = Scrubbing { changes: Vec::new(), found: Found::new(), waiting: Vec::new() };
        let mut refused = Vec::new();
        let mut gone = BTreeSet::new();
        // The entries of a directory come before the directory, which is removed if all of them are.
        for (path, track) in record.tracks().iter().rev() {
            if tracker.is_overlaid(&path) {
                scrubbing.waiting.push(path);
                continue;
            }
            let current = tracker.state_of(record.tracks(), &path)?;
            // Provisioned directories are only removed if they are empty, so that no files of others are lost.
            let leaves = matches!(current, State::Directory { .. }) && track.base == State::Absent;
            let decision = self.tracker.decide(&path, Some(track), &current, &track.base)?;
            if decision == Decision::NeedsForce && !leaves && !record.is_due(&path) {
                refused.push(format!("{} has been changed", self.shown(&path)));
            }
            let stays = leaves
                && tracker.place(&path.join("x")).siblings()?.iter().any(|name| !gone.contains(&path.join(name)));
            let is_base = current == track.base;
            scrubbing.found.insert(path.clone(), current);
            if is_base || stays {
                continue;
            }
            let change = if track.base == State::Absent { Change::Remove } else { Change::Restore };
            if change == Change::Remove {
                gone.insert(path.clone());
            }
            scrubbing.changes.push((change, path));
        }
        scrubbing.changes.reverse();
        refused.reverse();
        if refused.is_empty() || force { Ok(scrubbing) } else { Err(ScaffoldError::NeedsForce(refused.join(", "))) }
    }

    /// Restores the state before the first apply.
    pub(super) fn scrub(&self, entity: &Scaffold, mode: Mode<'_>, output: &mut Output<'_>) -> Result<Applied> {
        let Some(mut remembered) = self.recovered(entity)? else { return Ok(Applied::Unchanged) };
        let scrubbing = self.scrubbing(entity, &remembered.base, mode.force)?;
        if !scrubbing.waiting.is_empty() && scrubbing.found.is_empty() {
            return Ok(Applied::Unchanged);
        }
        let nothing = Found::new();
        let found = if mode.force { &nothing } else { &scrubbing.found };
        let tracker = self.inside(&self.tracker.canonical(&entity.target)?)?;
        self.has_begun.set(true);
        let known = entity.together.known(self.host);
        known.note_applied();
        known.forget(remembered.base.tracks().iter().map(|(path, _)| path));
        let changed = scrubbing.changes.iter().map(|(_, path)| path.as_path());
        let changed = changed.filter(|path| !is_known_sensitive(&remembered.base, path));
        preview::keep_replaced(changed, &self.tracker, self.host, output);
        tracker.scrub(&mut remembered, found).map_err(of_change)?;
        for path in &scrubbing.waiting {
            output.warning(format!("{} will be restored when its overlay is removed", self.shown(path)));
        }
        // A file may have been created in a directory in the meantime, and the directory was kept.
        let is_done = |(change, path): &(Change, PathBuf)| *change != Change::Remove || !exists(&tracker, path);
        let done = scrubbing.changes.iter().filter(|change| is_done(change));
        Ok(Applied::Changed(done.map(|(change, path)| format!("{} {}", change.done(), self.shown(path))).collect()))
    }
}

fn exists(tracker: &Tracker, path: &Path) -> bool {
    tracker.place(path).exists().unwrap_or(true)
}
