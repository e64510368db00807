//! Looking at edited files: what is known of them, what has to be done, and what others have changed.

use super::entity::EditEntity;
use super::ledger::{Draft, Ledger};
use super::outcome::{self, EditError, Outcome};
use super::record::{FileRecord, MadeEdits, Records, Version};
use super::text::Text;
use holo_change::snapshot::Snapshot;
use holo_change::{Links, PathError, PathHandle, Tree};
use holo_plugin::ValidationError;
use holo_plugin::origins::Traced;
use holo_plugin::{FilePair, ForceTo, Host, Origin, Output, Preview, SENSITIVE, Shown, Span, Verdict};
use std::collections::HashMap;
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
#[derive(Debug)]
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

/// A file that is looked at for several edits.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) subject: Subject,
    made: MadeEdits,
    draft: Draft,
    /// The same without the edits that nothing defines any more, as soon as that is needed.
    without_orphans: Option<Draft>,
}

impl From<Subject> for Looked {
    fn from(subject: Subject) -> Looked {
        let (made, draft) = (subject.record.now.made(), Draft::from(&subject.ledger));
        Looked { subject, made, draft, without_orphans: None }
    }
}

/// What decides about the next edit of a file, beside its lines.
pub(super) struct FileState<'a> {
    pub(super) path: &'a Path,
    pub(super) exists: bool,
    pub(super) made: &'a MadeEdits,
}

/// Returns the file in which an edit was made, if that is another one than it is about now.
pub(super) fn would_leave<'e>(entity: &'e EditEntity, path: &Path) -> Option<&'e Path> {
    entity.made_in.as_deref().filter(|made_in| *made_in != path)
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
        self.look_at_recorded(path, self.records.of(path)?)
    }

    /// Looks at a file with this record.
    pub(super) fn look_at_recorded(&self, path: &Path, kept: Option<FileRecord>) -> Result<Subject, FileError> {
        let place = self.root.place(path);
        let found = Snapshot::of_any_owner(&place, MAX_SIZE)?;
        let text = Text::parse(found.as_ref().map(|found| found.content.as_slice()).unwrap_or_default());
        let untouched = || FileRecord::new(path, &Ledger::new(&text), found.is_none());
        // Of a file that was removed, nothing is left to be put back.
        let record = kept.clone().filter(|_| found.is_some()).unwrap_or_else(untouched);
        let is_torn = found.as_ref().is_some_and(|found| record.is_torn(&found.content));
        let record = recovered(record, if is_torn { None } else { Some(&text) });
        let mut ledger = record.now.ledger();
        if !is_torn {
            outcome::follow(&mut ledger, &text);
        }
        Ok(Subject { path: path.to_owned(), place, found, record, kept, ledger })
    }

    /// Makes an edit in a draft of a file, or takes it back; nothing if there is no file, and none is to be made. An edit that cannot be made
    /// leaves the draft as it was.
    pub(super) fn edit(
        &self,
        draft: &mut Draft,
        file: &FileState<'_>,
        entity: &EditEntity,
    ) -> Result<Option<Outcome>, FileError> {
        let Some(definition) = &entity.definition else {
            return Ok(Some(outcome::take_back(draft, &entity.id)));
        };
        if let Some(claim) = entity.run.claims(self.host).conflict(file.path, false) {
            return Err(FileError::Claimed(self.shown(file.path), entity.id.clone(), claim.shown()));
        }
        if !file.exists && !definition.shared().create {
            return Ok(None);
        }
        let made = outcome::make(draft, &entity.id, definition, file.made.knows(entity));
        made.map(Some).map_err(|error| {
            draft.roll_back();
            FileError::Edit(self.shown(file.path), error)
        })
    }

    /// Returns the effect of applying an entity.
    pub(super) fn verdict(&self, looked: &mut Looked, entity: &EditEntity) -> Result<Verdict, FileError> {
        let is_missing = looked.subject.found.is_none();
        let moves = would_leave(entity, &looked.subject.path).is_some();
        let shown = self.shown(&looked.subject.path);
        let (draft, outcome) = self.expected(looked, entity)?;
        draft.roll_back();
        let Some(outcome) = outcome else {
            let ensures_absence = entity.definition.as_ref().is_some_and(super::EditDefinition::is_absence);
            return Ok(match ensures_absence {
                true => Verdict::InDesiredState,
                // What makes it may come first.
                false => Verdict::WouldChange(vec![format!("would edit {shown}, which does not exist yet")]),
            });
        };
        if outcome.needs_force {
            return Ok(Verdict::NeedsForce(ForceTo::Overwrite));
        }
        if !outcome.changes && !moves {
            return Ok(if entity.definition.is_none() {
                Verdict::WouldChange(vec![format!("would forget {}", entity.id)])
            } else {
                Verdict::InDesiredState
            });
        }
        let word = match &entity.definition {
            None => "take back the edit of",
            Some(_) if is_missing => "make",
            Some(_) => "edit",
        };
        Ok(Verdict::WouldChange(vec![format!("would {word} {shown}")]))
    }

    /// Returns the draft of a file in which an entity is applied, after those that nothing defines any more. It has to be rolled back.
    fn expected<'l>(
        &self,
        looked: &'l mut Looked,
        entity: &EditEntity,
    ) -> Result<(&'l mut Draft, Option<Outcome>), FileError> {
        let Looked { subject, made, draft, without_orphans } = looked;
        let draft = match &*entity.orphans {
            [] => draft,
            orphans => without_orphans.get_or_insert_with(|| {
                let mut draft = Draft::from(&subject.ledger);
                for orphan in orphans {
                    match outcome::take_back(&mut draft, orphan).needs_force {
                        true => draft.roll_back(),
                        false => draft.commit(),
                    }
                }
                draft
            }),
        };
        let file = FileState { path: &subject.path, exists: subject.found.is_some(), made };
        let outcome = self.edit(draft, &file, entity)?;
        Ok((draft, outcome))
    }

    /// Returns what the edit's lines were when it was made, and what is there.
    pub(super) fn difference(&self, looked: &mut Looked, entity: &EditEntity) -> Result<Option<FilePair>, FileError> {
        let Looked { subject, draft, .. } = looked;
        if entity.sensitive || !draft.has_lost(&entity.id) {
            return Ok(None);
        }
        draft.restore_own(&entity.id);
        let made = draft.changes_text().then(|| draft.text());
        draft.roll_back();
        let Some(made) = made else { return Ok(None) };
        let preview = Preview::new(self.host, entity.id.as_bytes())?;
        let copy = preview.from(Path::new("file"));
        Shown::File { content: made.content(), mode: mode_of(subject) }.write(&copy)?;
        Ok(Some(FilePair::new(copy, self.host.below_root(&subject.path)).with_applied_label(&entity.id)))
    }

    pub(super) fn preview(&self, looked: &mut Looked, entity: &EditEntity) -> Result<Option<FilePair>, FileError> {
        let (mode, exists) = (mode_of(&looked.subject), looked.subject.found.is_some());
        let live = self.host.below_root(&looked.subject.path);
        let (draft, outcome) = self.expected(looked, entity)?;
        let after = outcome.filter(|outcome| outcome.changes).map(|_| draft.text());
        draft.roll_back();
        let Some(after) = after else { return Ok(None) };
        let (preview, below) = (Preview::new(self.host, entity.id.as_bytes())?, Path::new("file"));
        let shown = |content: Vec<u8>| match entity.sensitive {
            true => Shown::File { content: SENSITIVE.to_vec(), mode: 0 },
            false => Shown::File { content, mode },
        };
        shown(after.content()).write(&preview.to(below))?;
        if exists {
            shown(draft.text().content()).write(&preview.from(below))?;
        }
        Ok(Some(FilePair::new(preview.from(below), preview.to(below)).with_from_label(live.as_os_str().as_bytes())))
    }

    /// Returns the origins of all lines of the file, in whichever edits they are.
    pub(super) fn blame(&self, looked: &Looked, entity: &EditEntity) -> Option<Vec<Span>> {
        let Subject { found, ledger, .. } = &looked.subject;
        let found = found.as_ref().filter(|_| !entity.sensitive)?;
        let makers = ledger.makers();
        let origin = |edit: &str| match entity.run.locations.get(edit) {
            Some(location) => Origin::Resource { path: location.path().to_owned(), line: location.line() },
            None => Origin::Other(edit.into()),
        };
        let changed: Vec<bool> = ledger.changed();
        let traced = Traced::new(found.content.clone(), |index, _| match makers.get(index).copied().flatten() {
            Some(edit) => origin(edit),
            None if changed.get(index) == Some(&true) => Origin::Edited,
            None => Origin::Base,
        });
        Some(traced.into_spans())
    }

    pub(super) fn shown(&self, path: &Path) -> String {
        self.host.below_root(path).display().to_string()
    }
}

/// Returns the effect of applying each of several edits, or an error. Each file is read once.
pub(crate) fn check(host: &Host, entities: &[&EditEntity]) -> Vec<Result<Verdict, String>> {
    let inspection = match Inspection::open(host) {
        Ok(inspection) => inspection,
        Err(error) => return entities.iter().map(|_| Err(error.to_string())).collect(),
    };
    let mut files: HashMap<PathBuf, Result<Looked, String>> = HashMap::new();
    let mut paths = CanonicalFiles::default();
    let check = |entity: &&EditEntity| {
        let path = paths.of(&entity.path, &inspection).map_err(|error| error.to_string())?;
        let file = files
            .entry(path.clone())
            .or_insert_with(|| inspection.look_at(&path).map(Looked::from).map_err(|error| error.to_string()));
        let verdict = inspection.verdict(file.as_mut().map_err(|error| error.clone())?, entity);
        verdict.map_err(|error| error.to_string())
    };
    entities.iter().map(check).collect()
}

/// Says what is wrong on `output`, and returns the effect of applying an edit.
pub(crate) fn tell_checked(checked: Result<Verdict, String>, output: &mut Output<'_>) -> Verdict {
    checked.unwrap_or_else(|error| {
        output.error(format!("skipping target: {error}"));
        Verdict::Failed
    })
}

/// The paths without symlinks of the files that a set of edits is about.
#[derive(Default)]
pub(super) struct CanonicalFiles(HashMap<PathBuf, PathBuf>);

impl CanonicalFiles {
    /// Returns that of a path.
    pub(super) fn of(&mut self, path: &Path, inspection: &Inspection<'_>) -> Result<PathBuf, PathError> {
        if let Some(found) = self.0.get(path) {
            return Ok(found.clone());
        }
        let found = inspection.canonical(path)?;
        self.0.insert(path.to_owned(), found.clone());
        Ok(found)
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
