//! An edit as an entity, and its report.

use super::EditDefinition;
use super::definition::Ensure;
use super::subject::CachedFile;
use holo_change::claims::Claims;
use holo_plugin::definitions::Location;
use holo_plugin::{Asset, EntityReport, Host};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// The kind of asset by which the edits of a path are found.
const EDITED: &str = "edited-file";

/// An edit, or an orphaned one.
#[derive(Debug)]
pub(crate) struct EditEntity {
    pub(super) id: String,
    /// The path in the definition, or for an orphan in the record.
    pub(super) path: PathBuf,
    /// The path without symlinks at the time of the scan.
    pub(super) file: PathBuf,
    /// `None` for an orphan.
    pub(super) definition: Option<EditDefinition>,
    pub(super) timeout: Option<Duration>,
    /// The file that contains the edit according to the records.
    pub(super) made_in: Option<PathBuf>,
    /// The orphans of the same path.
    pub(super) orphans: Arc<[String]>,
    /// The orphans that the edit comes after. The others come before these.
    pub(super) after: Vec<String>,
    /// The report of an orphan.
    pub(super) report: Option<EntityReport>,
    /// Whether the content of the file must not be shown.
    pub(super) sensitive: bool,
    /// Whether the file is overwritten instead of replaced.
    pub(super) in_place: bool,
    pub(super) run: Arc<Run>,
    pub(super) fingerprint: OnceLock<String>,
}

/// Data that all edits of a run share.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// The locations of the definitions, by the IDs of the edits.
    pub(super) locations: BTreeMap<String, Location>,
    /// The claims of all plugins, read on first use, when every plugin has published its own.
    claims: OnceLock<Claims>,
    /// The file that was read last.
    pub(super) last_read: Mutex<Option<CachedFile>>,
}

impl Run {
    pub(super) fn new(locations: BTreeMap<String, Location>) -> Run {
        Run { locations, ..Run::default() }
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

    /// Returns the path of the file without symlinks at the time of the scan.
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

    /// Returns the digest of the definition, which is recorded to detect changes of it.
    pub(super) fn fingerprint(&self) -> &str {
        self.fingerprint.get_or_init(|| self.definition.as_ref().map(EditDefinition::fingerprint).unwrap_or_default())
    }
}
