//! Taking over from an archive whose definition has a new ID: the new entity owns the files of the old one, and their
//! bases.

use super::Deployment;
use super::state::CurrentState;
use crate::error::ArchiveError;
use crate::removal::Removal;
use crate::store::ArchiveRecord;
use crate::store::PREFIX;
use holo_change::base_store::Remembered;
use holo_change::manifest::Manifest;
use holo_download::{CompleteDownload, Download, PART_SUFFIX};
use holo_plugin::Output;
use std::path::Path;

pub(super) fn warn_of_takeover(id: &str, orphan: &str, output: &mut Output<'_>) {
    output.warning(format!("{id} takes over from {orphan}"));
}

impl Deployment<'_> {
    /// Returns the current records of the orphans from which this archive takes over.
    fn predecessors(&self) -> Result<Vec<Remembered<ArchiveRecord>>, ArchiveError> {
        if self.store.inventory.orphans.is_empty() {
            return Ok(Vec::new());
        }
        let (path, tree) = (self.path()?, self.tree()?);
        let scanned = self.store.inventory.predecessors(Path::new(&path), tree.as_deref().map(Path::new));
        let mut all = Vec::new();
        for orphan in scanned {
            all.extend(self.store.memory.recall(&orphan.id)?);
        }
        Ok(all)
    }

    /// Takes over trees that orphans have extracted to our directory, and downloads at our path. Returns the IDs of the
    /// orphans.
    ///
    /// Bases remain in place, because they belong to paths and not to archives. Our own record is written first, then
    /// the manifest is renamed atomically, and the record of the orphan is written last. After a kill in between, the
    /// takeover is repeated.
    pub(super) fn take_over(&self, output: &mut Output<'_>) -> Result<Vec<String>, ArchiveError> {
        let predecessors = self.predecessors()?;
        if !predecessors.is_empty() {
            self.store.wait_for_turn(self.id);
        }
        let mut taken = Vec::new();
        for orphan in predecessors {
            let id = orphan.id.clone();
            if self.take_over_from(orphan)? {
                warn_of_takeover(self.id, &id, output);
                taken.push(id);
            }
        }
        Ok(taken)
    }

    /// Returns true if there was anything to take over.
    fn take_over_from(&self, mut orphan: Remembered<ArchiveRecord>) -> Result<bool, ArchiveError> {
        let remembered: Option<Remembered<ArchiveRecord>> = self.store.memory.recall(self.id)?;
        let mut record = remembered.map(|remembered| remembered.base).unwrap_or_default();
        let takes_download = self.take_download(&mut record, &orphan)?;
        let tree = self.tree_of(&orphan)?;
        if !takes_download && tree.is_none() {
            return Ok(false);
        }
        if let Some(tree) = &tree {
            record.trees.extend((!record.trees.contains(tree)).then(|| tree.clone()));
        }
        record.path = Some(self.path()?);
        record.untidy = true;
        // While the directories are locked, an archive that removes directories cannot miss the manifest between both
        // paths.
        let _locked = self.store.trees.lock_directories();
        self.store.keep(&Remembered::new(self.report, record.clone()))?;
        if let Some(tree) = &tree {
            self.take_manifest(&orphan.id, Path::new(tree))?;
            orphan.base.trees.retain(|own| own != tree);
        }
        if orphan.base.path == record.path {
            (orphan.base.download, orphan.base.incoming) = (None, None);
        }
        self.store.keep(&orphan)?;
        Ok(true)
    }

    fn take_manifest(&self, orphan: &str, tree: &Path) -> Result<(), ArchiveError> {
        let theirs = self.store.trees.manifest(orphan, tree);
        let ours = self.store.trees.manifest(self.id, tree);
        // Until the new version is known, other archives may create its paths too, because one archive may have been
        // split into several.
        let Some(mut manifest) = theirs.load()? else { return Ok(()) };
        manifest.leave_all();
        Ok(theirs.move_to(&ours, &manifest)?)
    }

    /// Copies the download of an orphan to a record, if it is at our path, or was removed from its own. Returns true if
    /// it is at our path.
    fn take_download(
        &self,
        record: &mut ArchiveRecord,
        orphan: &Remembered<ArchiveRecord>,
    ) -> Result<bool, ArchiveError> {
        let theirs = &orphan.base;
        if record.has_download() || !theirs.has_download() {
            return Ok(false);
        }
        let is_at_path = theirs.path.as_deref() == Some(&*self.path()?);
        // A user's file at our path becomes a base.
        if is_at_path || (self.tree_of(orphan)?.is_some() && self.location().stat()?.is_none()) {
            (record.download, record.incoming) = (theirs.download.clone(), theirs.incoming.clone());
            return Ok(is_at_path);
        }
        Ok(false)
    }

    /// Returns our directory, if an orphan has extracted files to it, and this archive has not.
    fn tree_of(&self, orphan: &Remembered<ArchiveRecord>) -> Result<Option<String>, ArchiveError> {
        let Some(tree) = self.tree()?.filter(|tree| orphan.base.trees.contains(tree)) else { return Ok(None) };
        let has_manifest = |id: &str| self.store.trees.manifest(id, Path::new(&tree)).exists();
        let is_to_be_taken = has_manifest(&orphan.id)? && !has_manifest(self.id)?;
        Ok(is_to_be_taken.then_some(tree))
    }

    /// Returns the manifest of an orphan that an apply would take over.
    pub(super) fn manifest_of_predecessor(&self, tree: &Path) -> Result<Option<Manifest>, ArchiveError> {
        for orphan in self.predecessors()? {
            if orphan.base.trees.iter().any(|own| Path::new(own) == tree)
                && let Some(manifest) = self.store.trees.manifest(&orphan.id, tree).load()?
            {
                return Ok(Some(manifest));
            }
        }
        Ok(None)
    }

    /// Copies the download of an orphan, if it is the desired one.
    pub(super) fn download_of_predecessor(
        &self,
        state: &CurrentState,
        output: &mut Output<'_>,
    ) -> Result<Option<CompleteDownload>, ArchiveError> {
        for orphan in self.store.inventory.orphans.values() {
            let Some(path) = orphan.base.path.as_deref().filter(|_| self.shares_tree(&orphan.base)) else { continue };
            let Some(recorded) = orphan.base.downloads().next() else { continue };
            let location = self.store.trees.root().place(Path::new(path));
            if location.open_if_file()?.is_none() {
                continue;
            }
            let digests = self.store.checksums.digests(&location, self.archive.checksum().as_ref())?;
            let is_desired = match self.archive.checksum() {
                Some(checksum) => digests.mismatch(&checksum).is_none(),
                // A local source is just as fast to read, and may have changed.
                None => recorded.source == self.source() && !self.is_local(),
            };
            if !is_desired || !orphan.base.knows(&digests.sha256) {
                continue;
            }
            let request = self.request(None, &[])?;
            let part = state.path.temporary(PART_SUFFIX);
            if let Ok(Download::Complete(mut complete)) =
                holo_download::copy(&request, Path::new(path), &part, self.host, output)
            {
                complete.validators = recorded.validators.clone();
                complete.copied_from = Some(path.to_owned());
                return Ok(Some(complete));
            }
        }
        Ok(None)
    }

    /// Returns true if an orphan was extracted to our directory.
    fn shares_tree(&self, theirs: &ArchiveRecord) -> bool {
        self.tree().ok().flatten().is_some_and(|tree| theirs.trees.contains(&tree))
    }

    /// Scrubs the remaining files of orphans from which this archive has taken over. Files with manual changes are left
    /// to the apply of the orphan.
    pub(super) fn scrub_rest(
        &self,
        orphans: &[String],
        changes: &mut Vec<String>,
        output: &mut Output<'_>,
    ) -> Result<(), ArchiveError> {
        for id in orphans {
            let Some(orphan): Option<Remembered<ArchiveRecord>> = self.store.memory.recall(id)? else { continue };
            let report = orphan.orphan_report();
            let path = id.strip_prefix(PREFIX).unwrap_or_default();
            match (Removal { store: self.store, id, path, report: &report }).scrub(false, output) {
                Ok(more) => changes.extend(more.into_iter().filter(|change| !change.starts_with("forgot "))),
                Err(ArchiveError::NeedsForce(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns descriptions of the takeovers at the start of an apply.
    pub(super) fn would_take_over(&self) -> Result<Vec<String>, ArchiveError> {
        let mut changes = Vec::new();
        for orphan in self.predecessors()? {
            let is_at_path = orphan.base.path.as_deref() == Some(&*self.path()?);
            if self.tree_of(&orphan)?.is_some() || (orphan.base.has_download() && is_at_path) {
                changes.push(format!("would take over from {}", orphan.id));
            }
        }
        Ok(changes)
    }
}
