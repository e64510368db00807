//! Records during an apply: states of units, saved before they are changed, and facts that later runs cannot determine.

use super::item::Item;
use super::{ItemIndex, Run};
use crate::entity::EntityRecords;
use crate::names::{name_of, things};
use crate::record::Record;
use holo_change::base_store::{Orphan, Remembered};
use holo_plugin::system::Root;

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
