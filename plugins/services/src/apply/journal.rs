//! Records during an apply: states of units, saved before they are changed, and facts that later runs cannot determine.

use super::item::Item;
use super::{ApplyError, ItemIndex, Run};
use crate::entity::{EntityRecords, name_of, things};
use crate::providers::{FOLDER, Manager};
use crate::record::Record;
use crate::unit::Scope;
use holo_change::base_store::{Orphan, Remembered};
use holo_plugin::Applied;
use holo_plugin::system::Root;
use std::collections::BTreeSet;

impl Run<'_, '_> {
    /// Loads the records of earlier runs.
    pub(super) fn recall(&mut self) {
        self.take_over();
        for index in self.indexes(|_| true) {
            match self.memory.recall::<Record>(&self.items[index].unit.id) {
                Ok(Some(remembered)) => {
                    self.items[index].kept = Some(remembered.base.clone());
                    self.items[index].record = remembered.base;
                }
                Ok(None) => {}
                Err(error) => self.fail(index, &error.to_string()),
            }
            let item = &mut self.items[index];
            item.record.unit = item.unit.name.as_str().to_owned();
            item.record.scope = item.unit.name.scope().clone();
        }
    }

    /// Takes over records saved under other names of the units.
    fn take_over(&mut self) {
        let root = Root::new(self.host.root());
        let provider = self.provider;
        let main_name = |record: &Record| name_of(provider, &root, record);
        for index in self.indexes(|_| true) {
            let unit = self.items[index].unit;
            let EntityRecords::Living(legacy) = &unit.records else { continue };
            if legacy.is_empty() {
                continue;
            }
            let output = &mut self.answers.output(self.items[index].job);
            if let Err(error) = self.memory.take_over(&unit.full_report, legacy, &things(&main_name), output) {
                self.fail(index, &error.to_string());
            }
        }
    }

    /// Removes the records of restored units.
    pub(super) fn forget_orphans(&mut self, indexes: &[ItemIndex]) {
        let orphan = |&index: &ItemIndex| match &self.items[index].unit.records {
            EntityRecords::Orphan(orphan) => Some((index, &**orphan)),
            EntityRecords::Living(_) => None,
        };
        let orphans: Vec<(ItemIndex, &Orphan<Record>)> = indexes.iter().filter_map(orphan).collect();
        if self.forget(orphans.iter().map(|(_, orphan)| *orphan)).is_ok() {
            return;
        }
        // If one record cannot be removed, the others still are.
        for (index, orphan) in orphans {
            if let Err(error) = self.forget([orphan]) {
                self.fail(index, &error.to_string());
            }
        }
    }

    fn forget<'o>(&self, orphans: impl IntoIterator<Item = &'o Orphan<Record>>) -> holo_change::error::Result<()> {
        let root = Root::new(self.host.root());
        self.memory.forget_orphans(orphans, &things(&|record| name_of(self.provider, &root, record)))
    }

    pub(super) fn keep_bases(&mut self) {
        self.keep(&self.indexes(|item| !item.steps.is_empty()));
    }

    /// Saves the states of units to disk before steps change them.
    pub(super) fn keep(&mut self, indexes: &[ItemIndex]) {
        for &index in indexes {
            self.note_also(index);
            let item = &mut self.items[index];
            if !item.unit.is_orphan() {
                item.steps.iter().for_each(|step| item.record.note(*step, &item.state));
            }
        }
        let indexes: Vec<ItemIndex> = indexes.iter().copied().filter(|&index| self.is_to_keep(index)).collect();
        let remembered = |&index: &ItemIndex| {
            let item: &Item<'_> = &self.items[index];
            Remembered::new(&item.unit.full_report, item.record.clone())
        };
        let all: Vec<Remembered<Record>> = indexes.iter().map(remembered).collect();
        match self.memory.keep_all(&all) {
            Ok(()) => {
                for index in indexes {
                    let item = &mut self.items[index];
                    item.kept = Some(item.record.clone());
                }
            }
            Err(error) => indexes.into_iter().for_each(|index| self.fail(index, &error.to_string())),
        }
    }

    /// Returns true if a unit's record must be saved. An unchanged unit needs none.
    fn is_to_keep(&self, index: ItemIndex) -> bool {
        let item = &self.items[index];
        let is_known = item.kept.as_ref().map_or(item.record.is_empty(), |kept| *kept == item.record);
        !item.unit.is_orphan() && !is_known
    }
}

/// An error while reloading units' files.
pub(super) struct ReadError {
    pub(super) error: ApplyError,
    /// The result of the units that depend on it.
    pub(super) applied: Applied,
}

/// Reloads the files of all units if any has changed. Returns the names of changed files that belong to none of these
/// units.
///
/// A manager may report that the files of units are outdated, but not for units that received their first drop-in, or a
/// file that overrides another.
pub(super) fn read_changed_files(manager: &dyn Manager, items: &mut [Item<'_>]) -> Result<BTreeSet<String>, ReadError> {
    let cannot = |error, applied| ReadError { error: ApplyError::Files(error), applied };
    let mut changes = manager.unread_files().map_err(|error| cannot(error, Applied::FAILED_UNCHANGED))?;
    if changes.is_empty() {
        return Ok(BTreeSet::new());
    }
    manager.read_files(&Scope::System).map_err(|error| {
        // After a timeout, they may have been reloaded.
        let is_unread = manager.unread_files().is_ok_and(|unread| unread == changes);
        cannot(error, if is_unread { Applied::FAILED_UNCHANGED } else { Applied::FAILED })
    })?;
    let mut told = BTreeSet::new();
    for item in items {
        let own = item.unit.file_names();
        if !own.is_disjoint(&changes) {
            item.note_read();
        }
        told.extend(own);
    }
    // A new file in a directory is reported by its own name. A removed one may have been removed after all units, which
    // need not be reported.
    changes.retain(|name| name != FOLDER && !told.contains(name));
    Ok(changes)
}

/// Describes reloading changed files, worded to follow "would", or to stand alone.
pub(crate) fn words_for(names: &BTreeSet<String>) -> String {
    match &names.iter().collect::<Vec<_>>()[..] {
        [] => "read the files of units again".to_owned(),
        [name] => format!("read {name} again"),
        [first, second] => format!("read {first} and {second} again"),
        [first, rest @ ..] => format!("read {first} and {} other files of units again", rest.len()),
    }
}

impl Run<'_, '_> {
    /// Reloads all files if those of any unit have changed: single units cannot be reloaded.
    pub(super) fn read_files(&mut self) -> Result<(), ApplyError> {
        let outdated = self.indexes(|item| item.state.is_outdated);
        if outdated.is_empty() {
            return Ok(());
        }
        for &index in &outdated {
            self.begin(index);
        }
        for &index in &outdated {
            self.items[index].is_tried = true;
        }
        let scopes: BTreeSet<Scope> =
            outdated.iter().map(|&index| self.items[index].unit.name.scope().clone()).collect();
        for scope in scopes {
            self.read_files_of(&scope)?;
        }
        let outdated: Vec<ItemIndex> = outdated.into_iter().filter(|&index| self.items[index].is_at_work()).collect();

        for &index in &outdated {
            self.items[index].note_read();
        }
        self.query(&self.indexes(|_| true))
    }

    /// Reloads the files of one manager. If a user's manager fails, only that user's units fail.
    fn read_files_of(&mut self, scope: &Scope) -> Result<(), ApplyError> {
        match self.manager.read_files(scope).map_err(ApplyError::Files) {
            Err(error) if !scope.is_system() => {
                for index in self.indexes(|item| item.state.is_outdated && item.unit.name.scope() == scope) {
                    self.fail(index, &error.to_string());
                }
                Ok(())
            }
            read => read,
        }
    }
}
