//! Records of objects that another entity manages now. That entity takes them over, so that the base remains the
//! original one.

use super::{BaseStore, Remembered};
use crate::error::{Notices, Result};
use holo_protocol::report::EntityReport;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};

/// The records of a plugin that must be processed. Its objects can have several names.
#[derive(Debug)]
pub struct Records<T> {
    /// The records that a defined entity must take over, by its ID.
    pub legacies: BTreeMap<String, Legacy<T>>,
    /// The entities without definition.
    pub orphans: Vec<Orphan<T>>,
}

/// The records that a defined entity must process before any other change.
#[derive(Clone, Debug)]
pub struct Legacy<T> {
    /// The records of other entities for the object that it manages.
    records: Vec<Remembered<T>>,
    /// True if its own record is for another object, which it managed before.
    is_displaced: bool,
}

/// An entity without definition.
#[derive(Clone, Debug)]
pub struct Orphan<T> {
    /// Its record, under its current ID.
    pub remembered: Remembered<T>,
    /// The ID under which the record is stored.
    kept_as: String,
}

impl<T> Default for Records<T> {
    fn default() -> Self {
        Records { legacies: BTreeMap::new(), orphans: Vec::new() }
    }
}

impl<T> Default for Legacy<T> {
    fn default() -> Self {
        Legacy { records: Vec::new(), is_displaced: false }
    }
}

impl<T> Legacy<T> {
    /// Returns true if there is nothing to process.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && !self.is_displaced
    }

    /// Returns the base that the entity takes over if it has none of its own.
    #[must_use]
    pub fn base(&self) -> Option<&T> {
        self.records.first().map(|remembered| &remembered.base)
    }
}

/// The names of the objects that the entities of a plugin manage.
pub struct Things<'a, T> {
    /// The entity type, which is the first part of the IDs.
    pub entity_type: &'a str,
    /// Returns the canonical name of the object of a base.
    pub name_of: &'a dyn Fn(&T) -> String,
}

impl<T> Things<'_, T> {
    /// Returns the ID of an entity whose previous ID belongs to another object now.
    fn id(&self, base: &T) -> String {
        format!("{}:{}", self.entity_type, (self.name_of)(base))
    }
}

impl BaseStore {
    /// Sorts all records by the entity that must process them. `living` contains the name of the object of each defined
    /// entity, by ID; `is_orphan` returns true for IDs without definition.
    ///
    /// A record of an object that is defined under another ID is passed to that entity.
    ///
    /// # Errors
    /// If the records cannot be listed.
    pub fn records<T: DeserializeOwned>(
        &self,
        living: &BTreeMap<String, String>,
        things: &Things<'_, T>,
        is_orphan: impl Fn(&str) -> bool,
        notices: &mut dyn Notices,
    ) -> Result<Records<T>> {
        let all = self.all_of::<T>(&format!("{}:", things.entity_type), notices)?;
        let owners: BTreeMap<&String, &String> = living.iter().map(|(id, name)| (name, id)).collect();
        let mut records = Records::default();
        for (kept_as, mut remembered) in all {
            let name = (things.name_of)(&remembered.base);
            let own = living.get(&kept_as);
            if own == Some(&name) || (own.is_none() && !is_orphan(&kept_as)) {
                continue;
            }
            if own.is_some() {
                records.legacies.entry(kept_as.clone()).or_default().is_displaced = true;
            }
            if let Some(owner) = owners.get(&name) {
                records.legacies.entry((*owner).clone()).or_default().records.push(remembered);
                continue;
            }
            if own.is_some() {
                remembered.id = things.id(&remembered.base);
            }
            if is_orphan(&remembered.id) {
                records.orphans.push(Orphan { remembered, kept_as });
            }
        }
        Ok(records)
    }

    /// Takes over the records of other entities. The entity's own record is on disk before theirs are removed.
    ///
    /// # Errors
    /// If a record cannot be read, written or removed. The next apply continues in this case.
    pub fn take_over<T: Clone + Serialize + DeserializeOwned>(
        &self,
        report: &EntityReport,
        legacy: &Legacy<T>,
        things: &Things<'_, T>,
        notices: &mut dyn Notices,
    ) -> Result<()> {
        let id = report.id.to_string();
        let mut own = self.recall::<T>(&id)?;
        if legacy.is_displaced
            && let Some(displaced) = own.take()
        {
            // The object has become an orphan, or belongs to another entity. Its record must not be lost with this ID.
            let moved = Remembered { id: things.id(&displaced.base), ..displaced };
            if moved.id != id {
                self.keep_first(&moved)?;
            }
        }
        match legacy.base() {
            Some(base) if own.is_none() => self.keep(&Remembered::new(report, base.clone()))?,
            None if own.is_none() => self.forget(&id)?,
            _ => {}
        }
        for left in &legacy.records {
            self.forget_thing(&left.id, &left.base, things)?;
            notices.taken_over(&id, &left.id);
        }
        Ok(())
    }

    /// Removes the records of orphans, including those that have been moved, with a single sync.
    ///
    /// # Errors
    /// If a record cannot be read or removed. Some records may have been removed then.
    pub fn forget_orphans<'o, T: DeserializeOwned + 'o>(
        &self,
        orphans: impl IntoIterator<Item = &'o Orphan<T>>,
        things: &Things<'_, T>,
    ) -> Result<()> {
        let mut ids = BTreeSet::new();
        for Orphan { remembered, kept_as } in orphans {
            for id in BTreeSet::from([kept_as, &remembered.id]) {
                if self.is_about(id, &remembered.base, things)? {
                    ids.insert(id);
                }
            }
        }
        self.forget_all(&Vec::from_iter(ids))
    }

    /// Removes the record of an ID if it is for this object.
    fn forget_thing<T: DeserializeOwned>(&self, id: &str, base: &T, things: &Things<'_, T>) -> Result<()> {
        if self.is_about(id, base, things)? { self.forget(id) } else { Ok(()) }
    }

    fn is_about<T: DeserializeOwned>(&self, id: &str, base: &T, things: &Things<'_, T>) -> Result<bool> {
        let name = (things.name_of)(base);
        Ok(self.recall::<T>(id)?.is_some_and(|kept| (things.name_of)(&kept.base) == name))
    }
}

#[cfg(test)]
mod tests;
