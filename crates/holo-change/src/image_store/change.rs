//! The steps of a change of one target whose base, intent and record are images.

use super::{BASE, ImageStore, PROVISIONED};
use crate::error::{PathError, Result};
use crate::group::{Results, Step, Store, Unsynced, take_concurrently};
use crate::image::{Image, Meanwhile, Stamp, Unmanageable};
use crate::path_handle::{Durability, PathHandle, TEMPORARY};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A change of a target, which is staged in parts and then [committed](crate::group::commit).
///
/// Afterwards, a base that was the target's own file must be [separated](ImageStore::separate_open_bases) from it if a
/// process may still write to it.
#[derive(Debug)]
pub struct ImageChange {
    path: PathBuf,
    /// True if a new base is staged.
    keeps_base: bool,
    /// True if the base is a hard link to the target.
    shares_base: bool,
    /// The base, if this change has linked it to the target, and the directories that were created for it.
    linked: Vec<PathHandle>,
    /// True if the base is moved to the path of the target.
    moves_base: bool,
    /// True if this change adds or removes a link of the target's file.
    is_renamed: bool,
    /// True if a new file is written next to the target.
    writes_target: bool,
    /// The image of that file, while it is not written.
    unwritten: Option<Image>,
    /// The stamp of the target, if it may only be replaced while it is unchanged.
    found: Option<Stamp>,
    recording: Recording,
    /// The files to be removed at the end of the change.
    leftovers: Vec<PathHandle>,
    is_target_replaced: bool,
    refused: Option<Meanwhile>,
}

/// The image to be recorded for the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recording {
    /// The recorded one is kept.
    Same,
    /// The new one is recorded.
    New,
    /// Both images are removed.
    Nothing,
}

impl ImageChange {
    /// Creates an empty change of the target with this path.
    #[must_use]
    pub fn new(path: &Path) -> ImageChange {
        ImageChange {
            path: path.to_owned(),
            keeps_base: false,
            shares_base: false,
            linked: Vec::new(),
            moves_base: false,
            is_renamed: false,
            writes_target: false,
            unwritten: None,
            found: None,
            recording: Recording::Same,
            leftovers: Vec::new(),
            is_target_replaced: false,
            refused: None,
        }
    }

    /// Returns true if there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.keeps_base
            && !self.shares_base
            && !self.writes_target
            && self.recording == Recording::Same
            && self.leftovers.is_empty()
    }

    /// Returns true if the target was replaced.
    #[must_use]
    pub fn is_target_replaced(&self) -> bool {
        self.is_target_replaced
    }

    /// Returns the concurrent change because of which the target was not replaced.
    #[must_use]
    pub fn refused(&self) -> Option<Meanwhile> {
        self.refused
    }

    /// Returns the path of the target if its file is now its base.
    #[must_use]
    pub fn shared_base(&self) -> Option<&Path> {
        self.shares_base.then_some(&*self.path)
    }

    /// Stages an image as the new base.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn stage_base(&mut self, image: &Image, store: &ImageStore) -> Result<()> {
        store.create_staging_folder()?;
        image.write_to(&store.staged_base(&self.path))?;
        (self.keeps_base, self.shares_base) = (true, false);
        Ok(())
    }

    /// Stages the original target as its base. If the target is going to be replaced, no copy is needed: its file
    /// immediately becomes the base through a hard link. [`ImageChange::copy_shared_base`] must be called when it is
    /// known whether the target is replaced.
    ///
    /// # Errors
    /// If the base cannot be written.
    pub fn stage_found_base(&mut self, found: &Image, stamp: &Stamp, store: &ImageStore) -> Result<()> {
        let (target, base) = (store.target(&self.path), store.base(&self.path));
        // The only other link may be a base that is being replaced.
        self.is_renamed = stamp.names() > 1;
        // Another link or an open descriptor could be used to write to it later.
        if stamp.is_ours_alone(1) {
            // The staging directory shows that a killed apply may have left such a base.
            store.create_staging_folder()?;
            if let Ok(((), made)) = base.in_folder(|| target.link_to(&base)) {
                (self.shares_base, self.is_renamed) = (true, true);
                self.linked.extend(made);
                self.linked.push(base);
                return Ok(());
            }
        }
        self.stage_base(found, store)
    }

    /// Replaces a base that is a link to the target with a copy, unless the target is replaced: editing the target
    /// would also change its base.
    ///
    /// # Errors
    /// If the copy cannot be written.
    pub fn copy_shared_base(&mut self, store: &ImageStore) -> Result<()> {
        if !self.shares_base || self.writes_target {
            return Ok(());
        }
        let target = store.target(&self.path);
        if !target.is_same_file(&store.base(&self.path))? {
            // The target was replaced by another process.
            return Ok(());
        }
        self.shares_base = false;
        let Ok(Some(found)) = Image::load(&target) else { return Ok(()) };
        let copied = found.write_to(&store.staged_base(&self.path));
        self.keeps_base = copied.is_ok();
        copied
    }

    /// Stages an image of the current target to be recorded as provisioned.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn stage_provisioned(&mut self, image: &Image, store: &ImageStore) -> Result<()> {
        store.create_staging_folder()?;
        image.write_to(&store.intent(&self.path))?;
        self.recording = Recording::New;
        Ok(())
    }

    /// Stages an image of the new target to be recorded as provisioned, and writes the new content next to the target.
    /// The intent is written first, so that the new content is known to be ours.
    ///
    /// # Errors
    /// If one of them cannot be written.
    pub fn stage_target(&mut self, image: &Image, store: &ImageStore) -> Result<()> {
        store.create_staging_folder()?;
        let (target, intent) = (store.target(&self.path), store.intent(&self.path));
        let temporary = target.temporary(TEMPORARY);
        if self.keeps_base {
            // Until the base is in place, nobody would find the file next to the target after a kill.
            image.write_to(&intent)?;
            self.unwritten = Some(image.clone());
        } else {
            // The directory may have been deleted together with the target.
            target.in_folder(|| image.write_to_all(&[&intent, &temporary]))?;
        }
        (self.writes_target, self.recording) = (true, Recording::New);
        Ok(())
    }

    /// Replaces the target only if it still has this stamp.
    pub fn replaces_only(&mut self, found: Option<Stamp>) {
        self.found = found;
    }

    /// Removes a file at the end of the change.
    pub fn removes(&mut self, leftover: PathHandle) {
        self.leftovers.push(leftover);
    }

    /// Restores the base by moving it to the path of the target, without a copy. Returns false if that is impossible.
    ///
    /// The record of the target is removed afterwards. A record without a base is therefore the result of a kill during
    /// this operation.
    ///
    /// # Errors
    /// If the directory of the intent cannot be created.
    pub fn restore_base(&mut self, base: &Stamp, target: &Stamp, store: &ImageStore) -> Result<bool> {
        // Another process could write to it through another link.
        let can_be = base.is_on_device_of(target) && base.names() == 1 && !store.bases_are_elsewhere();
        if can_be {
            store.create_staging_folder()?;
            self.moves_base = true;
            self.forget_target();
        }
        Ok(can_be)
    }

    /// Removes the images of the target at the end of the change.
    pub fn forget_target(&mut self) {
        self.recording = Recording::Nothing;
    }

    /// Gives up the target before it was modified. A staged base is kept nevertheless.
    pub fn abandon_target(&mut self, store: &ImageStore) {
        self.remove_temporaries(store);
        self.unwritten = None;
        (self.writes_target, self.moves_base, self.recording) = (false, false, Recording::Same);
    }

    /// Keeps the files that were to be removed.
    pub fn keep_leftovers(&mut self) {
        self.leftovers.clear();
    }

    /// Returns the change of the target by another process since it was examined, if that is relevant.
    ///
    /// # Errors
    /// If the target cannot be examined.
    pub fn meanwhile(&self, target: &PathHandle) -> Result<Option<Meanwhile>> {
        let Some(found) = &self.found else { return Ok(None) };
        Stamp::meanwhile(Some(found), target, self.is_renamed)
    }

    fn remove_temporaries(&self, store: &ImageStore) {
        // The next apply finds files that cannot be removed.
        let _ = store.target(&self.path).temporary(TEMPORARY).remove();
        let _ = store.intent(&self.path).remove();
    }
}

impl Store for ImageStore {
    type Change = ImageChange;
    type Error = PathError;

    fn reopen(&self) -> Result<ImageStore> {
        Ok(ImageStore { root: self.root.reopen()?, state: self.state.reopen()?, ..self.clone() })
    }

    fn forget_directories(&self) {
        self.root.forget();
        self.state.forget();
    }

    /// The files were written when the change was created, and must be on disk now.
    fn stage(&self, change: &mut ImageChange) -> Result<Unsynced> {
        let mut files = Vec::new();
        if change.keeps_base {
            files.push(self.staged_base(&change.path));
        }
        if change.writes_target && change.unwritten.is_none() {
            files.push(self.target(&change.path).temporary(TEMPORARY));
        }
        if change.writes_target || change.recording == Recording::New {
            files.push(self.intent(&change.path));
        }
        Ok(Unsynced { files, names: change.linked.clone() })
    }

    /// From this step on, a stock file may be overwritten.
    fn keep(&self, change: &mut ImageChange) -> Result<Unsynced> {
        let (mut files, mut names) = (Vec::new(), Vec::new());
        if change.keeps_base {
            let base = self.base(&change.path);
            names.extend(base.create_folder()?);
            self.staged_base(&change.path).rename_to(&base)?;
            names.push(base);
        }
        if let Some(image) = change.unwritten.take() {
            let (target, intent) = (self.target(&change.path), self.intent(&change.path));
            let temporary = target.temporary(TEMPORARY);
            // The resource file may have changed since, and the state directory may not support all attributes.
            let Ok(Some(Image { content, .. })) = Image::load(&intent) else {
                return Err(PathError::new("read", intent.shown(), io::Error::from(ErrorKind::NotFound)));
            };
            let image = Image { content, ..image };
            target.in_folder(|| image.write_to(&temporary))?;
            files.push(temporary);
        }
        if change.writes_target {
            names.push(self.intent(&change.path));
        }
        if change.moves_base {
            names.extend(self.unsynced_staging());
        }
        Ok(Unsynced { files, names })
    }

    fn replace(&self, change: &mut ImageChange) -> Result<Unsynced> {
        if change.moves_base {
            return self.move_base_back(change);
        }
        if !change.writes_target {
            return Ok(Unsynced::default());
        }
        let target = self.target(&change.path);
        change.refused = change.meanwhile(&target)?;
        if change.refused.is_some() {
            change.abandon_target(self);
            if std::mem::take(&mut change.shares_base) {
                self.copy_base(&change.path)?;
            }
            return Ok(Unsynced::default());
        }
        target.temporary(TEMPORARY).rename_to(&target)?;
        change.is_target_replaced = true;
        Ok(Unsynced { files: Vec::new(), names: vec![target] })
    }

    /// While the staging directory exists, incomplete records are detected. Therefore this step must be on disk before
    /// the directory is removed.
    fn record(&self, change: &mut ImageChange) -> Result<Unsynced> {
        let intent = self.intent(&change.path);
        let provisioned = self.provisioned(&change.path);
        for leftover in &change.leftovers {
            leftover.remove()?;
        }
        match change.recording {
            Recording::Same => {}
            Recording::New => {
                provisioned.create_folder()?;
                intent.rename_to(&provisioned)?;
            }
            Recording::Nothing => provisioned.remove()?,
        }
        if change.writes_target && change.recording != Recording::New {
            intent.remove()?;
        }
        let names = if change.recording == Recording::Same { Vec::new() } else { vec![provisioned] };
        Ok(Unsynced { files: Vec::new(), names })
    }

    /// The base is removed last: as long as it exists, so does the entity, and the next apply completes what a crash
    /// has interrupted.
    fn confirm(&self, change: &mut ImageChange) -> Result<Unsynced> {
        if change.recording == Recording::Nothing && !change.moves_base {
            self.base(&change.path).remove()?;
        }
        Ok(Unsynced::default())
    }

    /// Removes image directories that are empty now.
    fn end(&self, changes: &mut [ImageChange]) -> Result<()> {
        let forgotten = changes.iter().filter(|change| change.recording == Recording::Nothing);
        let folders: BTreeSet<&Path> = forgotten.filter_map(|change| change.path.parent()).collect();
        for folder in folders.into_iter().rev() {
            let inside = folder.join("x");
            self.provisioned(&inside).remove_empty_folders(Path::new(PROVISIONED));
            self.base(&inside).remove_empty_folders(Path::new(BASE));
        }
        Ok(())
    }

    fn take(&self, step: Step<ImageStore>, changes: &mut [ImageChange], results: &mut Results<ImageStore>) -> Unsynced {
        let are_freed = changes.iter().any(|change| change.recording == Recording::Nothing);
        take_concurrently(self, step.threads(self.threads, are_freed), step, changes, results)
    }

    fn abandon(&self, change: &mut ImageChange, _: &PathError) {
        let _ = self.staged_base(&change.path).remove();
        if change.moves_base {
            if change.is_target_replaced {
                // The next apply finds it as an intent that does not match.
                let _ = self.provisioned(&change.path).rename_to(&self.intent(&change.path));
            }
            return;
        }
        if change.shares_base && !change.is_target_replaced {
            self.unlink_shared_base(change);
        }
        // If the target was replaced, the intent must be kept: it shows the next apply which image to record.
        if !change.is_target_replaced {
            change.remove_temporaries(self);
        }
    }
}

impl ImageStore {
    /// Removes a base that is only a link to the target. The next apply finds the target in its original state.
    fn unlink_shared_base(&self, change: &mut ImageChange) {
        let base = self.base(&change.path);
        if self.target(&change.path).is_same_file(&base).unwrap_or(false) {
            change.shares_base = false;
            let _ = base.remove();
            base.remove_empty_folders(Path::new(BASE));
        }
    }

    /// Moves a base to the path of its target.
    fn move_base_back(&self, change: &mut ImageChange) -> Result<Unsynced> {
        let (target, base) = (self.target(&change.path), self.base(&change.path));
        match base.rename_over(&target) {
            Err(error) if error.error.kind() == ErrorKind::CrossesDevices => self.copy_base_back(change)?,
            moved => moved?,
        }
        change.is_target_replaced = true;
        Ok(Unsynced { files: Vec::new(), names: vec![target, base] })
    }

    /// Replaces the target with a copy of its base, because they are in two mounts of one file system. This happens
    /// only once, as it is remembered, so it need not be grouped with other changes.
    fn copy_base_back(&self, change: &mut ImageChange) -> Result<()> {
        self.note_bases_are_elsewhere();
        let (target, intent, base) = (self.target(&change.path), self.intent(&change.path), self.base(&change.path));
        change.moves_base = false;
        let image = Image::load(&base).map_err(|error| match error {
            Unmanageable::Path(error) => error,
            Unmanageable::WrongType => PathError::missing("open", base.shown()),
        })?;
        change.stage_target(&image.ok_or_else(|| PathError::missing("open", base.shown()))?, self)?;
        change.forget_target();
        let temporary = target.temporary(TEMPORARY);
        Durability::Each.sync([&temporary, &intent], [&intent])?;
        temporary.rename_to(&target)
    }
}
