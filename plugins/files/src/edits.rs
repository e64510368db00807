//! Edits: lines, blocks and values in files that others own.
//!
//! The [`ledger`] of a file records the owner of each line, and [`outcome`] applies an edit to it. [`scan`] finds the edits, [`inspection`]
//! compares them with the file, [`executor`] changes the file, and [`record`] is the form on disk.

mod definition;
mod executor;
mod inspection;
mod ledger;
mod outcome;
mod pattern;
mod record;
mod scan;
mod text;

pub(crate) use definition::{BlockDefinition, IniDefinition, LineDefinition};
pub(crate) use executor::apply;
pub(crate) use inspection::{check, gone_with, without_orphans};
pub(crate) use scan::{EditTables, Found, FoundEdit, Neighbour};

use definition::{Ensure, SharedKeys};
use holo_change::claims::Claims;
use holo_change::tracked::Digest;
use holo_plugin::definitions::{Invalid, Location};
use holo_plugin::{
    Applied, Asset, Entity, EntityReport, FilePair, ForgetError, Host, Job, Mode, Output, Span, Verdict, apply_one,
};
use inspection::look;
use ledger::{Draft, Plan, Spot};
use record::CachedFile;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// The definition of an edit.
#[derive(Clone, Debug)]
enum EditDefinition {
    Line(LineDefinition),
    Block(BlockDefinition),
    Ini(IniDefinition),
}

impl EditDefinition {
    /// Returns true if the edit is present in the file.
    fn holds(&self, draft: &mut Draft) -> Result<bool, Invalid> {
        match self {
            EditDefinition::Line(line) => line.holds(draft),
            EditDefinition::Block(block) => Ok(block.holds(draft)),
            EditDefinition::Ini(ini) => Ok(ini.holds(draft)),
        }
    }

    /// Returns the change that adds the edit to the file.
    fn plan(&self, draft: &mut Draft, before: Option<Spot>) -> Result<Plan, Invalid> {
        match self {
            EditDefinition::Line(line) => line.plan(draft, before),
            EditDefinition::Block(block) => block.plan(draft, before),
            EditDefinition::Ini(ini) => Ok(ini.plan(draft, before)),
        }
    }

    fn shared(&self) -> SharedKeys<'_> {
        match self {
            EditDefinition::Line(line) => line.shared(),
            EditDefinition::Block(block) => block.shared(),
            EditDefinition::Ini(ini) => ini.shared(),
        }
    }

    /// Returns the path of the file, with its leading slash.
    pub(crate) fn path(&self) -> &Path {
        Path::new(self.shared().path)
    }

    /// Returns true if the edit only removes lines, so that a missing file is in the desired state.
    fn is_absence(&self) -> bool {
        self.shared().ensure == Ensure::Absent
    }

    /// Returns a digest that identifies the definition.
    fn fingerprint(&self) -> String {
        Digest::of_bytes(format!("{self:?}").as_bytes()).as_str().to_owned()
    }
}

impl Entity for EditEntity {
    fn report(&self) -> EntityReport {
        self.to_report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        apply_one(self, mode, output, |set, answers| apply(host, set, answers))
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        check(host, &[Job { entity: self, mode }]).pop().map_or(Verdict::Failed, |checked| checked.tell(output))
    }

    fn forget(&self, host: &Host, output: &mut Output<'_>) -> Result<(), ForgetError> {
        Ok(record::forget(host, self, output)?)
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        look(self, host, |inspection, file| inspection.difference(file, self)).ok()?.ok()?
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        look(self, host, |inspection, file| inspection.preview(file, self)).ok()?.ok()?
    }

    fn blame(&self, host: &Host, _: Option<&Path>) -> Option<Vec<Span>> {
        look(self, host, |inspection, file| inspection.blame(file, self)).ok()?
    }
}

/// The kind of asset by which the edits of a path are found.
const EDITED: &str = "edited-file";

/// An edit, or an orphaned one.
#[derive(Debug)]
pub(crate) struct EditEntity {
    id: String,
    /// The path in the definition, or for an orphan in the record.
    path: PathBuf,
    /// The path without symlinks at the time of the scan.
    file: PathBuf,
    /// The path without symlinks in its parents at the time of the scan.
    entry: PathBuf,
    /// `None` for an orphan.
    definition: Option<EditDefinition>,
    timeout: Option<Duration>,
    /// The file that contains the edit according to the records.
    made_in: Option<PathBuf>,
    /// The orphans of the same path.
    orphans: Arc<[String]>,
    /// The orphans that the edit comes after. The others come before these.
    after: Vec<String>,
    /// The report of an orphan.
    report: Option<EntityReport>,
    /// Whether the content of the file must not be shown.
    sensitive: bool,
    /// Whether the file is overwritten instead of replaced.
    in_place: bool,
    run: Arc<Run>,
    fingerprint: OnceLock<String>,
}

/// Data that all edits of a run share.
#[derive(Debug, Default)]
struct Run {
    /// The locations of the definitions, by the IDs of the edits.
    locations: BTreeMap<String, Location>,
    /// The claims of all plugins, read on first use, when every plugin has published its own.
    claims: OnceLock<Claims>,
    /// The file that was read last.
    last_read: Mutex<Option<CachedFile>>,
}

impl Run {
    fn new(locations: BTreeMap<String, Location>) -> Run {
        Run { locations, ..Run::default() }
    }

    fn claims(&self, host: &Host) -> &Claims {
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

    fn to_report(&self) -> EntityReport {
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
        if self.definition.is_some() {
            // The path may be an orphan's symlink, which no longer leads to the file when it is restored.
            let paths = [&self.entry, &self.file];
            let edited = paths.map(|path| Asset::new("path-edited", path.display().to_string()));
            report.edges.owns.extend(edited);
            report.edges.owns.dedup();
        }
        report.edges.after.extend(self.after.iter().map(|id| id.as_str().into()));
        report.edges.watch.push(path.into());
        report
    }

    /// Returns the digest of the definition, which is recorded to detect changes of it.
    fn fingerprint(&self) -> &str {
        self.fingerprint.get_or_init(|| self.definition.as_ref().map(EditDefinition::fingerprint).unwrap_or_default())
    }
}
