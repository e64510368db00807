//! Declared files that are known to be unchanged, and need not be read.

use super::entity::DeclaredFile;
use super::inspection::Inspection;
use super::wanted;
use crate::overlay::{Layout, record};
use holo_change::{Fingerprint, Stamp, UnchangedRecord};
use holo_plugin::Host;
use std::cell::RefCell;
use std::os::unix::ffi::OsStrExt;

/// The size of the record from which on reading it takes longer than reading a file. In a chain, files come one by one.
const WORTH_READING: u64 = 4096;

/// The record of what is known to be unchanged.
pub(super) struct Known {
    record: RefCell<UnchangedRecord>,
    /// Where it is kept; none if it is not.
    layout: Option<Layout>,
}

/// The state of all that decides about a declared file.
pub(super) struct Deciding {
    id: String,
    fingerprint: Fingerprint,
    files: [Option<Stamp>; 2],
}

impl Known {
    /// Opens the record if it is worth reading for so many files, and no killed run has left something to be put in order first.
    pub(super) fn open(host: &Host, inspection: &Inspection<'_>, files: usize) -> Known {
        let is_in_order = inspection.bases.has_journal().is_ok_and(|has_journal| !has_journal);
        let layout = if files > 0 && is_in_order { Layout::open(host).ok() } else { None };
        let is_worth_it = |layout: &Layout| {
            let stat = layout.record().stat();
            stat.is_ok_and(|stat| stat.is_none_or(|stat| stat.size <= WORTH_READING * files as u64))
        };
        let layout = layout.filter(is_worth_it);
        let record = layout.as_ref().map_or_else(UnchangedRecord::none, |layout| record::open(host, layout));
        Known { record: RefCell::new(record), layout }
    }

    /// Returns the state of all that decides about a file, as far as that can be told from the outside. It has to be asked for before the file
    /// is read.
    ///
    /// The record of the file is a part of it: with that, who had its path before, and what else the entity has made.
    pub(super) fn deciding(&self, entity: &DeclaredFile, inspection: &Inspection<'_>) -> Option<Deciding> {
        self.layout.as_ref()?;
        let (definition, host, tracker) = (entity.definition.as_ref()?, inspection.host, &inspection.tracker);
        let path = tracker.canonical(&entity.path).ok()?;
        if entity.overlay.is_some() || definition.declares_access() || tracker.is_overlaid(&path) {
            return None;
        }
        let id = entity.id();
        let files = [Stamp::of(&tracker.place(&path)).ok()?, Some(inspection.bases.stamp(&id).ok()??)];
        let source = definition.source.as_ref().map(|_| wanted::content(definition, host)).transpose().ok()?;
        let owners = wanted::owners(definition, host).ok()?;
        let fingerprint = Fingerprint::new(&files, &(path.as_os_str().as_bytes(), definition, source, owners));
        Some(Deciding { id, fingerprint, files })
    }

    /// Returns true if the file was as it should be in this state.
    pub(super) fn is_unchanged(&self, deciding: &Deciding) -> bool {
        self.record.borrow().knows(deciding.id.as_bytes(), deciding.fingerprint)
    }

    /// Remembers that the file is as it should be, if a change would give it another state from now on.
    pub(super) fn found_unchanged(&self, deciding: &Deciding) {
        let mut record = self.record.borrow_mut();
        if deciding.files.iter().flatten().all(|stamp| record.can_rely_on(stamp)) {
            record.insert(deciding.id.as_bytes(), deciding.fingerprint);
        }
    }

    /// Forgets a file.
    pub(super) fn forget(&self, entity: &DeclaredFile) {
        self.record.borrow_mut().forget(entity.id().as_bytes());
    }

    /// Keeps for the next apply what this one has learned.
    pub(super) fn keep(&self) {
        if let Some(layout) = &self.layout {
            record::keep(&self.record.borrow(), layout);
        }
    }
}
