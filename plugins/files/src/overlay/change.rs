//! The steps of a change, in an order that a crash at any moment does no harm to.
//!
//! 1. *Prepared*: new images lie in the staging folder, and the target's new content beside it. Nothing has been touched yet.
//! 2. *Base kept*: the new base is in its place. From here on the stock file may be overwritten.
//! 3. *Target replaced*, unless somebody has changed it since it was looked at: then that needs force.
//! 4. *Recorded*: the provisioned image is what the target is, and what is not needed any more is gone.
//!
//! Each step is on disk before the next one is begun. The image that the target is going to be, the *intent*, is staged in step 1 and goes
//! in step 4: in between, a target that is equal to the intent is known to be our own unfinished work and not a person's.
//! In the end, a base that was the target's own file is replaced by a copy if some process could still write to it.
//! Many changes take each step together, so that the disk is waited for once for all of them.

use crate::overlay::layout::{BASE, Layout, PROVISIONED};
use crate::overlay::stock::TEMPORARY_SUFFIX;
use holo_change::error::Result;
use holo_change::{Durability, Image, PathHandle, Stamp, are_open_for_writing};
use holo_plugin::{Applied, ForceTo};
use std::path::{Path, PathBuf};

/// The bits of a mode by which others than the owner may write.
const OTHERS_WRITE: u32 = 0o022;

/// A change that is to be made for an entity. Made by preparing it; done by [`commit`].
#[derive(Debug)]
pub(crate) struct Change {
    /// The index of the entity in its set.
    pub(crate) place: usize,
    path: PathBuf,
    /// The outcome if all goes well.
    outcome: Applied,
    keeps_base: bool,
    /// True if the staged base is the target itself, by another name.
    shares_base: bool,
    /// True if the target's own file gets, or loses, another name by us.
    is_renamed: bool,
    writes_target: bool,
    /// The target as it was found, if only that may be replaced.
    found: Option<Stamp>,
    recording: Recording,
    /// The files that go when the change is done: a stock file that became the base, the saved copies of a deleted target.
    pub(crate) leftovers: Vec<PathHandle>,
    /// Files in the cache that the new content was read from.
    pub(crate) scratch: Vec<PathHandle>,
    target_replaced: bool,
    /// True if a stock file may have been moved out of the target's place.
    pub(crate) may_have_moved_stock: bool,
    failure: Option<String>,
}

/// The image that is to be recorded of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recording {
    /// The one that is recorded already.
    Same,
    /// The current one.
    New,
    /// None: neither image stays.
    Nothing,
}

impl Change {
    pub(crate) fn new(place: usize, path: &Path) -> Change {
        Change {
            place,
            path: path.to_owned(),
            outcome: Applied::Unchanged,
            keeps_base: false,
            shares_base: false,
            is_renamed: false,
            writes_target: false,
            found: None,
            recording: Recording::Same,
            leftovers: Vec::new(),
            scratch: Vec::new(),
            target_replaced: false,
            may_have_moved_stock: false,
            failure: None,
        }
    }

    /// Sets the outcome if all goes well.
    pub(crate) fn outcome(&mut self, outcome: Applied) {
        self.outcome = outcome;
    }

    /// Returns true if there is nothing to be done.
    pub(crate) fn is_empty(&self) -> bool {
        !self.keeps_base && !self.writes_target && self.recording == Recording::Same && self.leftovers.is_empty()
    }

    /// Returns the outcome if there is nothing to be done.
    pub(crate) fn into_outcome(self) -> Applied {
        self.scratch.iter().for_each(|place| drop(place.remove()));
        self.outcome
    }

    /// Stages an image as the new base.
    pub(crate) fn stage_base(&mut self, image: &Image, layout: &Layout) -> Result<()> {
        layout.create_staging_folder()?;
        image.write_to(&layout.staged_base(&self.path))?;
        (self.keeps_base, self.shares_base) = (true, false);
        Ok(())
    }

    /// Stages the target, as it was found, as its base. One that is going to be replaced needs no copy: its own file becomes the base.
    /// [`Change::copy_shared_base`] has to be called when it is known what becomes of the target.
    pub(crate) fn stage_found_base(&mut self, found: &Image, stamp: &Stamp, layout: &Layout) -> Result<()> {
        let (target, staged) = (layout.target(&self.path), layout.staged_base(&self.path));
        // The only other name may be that of a base that is replaced now.
        self.is_renamed = stamp.names() > 1;
        // By another name, or an open descriptor, it could be written to later.
        let is_ours_alone = found.is_trusted() && found.mode & OTHERS_WRITE == 0 && stamp.names() == 1;
        if is_ours_alone && !found.is_symlink() {
            layout.create_staging_folder()?;
            // A file that a killed apply has left there is in the way.
            let linked = target.link_to(&staged).or_else(|_| staged.remove().and_then(|()| target.link_to(&staged)));
            if linked.is_ok() {
                (self.keeps_base, self.shares_base, self.is_renamed) = (true, true, true);
                return Ok(());
            }
        }
        self.stage_base(found, layout)
    }

    /// Makes a copy of a base that is the target itself, unless the target is replaced: an edit of it would be one of its base.
    pub(crate) fn copy_shared_base(&mut self, layout: &Layout) -> Result<()> {
        if !self.shares_base || self.writes_target {
            return Ok(());
        }
        let (target, staged) = (layout.target(&self.path), layout.staged_base(&self.path));
        if !target.is_same_file(&staged)? {
            // Another file has been put in its place meanwhile.
            return Ok(());
        }
        self.shares_base = false;
        let Ok(Some(found)) = Image::load(&target) else { return Ok(()) };
        let copied = found.write_to(&staged);
        self.keeps_base = copied.is_ok();
        copied
    }

    /// Stages an image of the target as it is already, to be recorded as provisioned.
    pub(crate) fn stage_provisioned(&mut self, image: &Image, layout: &Layout) -> Result<()> {
        layout.create_staging_folder()?;
        image.write_to(&layout.intent(&self.path))?;
        self.recording = Recording::New;
        Ok(())
    }

    /// Stages an image of the target as it is going to be, to be recorded as provisioned, and writes the new content beside the target; the
    /// intent comes first, so that this is known to be ours.
    pub(crate) fn stage_target(&mut self, image: &Image, layout: &Layout) -> Result<()> {
        layout.create_staging_folder()?;
        let target = layout.target(&self.path);
        // The folder may have been deleted together with the target.
        target.create_folder()?;
        image.write_to_all(&[&layout.intent(&self.path), &target.temporary(TEMPORARY_SUFFIX)])?;
        (self.writes_target, self.recording) = (true, Recording::New);
        Ok(())
    }

    /// Replaces the target only if it is still as it was found.
    pub(crate) fn replaces_only(&mut self, found: Option<Stamp>) {
        self.found = found;
    }

    /// Forgets the target: its images go in the end.
    pub(crate) fn forget_target(&mut self) {
        self.recording = Recording::Nothing;
    }

    /// Gives up on the target before anything was done to it. A base that was staged is kept all the same.
    pub(crate) fn abandon_target(&mut self, layout: &Layout) {
        self.remove_temporaries(layout);
        (self.writes_target, self.recording) = (false, Recording::Same);
    }

    fn remove_temporaries(&self, layout: &Layout) {
        // Files that cannot be removed are found by the next apply.
        let _ = layout.target(&self.path).temporary(TEMPORARY_SUFFIX).remove();
        let _ = layout.intent(&self.path).remove();
    }

    /// Returns the places that were staged, and have to be on disk before the first step.
    fn staged(&self, layout: &Layout) -> Vec<PathHandle> {
        let mut places = Vec::new();
        if self.keeps_base {
            places.push(layout.staged_base(&self.path));
        }
        if self.writes_target {
            places.push(layout.target(&self.path).temporary(TEMPORARY_SUFFIX));
        }
        if self.writes_target || self.recording == Recording::New {
            places.push(layout.intent(&self.path));
        }
        places
    }

    /// Step 2. Returns the places whose directories have changed.
    fn keep_base(&mut self, layout: &Layout) -> Result<Vec<PathHandle>> {
        let mut changed = Vec::new();
        if self.keeps_base {
            let base = layout.base(&self.path);
            changed.extend(base.create_folder()?);
            layout.staged_base(&self.path).rename_to(&base)?;
            changed.push(base);
        }
        if self.writes_target {
            changed.push(layout.intent(&self.path));
        }
        Ok(changed)
    }

    /// Step 3. Returns the places whose directories have changed.
    fn replace_target(&mut self, layout: &Layout) -> Result<Vec<PathHandle>> {
        if !self.writes_target {
            return Ok(Vec::new());
        }
        let target = layout.target(&self.path);
        if let Some(force_to) = self.reason_to_refuse(&target)? {
            self.outcome = Applied::NeedsForce(force_to);
            self.abandon_target(layout);
            return self.separate_base(layout).map(|()| Vec::new());
        }
        target.temporary(TEMPORARY_SUFFIX).rename_to(&target)?;
        self.target_replaced = true;
        Ok(vec![target])
    }

    /// Returns the reason to require force: the target has been changed since it was looked at.
    pub(crate) fn reason_to_refuse(&self, target: &PathHandle) -> Result<Option<ForceTo>> {
        let Some(found) = &self.found else { return Ok(None) };
        let Some(now) = Stamp::of(target)? else { return Ok(Some(ForceTo::Restore)) };
        let is_same = if self.is_renamed { now.is_same_but_for_names(found) } else { now.is_same(found) };
        Ok((!is_same).then_some(ForceTo::Overwrite))
    }

    /// Replaces a base by its copy if it is a file with other names.
    fn separate_base(&mut self, layout: &Layout) -> Result<()> {
        if std::mem::take(&mut self.shares_base) { copy_base(&self.path, layout) } else { Ok(()) }
    }

    /// Step 4.
    fn record(&self, layout: &Layout) -> Result<()> {
        let intent = layout.intent(&self.path);
        let provisioned = layout.provisioned(&self.path);
        for leftover in &self.leftovers {
            leftover.remove()?;
        }
        match self.recording {
            Recording::Same => {}
            Recording::New => {
                provisioned.create_folder()?;
                intent.rename_to(&provisioned)?;
            }
            Recording::Nothing => {
                provisioned.remove()?;
                provisioned.remove_empty_folders(Path::new(PROVISIONED));
            }
        }
        if self.writes_target && self.recording != Recording::New {
            intent.remove()?;
        }
        if self.recording == Recording::Nothing {
            // The base comes last: as long as it is there, the entity is, and what a crash leaves undone is found.
            let base = layout.base(&self.path);
            base.remove()?;
            base.remove_empty_folders(Path::new(BASE));
        }
        Ok(())
    }
}

/// Replaces a base by a copy of it.
fn copy_base(path: &Path, layout: &Layout) -> Result<()> {
    let (base, staged) = (layout.base(path), layout.staged_base(path));
    let Ok(Some(image)) = Image::load(&base) else { return Ok(()) };
    layout.create_staging_folder()?;
    image.write_to(&staged)?;
    Durability::Each.sync([&staged], [])?;
    staged.rename_to(&base)?;
    Durability::Each.sync([], [&base])
}

/// Replaces bases that were targets until now by copies of them, where some process may have the target open for writing; returns whether
/// that is done with all of them.
pub(crate) fn separate_open_bases(paths: &[PathBuf], layout: &Layout) -> bool {
    let bases: Vec<PathHandle> = paths.iter().map(|path| layout.base(path)).collect();
    let are_open = are_open_for_writing(&bases).unwrap_or_else(|_| vec![true; bases.len()]);
    let open = paths.iter().zip(are_open).filter(|(_, is_open)| *is_open);
    open.fold(true, |all, (path, _)| copy_base(path, layout).is_ok() && all)
}

/// The result of a change.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The index of the entity in its set.
    pub(crate) place: usize,
    pub(crate) applied: Applied,
    /// The error.
    pub(crate) failure: Option<String>,
    /// The target whose own file is its base now.
    pub(crate) shares_base: Option<PathBuf>,
}

/// Makes changes, step by step for all of them together, and returns the result of each.
///
/// An error in one does not affect the others.
pub(crate) fn commit(mut changes: Vec<Change>, layout: &Layout) -> Vec<Ended> {
    let durability = Durability::of(changes.len());
    let staged: Vec<PathHandle> = changes.iter().flat_map(|change| change.staged(layout)).collect();
    let synced = durability.sync(&staged, []);
    fail_all(&mut changes, synced);
    for step in [Change::keep_base, Change::replace_target] {
        let changed = attempt(&mut changes, |change| step(change, layout));
        let synced = durability.sync([], &changed);
        fail_all(&mut changes, synced);
    }
    attempt(&mut changes, |change| change.record(layout).map(|()| Vec::new()));
    changes.into_iter().map(|change| conclude(change, layout)).collect()
}

/// Takes a step with all changes that have not failed; returns the places that they have changed.
fn attempt(changes: &mut [Change], step: impl Fn(&mut Change) -> Result<Vec<PathHandle>>) -> Vec<PathHandle> {
    let mut changed = Vec::new();
    for change in changes.iter_mut().filter(|change| change.failure.is_none()) {
        match step(change) {
            Ok(places) => changed.extend(places),
            Err(error) => change.failure = Some(error.to_string()),
        }
    }
    changed
}

/// A disk that cannot say that a step is done makes it wrong to take the next one, for every change of the group.
fn fail_all(changes: &mut [Change], synced: Result<()>) {
    if let Err(error) = synced {
        for change in changes.iter_mut().filter(|change| change.failure.is_none()) {
            change.failure = Some(error.to_string());
        }
    }
}

fn conclude(mut change: Change, layout: &Layout) -> Ended {
    let (place, failure) = (change.place, change.failure.take());
    let shares_base = (change.shares_base && change.keeps_base).then(|| change.path.clone());
    if failure.is_none() {
        return Ended { place, applied: change.into_outcome(), failure, shares_base };
    }
    let _ = layout.staged_base(&change.path).remove();
    // If the target has been replaced, the intent has to stay: the next apply sees by it what is to be recorded yet.
    if !change.target_replaced {
        change.remove_temporaries(layout);
    }
    change.scratch.iter().for_each(|place| drop(place.remove()));
    let may_have_changed = change.target_replaced || change.may_have_moved_stock;
    Ended { place, applied: if may_have_changed { FAILED } else { FAILED_UNCHANGED }, failure, shares_base }
}

/// Something went wrong with an entity. Version 3 of this plugin says so in words, not by its exit status.
pub(crate) const FAILED: Applied = Applied::Failed { version_3_status: 0, nothing_changed: false };

/// The same, and the target is what it was.
pub(crate) const FAILED_UNCHANGED: Applied = Applied::Failed { version_3_status: 0, nothing_changed: true };
