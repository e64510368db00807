//! A file that has edits, as it was read, and its record.

use super::ledger::{Draft, Ledger};
use super::record::{FileRecord, MadeEdits};
use holo_change::base_store::ChangeCounter;
use holo_change::snapshot::Snapshot;
use holo_change::{PathHandle, Stamp};
use std::path::PathBuf;

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
