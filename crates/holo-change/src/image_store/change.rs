//! The steps of a change of one target, with images as its base, its intent and its record.

use super::{BASE, ImageStore, PROVISIONED};
use crate::error::{PathError, Result};
use crate::group::{Store, Unsynced};
use crate::image::{Image, Meanwhile, Stamp};
use crate::path_handle::{PathHandle, TEMPORARY};
use std::path::{Path, PathBuf};

/// The bits of a mode by which others than the owner may write.
const OTHERS_WRITE: u32 = 0o022;

/// A change that is to be made of a target: staged piece by piece, and then [committed](crate::group::commit).
///
/// In the end, a base that was the target's own file has to be [separated](ImageStore::separate_open_bases) from it if some process could
/// still write to it.
#[derive(Debug)]
pub struct ImageChange {
    path: PathBuf,
    keeps_base: bool,
    /// True if the staged base is the target itself, by another name.
    shares_base: bool,
    /// True if the target's own file gets, or loses, another name by us.
    is_renamed: bool,
    writes_target: bool,
    /// The target as it was found, if only that may be replaced.
    found: Option<Stamp>,
    recording: Recording,
    /// The files that go when the change is done.
    leftovers: Vec<PathHandle>,
    is_target_replaced: bool,
    refused: Option<Meanwhile>,
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

impl ImageChange {
    /// Creates a change of the target with this path, in which there is nothing yet.
    #[must_use]
    pub fn new(path: &Path) -> ImageChange {
        ImageChange {
            path: path.to_owned(),
            keeps_base: false,
            shares_base: false,
            is_renamed: false,
            writes_target: false,
            found: None,
            recording: Recording::Same,
            leftovers: Vec::new(),
            is_target_replaced: false,
            refused: None,
        }
    }

    /// Returns true if there is nothing to be done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.keeps_base && !self.writes_target && self.recording == Recording::Same && self.leftovers.is_empty()
    }

    /// Returns true if the target has been replaced.
    #[must_use]
    pub fn is_target_replaced(&self) -> bool {
        self.is_target_replaced
    }

    /// Returns what somebody has done to the target meanwhile, so that it was not replaced.
    #[must_use]
    pub fn refused(&self) -> Option<Meanwhile> {
        self.refused
    }

    /// Returns the path of the target if its own file is its base now.
    #[must_use]
    pub fn shared_base(&self) -> Option<&Path> {
        (self.shares_base && self.keeps_base).then_some(&*self.path)
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

    /// Stages the target, as it was found, as its base. One that is going to be replaced needs no copy: its own file becomes the base.
    /// [`ImageChange::copy_shared_base`] has to be called when it is known what becomes of the target.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn stage_found_base(&mut self, found: &Image, stamp: &Stamp, store: &ImageStore) -> Result<()> {
        let (target, staged) = (store.target(&self.path), store.staged_base(&self.path));
        // The only other name may be that of a base that is replaced now.
        self.is_renamed = stamp.names() > 1;
        // By another name, or an open descriptor, it could be written to later.
        let is_ours_alone = found.is_trusted() && found.mode & OTHERS_WRITE == 0 && stamp.names() == 1;
        if is_ours_alone && !found.is_symlink() {
            store.create_staging_folder()?;
            // A file that a killed apply has left there is in the way.
            let linked = target.link_to(&staged).or_else(|_| staged.remove().and_then(|()| target.link_to(&staged)));
            if linked.is_ok() {
                (self.keeps_base, self.shares_base, self.is_renamed) = (true, true, true);
                return Ok(());
            }
        }
        self.stage_base(found, store)
    }

    /// Makes a copy of a base that is the target itself, unless the target is replaced: an edit of it would be one of its base.
    ///
    /// # Errors
    /// If the copy cannot be written.
    pub fn copy_shared_base(&mut self, store: &ImageStore) -> Result<()> {
        if !self.shares_base || self.writes_target {
            return Ok(());
        }
        let (target, staged) = (store.target(&self.path), store.staged_base(&self.path));
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
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn stage_provisioned(&mut self, image: &Image, store: &ImageStore) -> Result<()> {
        store.create_staging_folder()?;
        image.write_to(&store.intent(&self.path))?;
        self.recording = Recording::New;
        Ok(())
    }

    /// Stages an image of the target as it is going to be, to be recorded as provisioned, and writes the new content beside the target; the
    /// intent comes first, so that this is known to be ours.
    ///
    /// # Errors
    /// If one of them cannot be written.
    pub fn stage_target(&mut self, image: &Image, store: &ImageStore) -> Result<()> {
        store.create_staging_folder()?;
        let target = store.target(&self.path);
        // The folder may have been deleted together with the target.
        target.create_folder()?;
        image.write_to_all(&[&store.intent(&self.path), &target.temporary(TEMPORARY)])?;
        (self.writes_target, self.recording) = (true, Recording::New);
        Ok(())
    }

    /// Replaces the target only if it is still as it was found.
    pub fn replaces_only(&mut self, found: Option<Stamp>) {
        self.found = found;
    }

    /// Has a file removed when the change is done.
    pub fn removes(&mut self, leftover: PathHandle) {
        self.leftovers.push(leftover);
    }

    /// Forgets the target: its images go in the end.
    pub fn forget_target(&mut self) {
        self.recording = Recording::Nothing;
    }

    /// Gives up on the target before anything was done to it. A base that was staged is kept all the same.
    pub fn abandon_target(&mut self, store: &ImageStore) {
        self.remove_temporaries(store);
        (self.writes_target, self.recording) = (false, Recording::Same);
    }

    /// Keeps the files that were to be removed.
    pub fn keep_leftovers(&mut self) {
        self.leftovers.clear();
    }

    /// Returns what somebody has done to the target since it was looked at, if that matters.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub fn meanwhile(&self, target: &PathHandle) -> Result<Option<Meanwhile>> {
        let Some(found) = &self.found else { return Ok(None) };
        Stamp::meanwhile(Some(found), target, self.is_renamed)
    }

    fn remove_temporaries(&self, store: &ImageStore) {
        // Files that cannot be removed are found by the next apply.
        let _ = store.target(&self.path).temporary(TEMPORARY).remove();
        let _ = store.intent(&self.path).remove();
    }
}

impl Store for ImageStore {
    type Change = ImageChange;
    type Error = PathError;

    fn reopen(&self) -> Result<ImageStore> {
        Ok(ImageStore { root: self.root.reopen()?, state: self.state.reopen()? })
    }

    fn forget_directories(&self) {
        self.root.forget();
        self.state.forget();
    }

    /// It was staged when the change was put together, and has to be on disk now.
    fn stage(&self, change: &mut ImageChange) -> Result<Unsynced> {
        let mut files = Vec::new();
        if change.keeps_base {
            files.push(self.staged_base(&change.path));
        }
        if change.writes_target {
            files.push(self.target(&change.path).temporary(TEMPORARY));
        }
        if change.writes_target || change.recording == Recording::New {
            files.push(self.intent(&change.path));
        }
        Ok(Unsynced { files, names: Vec::new() })
    }

    /// From here on a stock file may be overwritten.
    fn keep(&self, change: &mut ImageChange) -> Result<Unsynced> {
        let mut names = Vec::new();
        if change.keeps_base {
            let base = self.base(&change.path);
            names.extend(base.create_folder()?);
            self.staged_base(&change.path).rename_to(&base)?;
            names.push(base);
        }
        if change.writes_target {
            names.push(self.intent(&change.path));
        }
        Ok(Unsynced { files: Vec::new(), names })
    }

    fn replace(&self, change: &mut ImageChange) -> Result<Unsynced> {
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

    /// What is lost of this in a crash is found by the intent.
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
            Recording::Nothing => {
                provisioned.remove()?;
                provisioned.remove_empty_folders(Path::new(PROVISIONED));
            }
        }
        if change.writes_target && change.recording != Recording::New {
            intent.remove()?;
        }
        if change.recording == Recording::Nothing {
            // The base comes last: as long as it is there, the entity is, and what a crash leaves undone is found.
            let base = self.base(&change.path);
            base.remove()?;
            base.remove_empty_folders(Path::new(BASE));
        }
        Ok(Unsynced::default())
    }

    fn abandon(&self, change: &mut ImageChange, _: &PathError) {
        let _ = self.staged_base(&change.path).remove();
        // If the target has been replaced, the intent has to stay: the next apply sees by it what is to be recorded yet.
        if !change.is_target_replaced {
            change.remove_temporaries(self);
        }
    }
}
