//! Reloads the files of units if they have changed.

use super::item::Item;
use super::{ApplyError, ItemIndex, Run};
use crate::provider::{FOLDER, Manager};
use crate::scope::Scope;
use holo_plugin::Applied;
use std::collections::BTreeSet;

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
