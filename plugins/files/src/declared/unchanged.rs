//! Declared files that are recorded as unchanged and need not be read.

use super::entity::DeclaredFile;
use super::inspection::Inspection;
use super::wanted;
use crate::overlay::{Layout, record};
use holo_change::{Fingerprint, Stamp, UnchangedRecord};
use holo_plugin::Host;
use std::cell::RefCell;
use std::os::unix::ffi::OsStrExt;

/// The maximum size of the record in bytes per file to check. A larger record takes longer to read than the files.
const WORTH_READING: u64 = 4096;

/// The record of unchanged files.
pub(super) struct UnchangedFiles {
    record: RefCell<UnchangedRecord>,
    /// The location of the record, or `None` if it is not used.
    layout: Option<Layout>,
}

/// The fingerprint of everything that determines the result for a declared file.
pub(super) struct Deciding {
    id: String,
    fingerprint: Fingerprint,
    stamp: Option<Stamp>,
}

impl UnchangedFiles {
    /// Opens the record if it is worth reading for this number of files.
    pub(super) fn open(host: &Host, files: usize) -> UnchangedFiles {
        let layout = if files > 0 { Layout::open(host).ok() } else { None };
        let is_worth_it = |layout: &Layout| {
            let stat = layout.record().stat();
            stat.is_ok_and(|stat| stat.is_none_or(|stat| stat.size <= WORTH_READING * files as u64))
        };
        let layout = layout.filter(is_worth_it);
        let record = layout.as_ref().map_or_else(UnchangedRecord::none, |layout| record::open(host, layout));
        UnchangedFiles { record: RefCell::new(record), layout }
    }

    /// Returns the fingerprint of everything that determines the result for a file, or `None` if this cannot be determined from metadata.
    /// Must be called before the file is read.
    ///
    /// It covers the record of the file, and thereby former owners of the path and other files of the entity.
    pub(super) fn deciding(&self, entity: &DeclaredFile, inspection: &Inspection<'_>) -> Option<Deciding> {
        self.layout.as_ref()?;
        let (definition, host, tracker) = (entity.definition.as_ref()?, inspection.host, &inspection.tracker);
        let path = tracker.canonical(&entity.path).ok()?;
        if entity.overlay.is_some() || definition.declares_access() || tracker.is_overlaid(&path) {
            return None;
        }
        let id = entity.id();
        let stamp = Stamp::of(&tracker.place(&path)).ok()?;
        let record = inspection.bases.text(&id).ok()??;
        let source = definition.source.as_ref().map(|_| wanted::content(definition, host)).transpose().ok()?;
        let owners = wanted::owners(definition, host).ok()?;
        let decides = (path.as_os_str().as_bytes(), definition, source, owners, record);
        Some(Deciding { id, fingerprint: Fingerprint::new(&[stamp], &decides), stamp })
    }

    /// Returns true if the file is recorded as unchanged with this fingerprint.
    pub(super) fn is_unchanged(&self, deciding: &Deciding) -> bool {
        self.record.borrow().knows(deciding.id.as_bytes(), deciding.fingerprint)
    }

    /// Records the file as unchanged, provided that any later change will alter the fingerprint.
    pub(super) fn found_unchanged(&self, deciding: &Deciding) {
        let mut record = self.record.borrow_mut();
        if deciding.stamp.iter().all(|stamp| record.can_rely_on(stamp)) {
            record.insert(deciding.id.as_bytes(), deciding.fingerprint);
        }
    }

    /// Removes a file from the record.
    pub(super) fn forget(&self, entity: &DeclaredFile) {
        self.record.borrow_mut().forget(entity.id().as_bytes());
    }

    /// Writes the record for the next apply.
    pub(super) fn keep(&self) {
        if let Some(layout) = &self.layout {
            record::keep(&self.record.borrow(), layout);
        }
    }
}
