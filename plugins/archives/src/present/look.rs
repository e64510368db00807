//! What there is, and what has to be done.

use super::Present;
use crate::checksum::Sums;
use crate::error::ArchiveError;
use crate::record::{Fetched, Record, is_kept};
use crate::tree::{Drift, Site};
use holo_change::base_store::Remembered;
use holo_change::error::PathError;
use holo_change::{FileStat, Kind, PathHandle};
use std::fs::File;
use std::path::Path;

/// What there is.
pub(super) struct Situation<'a> {
    /// Whether the path exists that says that there is nothing to do.
    pub(super) is_created: bool,
    pub(super) place: PathHandle,
    pub(super) current: Option<Current>,
    pub(super) wanted: Wanted,
    pub(super) record: Record,
    /// The record as it is on disk.
    pub(super) stored: Option<Record>,
    pub(super) site: Option<Site<'a>>,
    pub(super) drift: Drift,
}

/// The file at the path.
pub(super) struct Current {
    pub(super) file: File,
    pub(super) sums: Sums,
    pub(super) looks: FileStat,
}

/// What has to be done about the download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The right one is there.
    There,
    /// It was there, was extracted, and removed.
    CleanedUp,
    /// It has to be downloaded, and nobody's work is lost.
    Download,
    /// It has to be downloaded, and somebody has changed what is there.
    Changed,
}

impl Situation<'_> {
    /// What is known of the download that is there.
    pub(super) fn ours(&self) -> Option<&Fetched> {
        match &self.current {
            Some(current) if self.wanted == Wanted::There => {
                self.record.fetched().find(|fetched| fetched.sha256 == current.sums.sha256)
            }
            _ => self.record.fetched().next(),
        }
    }
}

impl<'a> Present<'a> {
    pub(super) fn look(&self) -> Result<Situation<'a>, ArchiveError> {
        let remembered: Option<Remembered<Record>> = self.store.memory.recall(self.id)?;
        let stored = remembered.map(|remembered| remembered.base);
        let record = stored.clone().unwrap_or_default();
        let directory = self.archive.extract_to.as_deref();
        let tree = self.tree()?;
        let mut site = tree.as_deref().map(|tree| Site::open(self.store, self.id, Path::new(tree))).transpose()?;
        if let (Some(site), Some(tree)) = (&mut site, &tree)
            && site.manifest.is_none()
        {
            site.manifest = self.manifest_of_predecessor(Path::new(tree))?;
        }
        let mut situation = Situation {
            is_created: false,
            place: self.place(),
            current: None,
            wanted: Wanted::Download,
            record,
            stored,
            site,
            drift: Drift::default(),
        };
        situation.is_created = self.is_created(&situation)?;
        if situation.is_created {
            return Ok(situation);
        }
        situation.place.check_way()?;
        if let Some(directory) = directory {
            self.store.root.place(Path::new(directory)).check_way()?;
        }
        if let Some(site) = &situation.site {
            situation.drift = site.drift()?;
        }
        let looks = situation.place.stat()?;
        if looks.is_some_and(|looks| !matches!(looks.kind, Kind::File | Kind::Symlink)) {
            return Err(ArchiveError::Failed(format!(
                "{} is not a manageable file",
                situation.place.shown().display()
            )));
        }
        if let Some(looks) = looks.filter(|looks| looks.kind == Kind::File) {
            situation.current = Some(self.read(&situation.place, looks)?);
        }
        situation.wanted = self.judge(&situation, looks.is_some())?;
        Ok(situation)
    }

    /// Whether there is nothing to do, as the definition says. What a killed apply has begun is brought to its end nevertheless.
    fn is_created(&self, situation: &Situation<'_>) -> Result<bool, PathError> {
        let Some(path) = &self.archive.creates else { return Ok(false) };
        let is_unfinished = situation.site.as_ref().is_some_and(Site::is_unfinished);
        Ok(!is_unfinished
            && situation.record.incoming.is_none()
            && self.store.root.place(Path::new(path)).stat()?.is_some())
    }

    fn read(&self, place: &PathHandle, looks: FileStat) -> Result<Current, ArchiveError> {
        let sums = self.store.known.sums(place, self.archive.checksum().as_ref())?;
        let file = place.open()?;
        Ok(Current { file, sums, looks })
    }

    fn judge(&self, situation: &Situation<'_>, exists: bool) -> Result<Wanted, ArchiveError> {
        let checksum = self.archive.checksum();
        let source = self.source();
        let is_right = |fetched: &Fetched| match &checksum {
            Some(checksum) => fetched.checksum.as_deref() == Some(&*checksum.to_string()),
            None => fetched.source == source,
        };
        let record = &situation.record;
        if let Some(current) = &situation.current {
            let sums = &current.sums;
            let is_there = match &checksum {
                Some(checksum) => sums.matches(checksum).is_ok(),
                None => record.fetched().any(|fetched| fetched.sha256 == sums.sha256 && is_right(fetched)),
            };
            if is_there {
                return Ok(Wanted::There);
            }
        }
        if self.archive.cleanup
            && let Some(fetched) = record.fetched().find(|fetched| is_right(fetched))
            && self.is_extracted(situation, fetched)
        {
            return Ok(Wanted::CleanedUp);
        }
        let is_known = situation.current.as_ref().is_some_and(|current| record.knows(&current.sums.sha256));
        if !exists || is_known || record.fetched().next().is_none() {
            return Ok(Wanted::Download);
        }
        // What was there before us may be there again, if an apply was killed or a person put it back.
        let is_base = is_kept(&situation.place, &self.store.kept(Path::new(&self.path()?)))?;
        Ok(if is_base { Wanted::Download } else { Wanted::Changed })
    }

    /// Whether a download has been extracted, and everything is still there.
    fn is_extracted(&self, situation: &Situation<'_>, fetched: &Fetched) -> bool {
        let Some(manifest) = situation.site.as_ref().and_then(|site| site.manifest.as_ref()) else { return false };
        !manifest.unfinished
            && situation.drift == Drift::default()
            && self.recipe(&fetched.sha256).is_ok_and(|recipe| recipe == manifest.recipe)
    }
}
