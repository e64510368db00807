//! Comparison of edited files with the definitions of edits and with the records, without changing either.

use super::EditEntity;
use super::ledger::{Draft, Ledger};
use super::outcome::{self, EditError, Outcome};
use super::record::{CachedFile, EditedFile, FileRecord, MadeEdits, Records, Subject, Version};
use super::text::Text;
use crate::overlay::BufferedOutput;
use holo_change::claims;
use holo_change::snapshot::Snapshot;
use holo_change::tracked::{Inherited, Tracker};
use holo_change::{Image, Kind, Links, PathError, PathHandle, Stamp, Tree};
use holo_plugin::origins::Traced;
use holo_plugin::{
    FilePair, ForceTo, Host, Job, Mode, Origin, Output, Preview, SENSITIVE, Shown, Span, Validation, ValidationError,
    Verdict, edited, exposure,
};
use std::cell::OnceCell;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

/// The maximum size of a file. A larger one is data, not configuration.
pub(super) const MAX_SIZE: u64 = 16 << 20;

/// The reason why an edit cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("{0}: {1}")]
    Edit(String, EditError),
    #[error("{0} does not exist; create = true would make it")]
    Missing(String),
    #[error("{0} cannot be made, because {1} is not a directory")]
    NoFolder(String, String),
    #[error("{0} is not a regular file")]
    NoFile(String),
    #[error("{} is edited by {} and made by {}; one of both has to go", .0, .1, .2)]
    Claimed(String, String, String),
    #[error("{}", .0.0)]
    Invalid(ValidationError),
    #[error("{0}")]
    Preview(#[from] io::Error),
    /// Lines of the edit were changed manually.
    #[error("the lines have been changed")]
    Changed,
}

/// The files of the host, and the records of edits.
pub(super) struct Inspection<'a> {
    pub(super) host: &'a Host,
    pub(super) root: Arc<Tree>,
    pub(super) records: Records,
    tracker: OnceCell<Tracker>,
}

/// The state of a file besides its lines.
pub(super) struct FileState<'a> {
    pub(super) path: &'a Path,
    pub(super) exists: bool,
    pub(super) made: &'a MadeEdits,
}

/// Returns true if there is something that is not a regular file.
fn is_other(place: &PathHandle) -> Result<bool, PathError> {
    Ok(place.stat()?.is_some_and(|stat| stat.kind != Kind::File))
}

/// Returns the file that contains the edit, if its path leads to another file by now.
pub(super) fn would_leave<'e>(entity: &'e EditEntity, path: &Path) -> Option<&'e Path> {
    entity.made_in.as_deref().filter(|made_in| *made_in != path)
}

impl<'a> Inspection<'a> {
    pub(super) fn open(host: &'a Host) -> Result<Inspection<'a>, FileError> {
        Ok(Inspection { host, root: Tree::open(host.root())?, records: Records::open(host), tracker: OnceCell::new() })
    }

    /// Returns a path without symlinks. Only symlinks of root and the current user are followed.
    pub(super) fn canonical(&self, path: &Path) -> Result<PathBuf, PathError> {
        let failed = |error: PathError| PathError::new("open", self.host.below_root(path), error.error);
        Ok(self.root.resolve(path, true, Links::Trusted).map_err(failed)?.path)
    }

    /// Returns the records of the paths that other entities hold.
    pub(super) fn tracker(&self) -> Result<&Tracker, PathError> {
        if let Some(tracker) = self.tracker.get() {
            return Ok(tracker);
        }
        let tracker = Tracker::open(self.host.locations())?.foreseeing(true);
        Ok(self.tracker.get_or_init(|| tracker))
    }

    /// Returns the path without symlinks that an edit will have when it is applied, and a copy of the file if an orphan restores it first.
    fn foresee(&self, entity: &EditEntity) -> Result<(PathBuf, Option<PathHandle>), FileError> {
        let canonical = self.canonical(&entity.path)?;
        if entity.is_orphan() {
            return Ok((canonical, None));
        }
        let preview = Preview::new(self.host, format!("{} before", entity.id).as_bytes())?;
        let copy = Tree::open(&preview.from(Path::new("")))?.place(Path::new("file"));
        for path in [&entity.entry, &canonical] {
            let original = self.tracker()?.original(path, &entity.id, entity.run.claims(self.host), &copy)?;
            if original.is_some() {
                return Ok((path.clone(), original));
            }
        }
        Ok((canonical, None))
    }

    /// Reads a file and its record, given its path without symlinks.
    pub(super) fn look_at(&self, path: &Path) -> Result<Subject, FileError> {
        self.look_at_recorded(path, self.records.of(path)?)
    }

    /// Reads a file that has this record.
    pub(super) fn look_at_recorded(&self, path: &Path, kept: Option<FileRecord>) -> Result<Subject, FileError> {
        let place = self.root.place(path);
        let found = match Snapshot::of_any_owner(&place, MAX_SIZE) {
            // What has replaced the file contains no edits, and orphans have nothing to take back.
            Err(_) if is_other(&place)? => None,
            found => found?,
        };
        self.subject(path, (place, found), kept)
    }

    fn subject(
        &self,
        path: &Path,
        (place, found): (PathHandle, Option<Snapshot>),
        kept: Option<FileRecord>,
    ) -> Result<Subject, FileError> {
        let text = Text::parse(found.as_ref().map(|found| found.content.as_slice()).unwrap_or_default());
        let untouched = || FileRecord::new(path, &Ledger::new(&text), found.is_none());
        // The record of a removed file is obsolete, because there is no content to restore.
        let record = kept.clone().filter(|_| found.is_some()).unwrap_or_else(untouched);
        let is_torn = found.as_ref().is_some_and(|found| record.is_torn(&found.content));
        let record = recovered(record, if is_torn { None } else { Some(&text) });
        let mut ledger = record.now.ledger();
        if !is_torn {
            outcome::follow(&mut ledger, &text);
        }
        Ok(Subject { path: path.to_owned(), place, found, record, kept, ledger })
    }

    /// Applies an edit to the draft of a file, or takes it back if it is an orphan. Returns `None` if the file does not exist and is not to be
    /// created. After an error, the draft is unchanged.
    pub(super) fn edit(
        &self,
        draft: &mut Draft,
        file: &FileState<'_>,
        entity: &EditEntity,
    ) -> Result<Option<Outcome>, FileError> {
        let Some(definition) = &entity.definition else {
            return Ok(Some(outcome::take_back(draft, &entity.id)));
        };
        let claims = entity.run.claims(self.host);
        let made_in_tree = || self.tracker()?.rival(file.path, &entity.id, claims);
        let claim = claims.conflict(file.path, false).map_or_else(made_in_tree, |claim| Ok(Some(claim)))?;
        if let Some(claim) = claim {
            return Err(FileError::Claimed(self.shown(file.path), entity.id.clone(), claim.shown()));
        }
        if !file.exists && is_other(&self.root.place(file.path))? {
            return Err(FileError::NoFile(self.shown(file.path)));
        }
        if !file.exists && !definition.shared().create {
            return Ok(None);
        }
        let made = outcome::make(draft, &entity.id, definition, file.made.knows(&entity.id, entity.fingerprint()));
        let made = made.map_err(|error| FileError::Edit(self.shown(file.path), error));
        let made = made.and_then(|outcome| {
            if outcome.changes && !file.exists {
                self.demand_way(file.path)?;
            }
            Ok(outcome)
        });
        made.map(Some).inspect_err(|_| draft.roll_back())
    }

    /// Fails if a parent of a file is not a directory. A missing one is created.
    fn demand_way(&self, path: &Path) -> Result<(), FileError> {
        for above in path.ancestors().skip(1) {
            match self.root.place(above).stat()? {
                Some(stat) if stat.kind == Kind::Directory => break,
                Some(_) => return Err(FileError::NoFolder(self.shown(path), self.shown(above))),
                None => {}
            }
        }
        Ok(())
    }

    /// Returns the verdict of a check. The validation program is only run if this is the only edit of the file, because an apply runs it
    /// on the result of all edits.
    fn verdict(
        &self,
        file: &mut EditedFile,
        Job { entity, mode }: Job<'_, EditEntity>,
        is_only: bool,
        output: &mut Output<'_>,
    ) -> Result<Verdict, FileError> {
        let is_missing = file.subject.found.is_none();
        let moves = would_leave(entity, &file.subject.path).is_some();
        let shown = self.shown(&file.subject.path);
        let path = file.subject.path.clone();
        let (draft, outcome) = self.expected(file, entity)?;
        let content = outcome.as_ref().filter(|outcome| outcome.changes && is_only).map(|_| draft.text().content());
        draft.roll_back();
        let Some(outcome) = outcome else {
            let ensures_absence = entity.definition.as_ref().is_some_and(super::EditDefinition::is_absence);
            return if ensures_absence { Ok(Verdict::InDesiredState) } else { Err(FileError::Missing(shown)) };
        };
        if outcome.needs_force && !overwrites(entity, mode) {
            return Ok(Verdict::NeedsForce(ForceTo::Overwrite));
        }
        let kept = outcome.needs_force.then(|| edited::would_keep(&self.host.below_root(&path)));
        if !outcome.changes && !moves {
            return Ok(if entity.definition.is_none() {
                Verdict::WouldChange(vec![format!("would forget {}", entity.id)])
            } else {
                Verdict::InDesiredState
            });
        }
        if let (Some(validation), Some(content)) = (validation(entity), content) {
            validation.run(&path, &content, self.host, output).map_err(FileError::Invalid)?;
        }
        self.exposure(entity, &file.subject).into_iter().for_each(|warning| output.warning(warning));
        let word = match &entity.definition {
            None => "take back the edit of",
            Some(_) if is_missing => "make",
            Some(_) => "edit",
        };
        Ok(Verdict::WouldChange(kept.into_iter().chain([format!("would {word} {shown}")]).collect()))
    }

    /// Returns a warning if an edit writes sensitive content into an existing file that everyone can read.
    pub(super) fn exposure(&self, entity: &EditEntity, subject: &Subject) -> Option<String> {
        let is_exposed = entity.definition.as_ref()?.shared().sensitive && subject.found.is_some();
        let exposure = || exposure(&entity.id, &self.host.below_root(&subject.path), subject.mode());
        is_exposed.then(exposure).flatten()
    }

    /// Applies an edit to the draft of a file, after taking back orphans. The caller must roll back the returned draft.
    fn expected<'l>(
        &self,
        file: &'l mut EditedFile,
        entity: &EditEntity,
    ) -> Result<(&'l mut Draft, Option<Outcome>), FileError> {
        let EditedFile { subject, made, draft, without_orphans } = file;
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
        // Without its last edit, an empty file that an edit has created is removed.
        let record = &subject.record;
        let goes = record.now.created
            && record.edits().all(|edit| entity.orphans.iter().any(|orphan| orphan == edit.id()))
            && draft.text().content().is_empty();
        let file = FileState { path: &subject.path, exists: subject.found.is_some() && !goes, made };
        let outcome = self.edit(draft, &file, entity)?;
        Ok((draft, outcome))
    }

    /// Returns the file with the lines of the edit as they were applied, and the current file, if they differ.
    pub(super) fn difference(&self, file: &mut EditedFile, entity: &EditEntity) -> Result<Option<FilePair>, FileError> {
        let EditedFile { subject, draft, .. } = file;
        if entity.sensitive || !draft.has_lost(&entity.id) {
            return Ok(None);
        }
        draft.restore_own(&entity.id);
        let made = draft.changes_text().then(|| draft.text());
        draft.roll_back();
        let Some(made) = made else { return Ok(None) };
        let preview = Preview::new(self.host, entity.id.as_bytes())?;
        let copy = preview.from(Path::new("file"));
        Shown::File { content: made.content(), mode: subject.mode() }.write(&copy)?;
        Ok(Some(FilePair::new(copy, self.host.below_root(&subject.path)).with_applied_label(&entity.id).with_modes()))
    }

    pub(super) fn preview(&self, file: &mut EditedFile, entity: &EditEntity) -> Result<Option<FilePair>, FileError> {
        let exists = file.subject.found.is_some();
        let mode = match exists {
            true => file.subject.mode(),
            false => new_mode(entity.sensitive, self.tracker()?.inherited(&file.subject.path)?),
        };
        let live = self.host.below_root(&file.subject.path);
        let (draft, outcome) = self.expected(file, entity)?;
        let after = outcome.filter(|outcome| outcome.changes).map(|_| draft.text());
        draft.roll_back();
        let Some(after) = after else { return Ok(None) };
        let (preview, below) = (Preview::new(self.host, entity.id.as_bytes())?, Path::new("file"));
        let shown = |content: Vec<u8>| {
            let content = if entity.sensitive { SENSITIVE.to_vec() } else { content };
            Shown::File { content, mode }
        };
        shown(after.content()).write(&preview.to(below))?;
        if exists {
            shown(draft.text().content()).write(&preview.from(below))?;
        }
        let pair = FilePair::new(preview.from(below), preview.to(below)).with_modes();
        Ok(Some(pair.with_from_label(live.as_os_str().as_bytes())))
    }

    /// Returns the origins of all lines of the file.
    pub(super) fn blame(&self, file: &EditedFile, entity: &EditEntity) -> Option<Vec<Span>> {
        let Subject { found, ledger, .. } = &file.subject;
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

/// Returns the mode of a file that an edit makes.
pub(super) fn new_mode(is_sensitive: bool, inherited: Option<Inherited>) -> u32 {
    let usual = if is_sensitive { 0o600 } else { 0o644 };
    inherited.and_then(|inherited| inherited.file_mode).unwrap_or(usual)
}

/// Returns true if an apply overwrites manual changes of the edit's lines, and keeps the edited file. What an orphan leaves
/// is refused without force.
pub(super) fn overwrites(entity: &EditEntity, mode: Mode<'_>) -> bool {
    mode.overwrites() && (entity.definition.is_some() || mode.force)
}

/// Passes the file of an edit to a function. The file is not read again if it was the last one, and has not changed.
pub(super) fn look<R>(
    entity: &EditEntity,
    host: &Host,
    then: impl FnOnce(&Inspection<'_>, &mut EditedFile) -> R,
) -> Result<R, FileError> {
    let inspection = Inspection::open(host)?;
    let path = inspection.canonical(&entity.path)?;
    let (stamp, records) = (Stamp::of(&inspection.root.place(&path))?, inspection.records.change_counter()?);
    let mut last_read = entity.run.last_read.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = |stamp: &Option<Stamp>| stamp.as_ref().map(Stamp::to_bytes);
    let is_same = |cached: &CachedFile| {
        cached.file.subject.path == path && bytes(&cached.stamp) == bytes(&stamp) && cached.records == records
    };
    let cached = match last_read.take().filter(is_same) {
        Some(cached) => cached,
        None => CachedFile { stamp, records, file: inspection.look_at(&path)?.into() },
    };
    Ok(then(&inspection, &mut last_read.insert(cached).file))
}

/// Returns the file that is left at a path when its orphaned edits are taken back, for the check of an overlay that comes
/// after them. `None` if there are no edits, or some stay; the apply fails then.
pub(crate) fn without_orphans(path: &Path, host: &Host) -> Option<Option<Image>> {
    let inspection = Inspection::open(host).ok()?;
    let path = inspection.canonical(path).ok()?;
    let is_kept = || claims::layers(host.locations()).get(&path).is_some_and(Option::is_some);
    let record = inspection.records.of(&path).ok()?.filter(|_| !is_kept())?;
    let edits: Vec<String> = record.edits().map(|edit| edit.id().to_owned()).collect();
    let EditedFile { subject, mut draft, .. } = inspection.look_at_recorded(&path, Some(record)).ok()?.into();
    for edit in &edits {
        if outcome::take_back(&mut draft, edit).needs_force {
            return None;
        }
        draft.commit();
    }
    let content = draft.text().content();
    let is_there = subject.found.is_some() && !(subject.record.now.created && content.is_empty());
    if !is_there {
        return Some(None);
    }
    let copies = Preview::new(host, path.as_os_str().as_bytes()).ok()?.from(Path::new(""));
    Shown::File { content, mode: subject.mode() }.write(&copies.join("file")).ok()?;
    let copy = Image::load(&Tree::open(&copies).ok()?.place(Path::new("file"))).ok()??;
    Some(Some(Image { content: copy.content, ..Image::load(&subject.place).ok()?? }))
}

/// Returns the files that go when these edits are taken back, for the checks of other entities.
pub(crate) fn gone_with<'e>(orphans: impl Iterator<Item = &'e EditEntity>, host: &Host) -> BTreeSet<PathBuf> {
    let files: BTreeSet<PathBuf> = orphans.map(|edit| edit.file().to_owned()).collect();
    files.into_iter().filter(|file| matches!(without_orphans(file, host), Some(None))).collect()
}

/// Returns the program that must accept the new content, if the edit names one.
pub(super) fn validation(entity: &EditEntity) -> Option<Validation<'_>> {
    let command = entity.definition.as_ref()?.shared().validate?;
    Some(Validation { command, sensitive: entity.sensitive, timeout: entity.timeout })
}

/// The result of checking an edit. Several edits may share an error.
pub(crate) struct Checked {
    verdict: Result<Verdict, Rc<FileError>>,
    /// The output of the validation program.
    said: BufferedOutput,
}

impl Checked {
    /// Reports the error, if there is one, and returns the verdict.
    pub(crate) fn tell(self, output: &mut Output<'_>) -> Verdict {
        self.said.repeat(output);
        self.verdict.unwrap_or_else(|error| match &*error {
            FileError::Changed => Verdict::NeedsForce(ForceTo::Overwrite),
            error => {
                output.error(format!("skipping target: {error}"));
                Verdict::Failed
            }
        })
    }
}

/// Checks edits. Each file is read once.
pub(crate) fn check<'e>(host: &Host, set: &[Job<'e, EditEntity>]) -> Vec<Checked> {
    let inspection = match Inspection::open(host).map_err(Rc::new) {
        Ok(inspection) => inspection,
        Err(error) => {
            let failed = || Checked { verdict: Err(Rc::clone(&error)), said: BufferedOutput::default() };
            return set.iter().map(|_| failed()).collect();
        }
    };
    let mut files: HashMap<PathBuf, Result<EditedFile, Rc<FileError>>> = HashMap::new();
    let mut paths: HashMap<&Path, (PathBuf, Option<PathHandle>)> = HashMap::new();
    let mut counts: HashMap<&Path, usize> = HashMap::new();
    set.iter().for_each(|job| *counts.entry(job.entity.path()).or_default() += 1);
    let mut check = |job: &Job<'e, EditEntity>, output: &mut Output<'_>| {
        let entity = job.entity;
        let (path, original) = match paths.entry(&entity.path) {
            Entry::Occupied(known) => &*known.into_mut(),
            Entry::Vacant(new) => &*new.insert(inspection.foresee(entity)?),
        };
        let look_at = |path: &PathBuf| match original {
            None => inspection.look_at(path),
            Some(copy) => {
                let found = Snapshot::of_any_owner(copy, MAX_SIZE)?;
                inspection.subject(path, (copy.clone(), found), inspection.records.of(path)?)
            }
        };
        let file =
            files.entry(path.clone()).or_insert_with_key(|path| look_at(path).map(EditedFile::from).map_err(Rc::new));
        let is_only = counts.get(entity.path()) == Some(&1);
        Ok(inspection.verdict(file.as_mut().map_err(|error| Rc::clone(error))?, *job, is_only, output)?)
    };
    let checked = |job: &Job<'e, EditEntity>| {
        let mut said = BufferedOutput::default();
        let verdict = check(job, &mut Output::new(&mut said));
        Checked { verdict, said }
    };
    set.iter().map(checked).collect()
}

/// A cache of paths without symlinks.
#[derive(Default)]
pub(super) struct CanonicalFiles(HashMap<PathBuf, PathBuf>);

impl CanonicalFiles {
    /// Returns a path without symlinks.
    pub(super) fn of(&mut self, path: &Path, inspection: &Inspection<'_>) -> Result<PathBuf, PathError> {
        if let Some(found) = self.0.get(path) {
            return Ok(found.clone());
        }
        let found = inspection.canonical(path)?;
        self.0.insert(path.to_owned(), found.clone());
        Ok(found)
    }
}

/// Completes a record that a killed run left with an intent: the file has its old or its new content. If another process has changed it since,
/// the version with fewer differences counts; if it was only partly overwritten, the old version.
fn recovered(mut record: FileRecord, text: Option<&Text>) -> FileRecord {
    if record.has_intent() {
        let distance = |version: &&Version| text.map_or(0, |text| version.ledger().text().distance(text));
        let nearest = record.versions().min_by_key(distance).filter(|_| text.is_some());
        let version = nearest.unwrap_or(&record.now).clone();
        record.settle(version);
    }
    record
}
