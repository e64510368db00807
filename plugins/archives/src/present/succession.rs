//! An archive whose definition got another ID: the new one takes over what the old one has made, and what was there before that.

use super::Present;
use super::look::Situation;
use crate::absent::Removal;
use crate::download::{self, Download, PART_SUFFIX, Whole};
use crate::error::ArchiveError;
use crate::manifest::Manifest;
use crate::record::Record;
use holo_change::base_store::Remembered;
use holo_plugin::Output;
use std::path::Path;

/// Says that an archive takes something over.
pub(super) fn takes_over(id: &str, orphan: &str, output: &mut Output<'_>) {
    output.warning(format!("{id} takes over from {orphan}"));
}

impl Present<'_> {
    /// The orphans that this archive takes something over from, as they are now.
    fn predecessors(&self) -> Result<Vec<Remembered<Record>>, ArchiveError> {
        if self.store.scene.orphans.is_empty() {
            return Ok(Vec::new());
        }
        let (path, tree) = (self.path()?, self.tree()?);
        let known = self.store.scene.predecessors(Path::new(&path), tree.as_deref().map(Path::new));
        let mut all = Vec::new();
        for orphan in known {
            all.extend(self.store.memory.recall(&orphan.id)?);
        }
        Ok(all)
    }

    /// Makes what orphans have brought to our directory, or have downloaded to our path, our own. The orphans that are done with by that.
    ///
    /// What is kept of a path stays where it is: it is the path's, not the archive's. Our own record comes first, then the one manifest goes
    /// from one to the other in one step, and the orphan forgets last. Whoever is killed in between does it again.
    pub(super) fn take_over(&self, output: &mut Output<'_>) -> Result<Vec<String>, ArchiveError> {
        let predecessors = self.predecessors()?;
        if predecessors.is_empty() {
            return Ok(predecessors.into_iter().map(|orphan| orphan.id).collect());
        }
        self.store.shared.turns.wait(self.id);
        let mut taken = Vec::new();
        for mut orphan in predecessors {
            let remembered: Option<Remembered<Record>> = self.store.memory.recall(self.id)?;
            let mut record = remembered.map(|remembered| remembered.base).unwrap_or_default();
            let takes_download = self.take_download(&mut record, &orphan)?;
            let manifest = self.tree_of(&orphan)?;
            if let Some(tree) = &manifest {
                record.trees.extend((!record.trees.contains(tree)).then(|| tree.clone()));
            }
            if !takes_download && manifest.is_none() {
                continue;
            }
            record.path = Some(self.path()?);
            record.untidy = true;
            self.store.memory.keep(&Remembered::new(self.report, record.clone()))?;
            if let Some(tree) = &manifest {
                let theirs = self.store.manifest(&orphan.id, Path::new(tree));
                let ours = self.store.manifest(self.id, Path::new(tree));
                // Until we know what we bring of it, others may as well: of one archive, several may have been made.
                if let Some(mut manifest) = Manifest::load(&theirs)? {
                    manifest.leaving = manifest.made.keys().cloned().collect();
                    manifest.save(&theirs)?;
                }
                theirs.rename_to(&ours)?;
                holo_change::Durability::Each.sync([], [&ours])?;
                orphan.base.trees.retain(|own| own != tree);
            }
            if orphan.base.path == record.path {
                (orphan.base.download, orphan.base.incoming) = (None, None);
            }
            self.store.memory.keep(&orphan)?;
            takes_over(self.id, &orphan.id, output);
            taken.push(orphan.id);
        }
        Ok(taken)
    }

    /// Knows the download of an orphan as our own, if it is at our path or was removed from its own.
    fn take_download(&self, record: &mut Record, orphan: &Remembered<Record>) -> Result<bool, ArchiveError> {
        let theirs = &orphan.base;
        if record.fetched().next().is_some() || theirs.fetched().next().is_none() {
            return Ok(false);
        }
        let is_at_path = theirs.path.as_deref() == Some(&*self.path()?);
        // Not if a person has something there: that is to be kept.
        if is_at_path || (self.tree_of(orphan)?.is_some() && self.place().stat()?.is_none()) {
            (record.download, record.incoming) = (theirs.download.clone(), theirs.incoming.clone());
            return Ok(is_at_path);
        }
        Ok(false)
    }

    /// Our directory, if an orphan has extracted something to it and we have not.
    fn tree_of(&self, orphan: &Remembered<Record>) -> Result<Option<String>, ArchiveError> {
        let Some(tree) = self.tree()?.filter(|tree| orphan.base.trees.contains(tree)) else { return Ok(None) };
        let has_list = |id: &str| self.store.manifest(id, Path::new(&tree)).exists();
        let is_to_be_taken = has_list(&orphan.id)? && !has_list(self.id)?;
        Ok(is_to_be_taken.then_some(tree))
    }

    /// What an orphan has extracted to our directory, and is ours as soon as we are applied.
    pub(super) fn manifest_of_predecessor(&self, tree: &Path) -> Result<Option<Manifest>, ArchiveError> {
        for orphan in self.predecessors()? {
            if orphan.base.trees.iter().any(|own| Path::new(own) == tree)
                && let Some(manifest) = Manifest::load(&self.store.manifest(&orphan.id, tree))?
            {
                return Ok(Some(manifest));
            }
        }
        Ok(None)
    }

    /// A copy of what an orphan has downloaded, if that is what would be downloaded.
    pub(super) fn download_of_predecessor(
        &self,
        situation: &Situation<'_>,
        output: &mut Output<'_>,
    ) -> Result<Option<Whole>, ArchiveError> {
        for orphan in self.store.scene.orphans.values() {
            let Some(path) = orphan.base.path.as_deref().filter(|_| self.is_related(&orphan.base)) else { continue };
            let Some(fetched) = orphan.base.fetched().next() else { continue };
            let place = self.store.root.place(Path::new(path));
            if place.open_if_file()?.is_none() {
                continue;
            }
            let sums = self.store.known.sums(&place, self.archive.checksum().as_ref())?;
            let is_right = match self.archive.checksum() {
                Some(checksum) => sums.matches(&checksum).is_ok(),
                None => fetched.source == self.source(),
            };
            if !is_right || !orphan.base.knows(&sums.sha256) {
                continue;
            }
            let request = self.request(None, &[]).map_err(ArchiveError::Failed)?;
            let part = situation.place.temporary(PART_SUFFIX);
            if let Ok(Download::Whole(mut whole)) = download::copy(&request, Path::new(path), &part, self.host, output)
            {
                whole.validators = fetched.validators.clone();
                whole.copied_from = Some(path.to_owned());
                return Ok(Some(whole));
            }
        }
        Ok(None)
    }

    /// Whether an orphan was extracted to our directory.
    fn is_related(&self, theirs: &Record) -> bool {
        self.tree().ok().flatten().is_some_and(|tree| theirs.trees.contains(&tree))
    }

    /// Scrubs what is left of orphans that most was taken over from. What a person has changed is left to the orphan's own turn.
    pub(super) fn scrub_rest(
        &self,
        orphans: &[String],
        changes: &mut Vec<String>,
        output: &mut Output<'_>,
    ) -> Result<(), ArchiveError> {
        for id in orphans {
            let Some(orphan): Option<Remembered<Record>> = self.store.memory.recall(id)? else { continue };
            let report = orphan.orphan_report();
            let path = id.strip_prefix(crate::scene::PREFIX).unwrap_or_default();
            match (Removal { store: self.store, id, path, report: &report }).scrub(false, output) {
                Ok(more) => changes.extend(more.into_iter().filter(|change| !change.starts_with("forgot "))),
                Err(ArchiveError::NeedsForce(_)) => {}
                Err(stop) => return Err(stop),
            }
        }
        Ok(())
    }

    /// In words, from whom something would be taken over.
    pub(super) fn would_take_over(&self) -> Result<Vec<String>, ArchiveError> {
        let mut changes = Vec::new();
        for orphan in self.predecessors()? {
            let has_download = orphan.base.fetched().next().is_some();
            if self.tree_of(&orphan)?.is_some() || (has_download && orphan.base.path.as_deref() == Some(&*self.path()?))
            {
                changes.push(format!("would take over from {}", orphan.id));
            }
        }
        Ok(changes)
    }
}
