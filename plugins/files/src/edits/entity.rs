//! An edit as an entity: its report, and the answers to questions about it.

use super::EditDefinition;
use super::definition::Ensure;
use super::inspection::{FileError, Inspection, Looked};
use holo_change::Stamp;
use holo_change::claims::Claims;
use holo_plugin::definitions::Location;
use holo_plugin::{Asset, EntityReport, Host};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The kind of asset by which an edit is found that a path is asked for.
const EDITED: &str = "edited-file";

/// An edit that is defined, or was.
#[derive(Debug)]
pub(crate) struct EditEntity {
    pub(super) id: String,
    /// The path as it is defined, or of an orphan as it is recorded.
    pub(super) path: PathBuf,
    /// The path without symlinks, as it was when the entities were listed.
    pub(super) file: PathBuf,
    /// None for an orphan.
    pub(super) definition: Option<EditDefinition>,
    pub(super) timeout: Option<Duration>,
    /// The file in which the edit is made, if that is known.
    pub(super) made_in: Option<PathBuf>,
    /// The entities at the same path that nothing defines any more.
    pub(super) orphans: Arc<[String]>,
    /// Those of them after which all of them are gone.
    pub(super) after: Vec<String>,
    /// The report of an orphan.
    pub(super) report: Option<EntityReport>,
    /// True if nobody may see what is in the file.
    pub(super) sensitive: bool,
    /// True if the file is written to, and not replaced.
    pub(super) in_place: bool,
    pub(super) run: Arc<Run>,
    pub(super) fingerprint: OnceLock<String>,
}

/// The part of a run that all edits share.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// The locations of the definitions, by the IDs of the edits.
    pub(super) locations: BTreeMap<String, Location>,
    /// The claims of all plugins, once they are asked for: by then, all have made theirs known.
    claims: OnceLock<Claims>,
    /// The file that was looked at last.
    looked: Mutex<Option<Seen>>,
}

/// A file that was looked at, and the stamps by which it is seen that it is the same.
#[derive(Debug)]
struct Seen {
    stamps: [Option<Stamp>; 2],
    file: Looked,
}

impl Run {
    pub(super) fn new(locations: BTreeMap<String, Location>) -> Run {
        Run { locations, ..Run::default() }
    }

    /// Looks at the file of an edit, unless it is the same as the last one.
    pub(super) fn look<R>(
        &self,
        entity: &EditEntity,
        host: &Host,
        then: impl FnOnce(&Inspection<'_>, &mut Looked) -> R,
    ) -> Result<R, FileError> {
        let inspection = Inspection::open(host)?;
        let path = inspection.canonical(&entity.path)?;
        let stamps = [Stamp::of(&inspection.root.place(&path))?, inspection.records.stamp(&path)?];
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = |stamps: &[Option<Stamp>; 2]| stamps.map(|stamp| stamp.map(|stamp| stamp.to_bytes()));
        let is_same = |seen: &Seen| seen.file.subject.path == path && bytes(&seen.stamps) == bytes(&stamps);
        let seen = match looked.take().filter(|seen| is_same(seen)) {
            Some(seen) => seen,
            None => Seen { stamps, file: inspection.look_at(&path)?.into() },
        };
        let seen = looked.insert(seen);
        Ok(then(&inspection, &mut seen.file))
    }

    pub(super) fn claims(&self, host: &Host) -> &Claims {
        self.claims.get_or_init(|| Claims::read(host.locations()))
    }
}

impl EditEntity {
    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the file without symlinks, as it was when the entities were listed.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn is_orphan(&self) -> bool {
        self.definition.is_none()
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn to_report(&self) -> EntityReport {
        if let Some(report) = &self.report {
            return report.clone();
        }
        let mut report = EntityReport::new(self.id.as_str());
        let path = self.path.display().to_string();
        if let Some(definition) = &self.definition {
            let word = if definition.shared().ensure == Ensure::Absent { "take out of" } else { "edit" };
            report.inform(word, path.as_str());
        }
        report.edges.provides.push(Asset::new(EDITED, path.as_str()));
        report.edges.needs.push(Asset::new("path", path.as_str()));
        report.edges.after.extend(self.after.iter().map(|id| id.as_str().into()));
        report.edges.watch.push(path.into());
        report
    }

    /// Returns the definition as it is recorded, to know if it is another one.
    pub(super) fn fingerprint(&self) -> &str {
        self.fingerprint.get_or_init(|| self.definition.as_ref().map(EditDefinition::fingerprint).unwrap_or_default())
    }
}
