//! The current state of an archive.

use super::Deployment;
use crate::error::ArchiveError;
use crate::store::{ArchiveRecord, DownloadRecord};
use holo_change::base_store::Remembered;
use holo_change::error::PathError;
use holo_change::tree_store::{Drift, OwnedTree};
use holo_change::{FileStat, Kind, PathHandle};
use holo_download::Digests;
use std::fs::File;
use std::path::Path;

pub(super) struct CurrentState {
    /// True if the path of `creates` exists, so that no work is needed. The other fields are not set then.
    pub(super) is_created: bool,
    pub(super) path: PathHandle,
    pub(super) current: Option<CurrentFile>,
    pub(super) download: DownloadState,
    pub(super) record: ArchiveRecord,
    /// The record on disk.
    pub(super) stored: Option<ArchiveRecord>,
    pub(super) extracted: Option<OwnedTree>,
    pub(super) drift: Drift,
}

/// The file at the path of the download.
pub(super) struct CurrentFile {
    pub(super) file: File,
    pub(super) digests: Digests,
    pub(super) stat: FileStat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DownloadState {
    /// The desired download exists.
    Present,
    /// It was removed after its extraction.
    CleanedUp,
    /// It must be downloaded, and no manual changes are lost.
    Missing,
    /// It must be downloaded, and a user has changed the existing file.
    Modified,
}

impl CurrentState {
    /// Returns the record of the existing download.
    pub(super) fn recorded(&self) -> Option<&DownloadRecord> {
        match &self.current {
            Some(current) if self.download == DownloadState::Present => {
                self.record.downloads().find(|recorded| recorded.sha256 == current.digests.sha256)
            }
            _ => self.record.downloads().next(),
        }
    }
}

impl Deployment<'_> {
    pub(super) fn inspect(&self) -> Result<CurrentState, ArchiveError> {
        let remembered: Option<Remembered<ArchiveRecord>> = self.store.memory.recall(self.id)?;
        let stored = remembered.map(|remembered| remembered.base);
        let mut record = stored.clone().unwrap_or_default();
        record.keep.clone_from(&self.archive.keep);
        let tree = self.tree()?;
        let mut extracted =
            tree.as_deref().map(|tree| OwnedTree::open(&self.store.trees, self.id, Path::new(tree))).transpose()?;
        if let (Some(extracted), Some(tree)) = (&mut extracted, &tree)
            && extracted.manifest().is_none()
        {
            extracted.set_manifest(self.manifest_of_predecessor(Path::new(tree))?);
        }
        let mut state = CurrentState {
            is_created: false,
            path: self.location(),
            current: None,
            download: DownloadState::Missing,
            record,
            stored,
            extracted,
            drift: Drift::default(),
        };
        state.is_created = self.is_created(&state)?;
        if state.is_created {
            return Ok(state);
        }
        state.path.check_way()?;
        if let Some(directory) = &self.archive.extract_to {
            self.store.trees.root().place(Path::new(directory)).check_way()?;
        }
        if let Some(extracted) = &mut state.extracted {
            state.drift = extracted.drift()?;
            state.record.leave_kept(extracted, &mut state.drift);
        }
        let stat = state.path.stat()?;
        if stat.is_some_and(|stat| !matches!(stat.kind, Kind::File | Kind::Symlink)) {
            return Err(ArchiveError::NotManageable(state.path.shown()));
        }
        if let Some(stat) = stat.filter(|stat| stat.kind == Kind::File) {
            state.current = Some(self.read(&state.path, stat)?);
        }
        state.download = self.download_state(&state, stat.is_some())?;
        Ok(state)
    }

    /// Returns true if the path of `creates` exists, and no killed apply must be completed.
    fn is_created(&self, state: &CurrentState) -> Result<bool, PathError> {
        let Some(path) = &self.archive.creates else { return Ok(false) };
        let is_unfinished = state.extracted.as_ref().is_some_and(OwnedTree::is_unfinished);
        Ok(!is_unfinished
            && state.record.incoming.is_none()
            && self.store.trees.root().place(Path::new(path)).stat()?.is_some())
    }

    fn read(&self, path: &PathHandle, stat: FileStat) -> Result<CurrentFile, ArchiveError> {
        let digests = self.store.checksums.digests(path, self.archive.checksum().as_ref())?;
        let file = path.open()?;
        Ok(CurrentFile { file, digests, stat })
    }

    fn download_state(&self, state: &CurrentState, exists: bool) -> Result<DownloadState, ArchiveError> {
        let checksum = self.archive.checksum();
        let source = self.source();
        let signer = self.signer().map(|signer| signer.identity());
        let is_signed = |recorded: &DownloadRecord| signer.is_none() || recorded.signed_by == signer;
        let is_desired = |recorded: &DownloadRecord| {
            is_signed(recorded)
                && match &checksum {
                    Some(checksum) => recorded.checksum.as_deref() == Some(&*checksum.to_string()),
                    None => recorded.source == source,
                }
        };
        let record = &state.record;
        let is_known = |sha256: &str, is: &dyn Fn(&DownloadRecord) -> bool| {
            record.downloads().any(|recorded| recorded.sha256 == sha256 && is(recorded))
        };
        if let Some(current) = &state.current {
            let digests = &current.digests;
            let is_present = match &checksum {
                Some(checksum) => {
                    digests.mismatch(checksum).is_none() && (signer.is_none() || is_known(&digests.sha256, &is_signed))
                }
                None => is_known(&digests.sha256, &is_desired),
            };
            if is_present {
                return Ok(DownloadState::Present);
            }
        }
        if self.archive.cleanup
            && let Some(recorded) = record.downloads().find(|recorded| is_desired(recorded))
            && self.is_extracted(state, recorded)
        {
            return Ok(DownloadState::CleanedUp);
        }
        let is_ours = state.current.as_ref().is_some_and(|current| record.knows(&current.digests.sha256));
        if !exists || is_ours || !record.has_download() {
            return Ok(DownloadState::Missing);
        }
        // The base may be in place again, if an apply was killed or a user has restored it.
        let is_base = self.store.trees.bases().is_base(Path::new(&self.path()?), &state.path)?;
        Ok(if is_base { DownloadState::Missing } else { DownloadState::Modified })
    }

    /// Returns true if a download was extracted, and its files are unchanged.
    fn is_extracted(&self, state: &CurrentState, recorded: &DownloadRecord) -> bool {
        let Some(manifest) = state.extracted.as_ref().and_then(OwnedTree::manifest) else {
            return false;
        };
        !manifest.unfinished
            && state.drift == Drift::default()
            && self.recipe(&recorded.sha256).is_ok_and(|recipe| recipe == manifest.recipe)
    }
}
