//! The records of edited files: the edits of each file, and the owners of its lines. A file is read together with its record.

use super::EditEntity;
use super::ledger::{Draft, Ledger, Segments};
use holo_change::base_store::{BaseStore, ChangeCounter, Remembered};
use holo_change::snapshot::Snapshot;
use holo_change::tracked::EditedFiles;
use holo_change::{PathError, PathHandle, Stamp, Tree, is_between};
use holo_plugin::{EntityReport, Host, Output, Text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The record of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileRecord {
    /// The path, without symlinks.
    path: Text,
    /// The file after the last change by an edit.
    pub(super) now: Version,
    /// The intent: the file after the change that is being made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<Version>,
}

/// A state of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Version {
    /// Whether the first edit created the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) created: bool,
    /// The edits that have inserted or removed lines.
    edits: Vec<Remembered<MadeEdit>>,
    lines: Segments,
}

/// The record of an edit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MadeEdit {
    /// The fingerprint of its definition.
    pub(super) definition: String,
    /// Whether the content of the file must not be shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) sensitive: bool,
    /// Whether the file is overwritten instead of replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) in_place: bool,
}

/// The applied edits of a file, by ID.
#[derive(Clone, Debug)]
pub(super) struct MadeEdits(BTreeMap<String, Remembered<MadeEdit>>);

impl MadeEdits {
    /// Returns true if an edit was made from the definition with this fingerprint.
    pub(super) fn knows(&self, id: &str, fingerprint: &str) -> bool {
        self.0.get(id).is_some_and(|edit| edit.base.definition == fingerprint)
    }

    /// Adds an edit, with its report.
    pub(super) fn add(&mut self, id: &str, made: MadeEdit, report: impl FnOnce() -> EntityReport) {
        if self.0.get(id).is_some_and(|known| known.base == made) {
            return;
        }
        let mut report = report();
        // The entities that it came after are gone.
        report.edges.after.clear();
        self.0.insert(id.to_owned(), Remembered::new(&report, made));
    }
}

/// The record of an edit.
pub(super) struct RecordedEdit<'a>(&'a Remembered<MadeEdit>);

impl RecordedEdit<'_> {
    pub(super) fn id(&self) -> &str {
        &self.0.id
    }

    /// Returns its report as an orphan.
    pub(super) fn report(&self) -> EntityReport {
        self.0.orphan_report()
    }
}

/// The records of all edited files.
pub(super) struct Records(BaseStore);

impl Records {
    pub(super) fn open(host: &Host) -> Records {
        Records(BaseStore::open_kind(host.locations(), EditedFiles::KIND))
    }

    /// Returns the records of all files. Unreadable records are reported on `output`.
    pub(super) fn all(&self, output: &mut Output<'_>) -> Result<Vec<FileRecord>, PathError> {
        Ok(self.0.all::<FileRecord>(output)?.into_values().map(|remembered| remembered.base).collect())
    }

    pub(super) fn of(&self, path: &Path) -> Result<Option<FileRecord>, PathError> {
        Ok(self.0.recall::<FileRecord>(&EditedFiles::record_id(path))?.map(|remembered| remembered.base))
    }

    /// Returns a value that differs after any change of a record.
    pub(super) fn change_counter(&self) -> Result<ChangeCounter, PathError> {
        self.0.change_counter()
    }

    /// Writes a record, or removes it if the file has no edits. When this returns, the change is on disk.
    pub(super) fn keep(&self, record: &FileRecord) -> Result<(), PathError> {
        let path = record.path();
        if record.now.edits.is_empty() && record.next.is_none() {
            return self.0.forget(&EditedFiles::record_id(&path));
        }
        self.0.keep(&Remembered::new(&EntityReport::new(EditedFiles::record_id(&path)), record.clone()))
    }
}

/// Removes an edit from the record of its file, whose lines are then the user's. Prints the lines that the edit has removed, as nothing else
/// contains them.
pub(super) fn forget(host: &Host, edit: &EditEntity, output: &mut Output<'_>) -> Result<(), PathError> {
    let _held = Tree::open(host.state_dir())?.hold()?;
    let records = Records::open(host);
    for mut record in records.all(output)? {
        let mut ledger = record.now.ledger();
        if !record.edits().any(|made| made.id() == edit.id) {
            continue;
        }
        let removed: Vec<&[u8]> = ledger.removed_by(&edit.id).collect();
        if !removed.is_empty() && !record.is_sensitive() {
            output.print(format!(">> it had removed from {}:\n", host.below_root(&record.path()).display()));
            removed.iter().for_each(|line| output.print([b"   ", *line, b"\n"].concat()));
        }
        ledger.release(&edit.id);
        // An intent of a killed run is dropped, and its lines count as the user's.
        let now = Version::new(record.now.created, record.now.made(), &ledger);
        record.settle(now);
        records.keep(&record)?;
    }
    Ok(())
}

impl FileRecord {
    /// Creates the record of a file without edits.
    pub(super) fn new(path: &Path, ledger: &Ledger, created: bool) -> FileRecord {
        let path = Text(holo_change::path_bytes(path));
        FileRecord { path, now: Version { created, edits: Vec::new(), lines: ledger.into() }, next: None }
    }

    pub(super) fn path(&self) -> PathBuf {
        use bstr::ByteSlice;
        self.path.0.to_path_lossy().into_owned()
    }

    /// Returns the states that a killed run may have left.
    pub(super) fn versions(&self) -> impl Iterator<Item = &Version> {
        self.next.iter().chain([&self.now])
    }

    /// Records the current lines, and the intent to change the file to the state `next`.
    pub(super) fn intend(&mut self, ledger: &Ledger, next: Version) {
        (self.now, self.next) = (Version::new(self.now.created, self.now.made(), ledger), Some(next));
    }

    /// Records the state of the file, without an intent.
    pub(super) fn settle(&mut self, now: Version) {
        (self.now, self.next) = (now, None);
    }

    /// Returns true if the content is a prefix of the intended content.
    pub(super) fn has_begun(&self, content: &[u8]) -> bool {
        self.next.as_ref().is_some_and(|next| next.content().starts_with(content))
    }

    pub(super) fn has_intent(&self) -> bool {
        self.next.is_some()
    }

    /// Returns the edits, each once.
    pub(super) fn edits(&self) -> impl Iterator<Item = RecordedEdit<'_>> {
        let mut edits: BTreeMap<&str, &Remembered<MadeEdit>> = BTreeMap::new();
        for edit in self.versions().flat_map(|version| &version.edits) {
            edits.entry(&edit.id).or_insert(edit);
        }
        edits.into_values().map(RecordedEdit)
    }

    /// Returns true if the file is written to, and not replaced.
    pub(super) fn is_in_place(&self) -> bool {
        self.versions().flat_map(|version| &version.edits).any(|edit| edit.base.in_place)
    }

    /// Returns true if a run that was killed while overwriting the file may have left this content.
    pub(super) fn is_torn(&self, content: &[u8]) -> bool {
        let next = self.next.as_ref().filter(|_| self.is_in_place()).map(Version::content);
        let now = self.now.content();
        next.is_some_and(|next| content != next && content != now && is_between(content, &now, &next))
    }

    /// Returns true if the content of the file must not be shown.
    pub(super) fn is_sensitive(&self) -> bool {
        self.versions().flat_map(|version| &version.edits).any(|edit| edit.base.sensitive)
    }
}

impl Version {
    pub(super) fn content(&self) -> Vec<u8> {
        self.ledger().text().content()
    }

    pub(super) fn ledger(&self) -> Ledger {
        self.lines.clone().into()
    }

    /// Returns the applied edits, by ID.
    pub(super) fn made(&self) -> MadeEdits {
        MadeEdits(self.edits.iter().map(|edit| (edit.id.clone(), edit.clone())).collect())
    }

    /// Creates a state of a file with these lines. Edits without any line are omitted.
    pub(super) fn new(created: bool, made: MadeEdits, ledger: &Ledger) -> Version {
        let with_lines = ledger.edits();
        let edits = made.0.into_values().filter(|edit| with_lines.contains(&*edit.id)).collect();
        Version { created, edits, lines: ledger.into() }
    }

    /// Returns true if there are no edits.
    pub(super) fn is_untouched(&self) -> bool {
        self.edits.is_empty()
    }
}

/// A file as it was read, with its lines and their owners.
#[derive(Debug)]
pub(super) struct Subject {
    /// The path without symlinks.
    pub(super) path: PathBuf,
    pub(super) place: PathHandle,
    /// `None` if the file does not exist.
    pub(super) found: Option<Snapshot>,
    pub(super) record: FileRecord,
    /// The record on disk.
    pub(super) kept: Option<FileRecord>,
    /// The lines, including changes by users and other programs.
    pub(super) ledger: Ledger,
}

impl Subject {
    /// Returns the mode of the file, or the default for a new one.
    pub(super) fn mode(&self) -> u32 {
        let stamp = self.found.as_ref().and_then(|found| found.stamp.as_ref());
        stamp.map_or(0o644, |stamp| stamp.stat().mode)
    }
}

/// A file that was read once for several edits.
#[derive(Debug)]
pub(super) struct EditedFile {
    pub(super) subject: Subject,
    pub(super) made: MadeEdits,
    pub(super) draft: Draft,
    /// The draft without the edits of orphans; built when it is first needed.
    pub(super) without_orphans: Option<Draft>,
}

impl From<Subject> for EditedFile {
    fn from(subject: Subject) -> EditedFile {
        let (made, draft) = (subject.record.now.made(), Draft::from(&subject.ledger));
        EditedFile { subject, made, draft, without_orphans: None }
    }
}

/// A cached file, with the stamp of the file and the counter of the records, which show whether both are still the same.
#[derive(Debug)]
pub(super) struct CachedFile {
    pub(super) stamp: Option<Stamp>,
    pub(super) records: ChangeCounter,
    pub(super) file: EditedFile,
}
