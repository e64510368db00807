//! Looking at edited files: what is known of them, what has to be done, and what others have changed.

use super::entity::EditEntity;
use super::ledger::Ledger;
use super::outcome::{self, EditError, Outcome};
use super::record::{FileRecord, Records, Version};
use super::text::Text;
use holo_change::snapshot::Snapshot;
use holo_change::{Links, PathError, PathHandle, Tree};
use holo_plugin::ValidationError;
use holo_plugin::origins::Traced;
use holo_plugin::{FilePair, ForceTo, Host, Origin, Preview, SENSITIVE, Shown, Span, Verdict};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A larger file is data, and not configuration.
pub(super) const MAX_SIZE: u64 = 16 << 20;

/// The reason why an edit cannot be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("{0}: {1}")]
    Edit(String, EditError),
    #[error("{0} does not exist; create = true would make it")]
    Missing(String),
    #[error("{} is edited by {} and made by {}; one of both has to go", .0, .1, .2)]
    Claimed(String, String, String),
    #[error("{}", .0.0)]
    Invalid(ValidationError),
    #[error("{0}")]
    Preview(#[from] io::Error),
    /// Others have changed the edit's own lines.
    #[error("the lines have been changed")]
    Changed,
}

/// The host's files, and what is known of their lines.
pub(super) struct Inspection<'a> {
    pub(super) host: &'a Host,
    pub(super) root: Arc<Tree>,
    pub(super) records: Records,
}

/// A file as it is, and what is known of its lines.
pub(super) struct Subject {
    /// The path without symlinks.
    pub(super) path: PathBuf,
    pub(super) place: PathHandle,
    /// None if there is no file.
    pub(super) found: Option<Snapshot>,
    pub(super) record: FileRecord,
    /// The record as it is kept.
    pub(super) kept: Option<FileRecord>,
    /// The lines, with what others have changed.
    pub(super) ledger: Ledger,
}

impl<'a> Inspection<'a> {
    pub(super) fn open(host: &'a Host) -> Result<Inspection<'a>, FileError> {
        Ok(Inspection { host, root: Tree::open(host.root())?, records: Records::open(host)? })
    }

    /// Returns the path of the file that a path leads to: symlinks are followed only if root or we have made them.
    pub(super) fn canonical(&self, path: &Path) -> Result<PathBuf, PathError> {
        let failed = |error: PathError| PathError::new("open", self.host.below_root(path), error.error);
        Ok(self.root.resolve(path, true, Links::Trusted).map_err(failed)?.path)
    }

    /// Looks at a file, given its path without symlinks.
    pub(super) fn look_at(&self, path: &Path) -> Result<Subject, FileError> {
        let place = self.root.place(path);
        let found = Snapshot::of_any_owner(&place, MAX_SIZE)?;
        let text = Text::parse(found.as_ref().map(|found| found.content.as_slice()).unwrap_or_default());
        let untouched = || FileRecord::new(path, &Ledger::new(&text), found.is_none());
        // Of a file that was removed, nothing is left to be put back.
        let kept = self.records.of(path)?;
        let record = kept.clone().filter(|_| found.is_some()).unwrap_or_else(untouched);
        let is_torn = found.as_ref().is_some_and(|found| record.is_torn(&found.content));
        let record = recovered(record, if is_torn { None } else { Some(&text) });
        let mut ledger = record.now.ledger();
        if !is_torn {
            outcome::follow(&mut ledger, &text);
        }
        Ok(Subject { path: path.to_owned(), place, found, record, kept, ledger })
    }

    /// Returns the lines that a file has once an entity is applied; nothing if there is no file, and none is to be made.
    pub(super) fn outcome(&self, subject: &Subject, entity: &EditEntity) -> Result<Option<Outcome>, FileError> {
        let Some(definition) = &entity.definition else {
            return Ok(Some(outcome::take_back(&subject.ledger, &entity.id)));
        };
        if let Some(claim) = entity.run.claims(self.host).conflict(&subject.path, false) {
            return Err(FileError::Claimed(self.shown(&subject.path), entity.id.clone(), claim.shown()));
        }
        if subject.found.is_none() && !definition.shared().create {
            return Ok(None);
        }
        let is_known = subject.record.now.knows(&entity.id, &entity.fingerprint());
        let made = outcome::make(&subject.ledger, &entity.id, definition, is_known);
        Ok(Some(made.map_err(|error| FileError::Edit(self.shown(&subject.path), error))?))
    }

    pub(super) fn verdict(&self, entity: &EditEntity) -> Result<Verdict, FileError> {
        let (subject, outcome) = self.expected(entity)?;
        let shown = self.shown(&subject.path);
        let Some(outcome) = outcome else {
            let ensures_absence = entity.definition.as_ref().is_some_and(super::EditDefinition::is_absence);
            return Ok(match ensures_absence {
                true => Verdict::InDesiredState,
                // What makes it may come first.
                false => Verdict::WouldChange(vec![format!("would edit {shown}, which does not exist yet")]),
            });
        };
        let moves = self.would_leave(entity, &subject);
        if outcome.needs_force {
            return Ok(Verdict::NeedsForce(ForceTo::Overwrite));
        }
        if outcome.ledger.text() == subject.ledger.text() && moves.is_none() {
            return Ok(if entity.definition.is_none() {
                Verdict::WouldChange(vec![format!("would forget {}", entity.id)])
            } else {
                Verdict::InDesiredState
            });
        }
        let word = match (&entity.definition, &subject.found) {
            (None, _) => "take back the edit of",
            (_, None) => "make",
            _ => "edit",
        };
        Ok(Verdict::WouldChange(vec![format!("would {word} {shown}")]))
    }

    /// Returns the file in which the edit was made and is not to be any more.
    pub(super) fn would_leave(&self, entity: &EditEntity, subject: &Subject) -> Option<PathBuf> {
        entity.made_in.clone().filter(|path| *path != subject.path)
    }

    /// Returns the file and its lines once an entity is applied, and those before it that nothing defines any more.
    fn expected(&self, entity: &EditEntity) -> Result<(Subject, Option<Outcome>), FileError> {
        let mut subject = self.look_at(&self.canonical(&entity.path)?)?;
        for orphan in &entity.orphans {
            let without = outcome::take_back(&subject.ledger, orphan);
            if !without.needs_force {
                subject.ledger = without.ledger;
            }
        }
        let outcome = self.outcome(&subject, entity)?;
        Ok((subject, outcome))
    }

    /// Returns what the edit's lines were when it was made, and what is there.
    pub(super) fn difference(&self, entity: &EditEntity) -> Result<Option<FilePair>, FileError> {
        let subject = self.look_at(&self.canonical(&entity.path)?)?;
        let made = subject.ledger.with_own_lines(&entity.id).text();
        if entity.sensitive || made == subject.ledger.text() {
            return Ok(None);
        }
        let preview = Preview::new(self.host, entity.id.as_bytes())?;
        let copy = preview.from(Path::new("file"));
        Shown::File { content: made.content(), mode: mode_of(&subject) }.write(&copy)?;
        Ok(Some(FilePair::new(copy, self.host.below_root(&subject.path)).with_applied_label(&entity.id)))
    }

    pub(super) fn preview(&self, entity: &EditEntity) -> Result<Option<FilePair>, FileError> {
        let (subject, outcome) = self.expected(entity)?;
        let Some(outcome) = outcome.filter(|outcome| outcome.ledger.text() != subject.ledger.text()) else {
            return Ok(None);
        };
        let (preview, below) = (Preview::new(self.host, entity.id.as_bytes())?, Path::new("file"));
        let live = self.host.below_root(&subject.path);
        let shown = |content: Vec<u8>| match entity.sensitive {
            true => Shown::File { content: SENSITIVE.to_vec(), mode: 0 },
            false => Shown::File { content, mode: mode_of(&subject) },
        };
        shown(outcome.ledger.text().content()).write(&preview.to(below))?;
        if subject.found.is_some() {
            shown(subject.ledger.text().content()).write(&preview.from(below))?;
        }
        Ok(Some(FilePair::new(preview.from(below), preview.to(below)).with_from_label(live.as_os_str().as_bytes())))
    }

    /// Returns the origins of all lines of the file, in whichever edits they are.
    pub(super) fn blame(&self, entity: &EditEntity) -> Result<Option<Vec<Span>>, FileError> {
        let subject = self.look_at(&self.canonical(&entity.path)?)?;
        let Some(found) = subject.found.filter(|_| !entity.sensitive) else { return Ok(None) };
        let makers = subject.ledger.makers();
        let origin = |edit: &str| match entity.run.locations.get(edit) {
            Some(location) => Origin::Resource { path: location.path().to_owned(), line: location.line() },
            None => Origin::Other(edit.into()),
        };
        let changed: Vec<bool> = subject.ledger.changed();
        let traced = Traced::new(found.content, |index, _| match makers.get(index).copied().flatten() {
            Some(edit) => origin(edit),
            None if changed.get(index) == Some(&true) => Origin::Edited,
            None => Origin::Base,
        });
        Ok(Some(traced.into_spans()))
    }

    pub(super) fn shown(&self, path: &Path) -> String {
        self.host.below_root(path).display().to_string()
    }
}

/// Returns the mode of a file, or the one that a new one gets.
pub(super) fn mode_of(subject: &Subject) -> u32 {
    let stamp = subject.found.as_ref().and_then(|found| found.stamp.as_ref());
    stamp.map_or(0o644, |stamp| stamp.stat().mode)
}

/// Returns the record as it is after a run that was killed: the file is what it was, or what it was about to be. If others have changed it
/// since, it is what is nearer; if it is neither, as it was being written over, it is what it was.
fn recovered(mut record: FileRecord, text: Option<&Text>) -> FileRecord {
    if record.has_intent() {
        let distance = |version: &&Version| text.map_or(0, |text| version.ledger().text().distance(text));
        let nearest = record.versions().min_by_key(distance).filter(|_| text.is_some());
        let version = nearest.unwrap_or(&record.now).clone();
        record.settle(version);
    }
    record
}
