//! The bases of entities: one record per entity in the state database, kept from before the first change until the
//! orphaned entity is scrubbed.

#[cfg(test)]
mod tests;

pub use holo_state::ChangeCounter;
pub(crate) use holo_state::RecordChange;

use crate::error::{Notices, PathError, Result};
use crate::locations::{Locations, SharedDatabase};
use holo_protocol::report::{Action, Asset, EntityReport};
use holo_state::{Durability, StateError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// The records of the entities of a plugin.
#[derive(Clone, Debug)]
pub struct BaseStore {
    database: SharedDatabase,
    /// The key of the store: the plugin, and the kind of its records if it has several.
    store: String,
}

/// The record of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remembered<T> {
    /// The ID of the entity.
    pub id: String,
    /// The assets that the entity needed in its last definition. An orphan is scrubbed before them.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    needs: Box<[(String, String)]>,
    /// The assets that the entity provided in its last definition. An orphan is scrubbed after the entities that needed
    /// them.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    provides: Box<[(String, String)]>,
    /// The assets that the entity owned in its last definition. Their new owner takes over from this entity.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    owns: Box<[(String, String)]>,
    /// The entities that this entity came after.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    after: Box<[String]>,
    /// The original state.
    pub base: T,
}

impl<T> Remembered<T> {
    /// Creates a record from the original state of an entity, and the edges of its report. IDs and assets that are not
    /// UTF-8 are omitted.
    pub fn new(report: &EntityReport, base: T) -> Remembered<T> {
        let text = |bytes: &bstr::BString| String::from_utf8(bytes.to_vec()).ok();
        let pairs = |assets: &[Asset]| {
            assets.iter().filter_map(|asset| Some((text(&asset.kind)?, text(&asset.value)?))).collect()
        };
        let edges = &report.edges;
        let before = [&edges.after, &edges.requires, &edges.subscribes];
        Remembered {
            id: report.id.to_string(),
            needs: pairs(&edges.needs),
            provides: pairs(&edges.provides),
            owns: pairs(&edges.owns),
            after: before.into_iter().flatten().filter_map(text).collect(),
            base,
        }
    }

    /// Returns the report of an orphan, with its action and its former edges, which are followed in reverse.
    #[must_use]
    pub fn orphan_report(&self) -> EntityReport {
        let mut report = EntityReport::new(self.id.as_str());
        report.action = Action::because("Scrubbing", "all definition files have been deleted");
        let assets = |pairs: &[(String, String)]| {
            pairs.iter().map(|(kind, value)| Asset::new(kind.as_str(), value.as_str())).collect()
        };
        report.edges.orphan = true;
        report.edges.needs = assets(&self.needs);
        report.edges.provides = assets(&self.provides);
        report.edges.owns = assets(&self.owns);
        report.edges.after = self.after.iter().map(|id| id.as_str().into()).collect();
        report
    }
}

impl BaseStore {
    /// Returns the records of the plugin.
    #[must_use]
    pub fn open(locations: &Locations) -> BaseStore {
        BaseStore::of(locations, &locations.plugin(), "")
    }

    /// Returns the records of one kind, for a plugin that has several.
    #[must_use]
    pub fn open_kind(locations: &Locations, kind: &str) -> BaseStore {
        BaseStore::of(locations, &locations.plugin(), kind)
    }

    /// Returns the records of one kind of any plugin.
    pub(crate) fn of(locations: &Locations, plugin: &str, kind: &str) -> BaseStore {
        let separator = if kind.is_empty() { "" } else { "/" };
        BaseStore { database: locations.database().clone(), store: format!("{plugin}{separator}{kind}") }
    }

    /// Returns all records by ID. Unreadable records are reported and left unchanged.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn all<T: DeserializeOwned>(&self, notices: &mut dyn Notices) -> Result<BTreeMap<String, Remembered<T>>> {
        self.all_of("", notices)
    }

    /// Like [`all`](Self::all), for the IDs with a prefix.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn all_of<T: DeserializeOwned>(
        &self,
        prefix: &str,
        notices: &mut dyn Notices,
    ) -> Result<BTreeMap<String, Remembered<T>>> {
        let mut all = BTreeMap::new();
        let mut unreadable = Vec::new();
        let add = |id: &str, text: &str| match serde_json::from_str(text) {
            Ok(remembered) => drop(all.insert(id.to_owned(), remembered)),
            Err(error) => unreadable.push((id.to_owned(), error)),
        };
        readable(self.database.lock().each_record(&self.store, prefix, add))?;
        for (id, error) in unreadable {
            notices.unreadable_record(&self.invalid(&id, error));
        }
        Ok(all)
    }

    /// Reads the texts of all records.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub(crate) fn each_text(&self, mut act: impl FnMut(&str)) -> Result<()> {
        readable(self.database.lock().each_record(&self.store, "", |_, text| act(text)))
    }

    /// Returns the IDs of all records.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn ids(&self) -> Result<Vec<String>> {
        readable(self.database.lock().record_keys(&self.store))
    }

    /// Returns the record of an entity.
    ///
    /// # Errors
    /// If it cannot be read, or is invalid.
    pub fn recall<T: DeserializeOwned>(&self, id: &str) -> Result<Option<Remembered<T>>> {
        self.value(id)
    }

    /// Returns a record of any type.
    pub(crate) fn value<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let text = self.text(key)?;
        text.map(|text| serde_json::from_str(&text).map_err(|error| self.invalid(key, error))).transpose()
    }

    /// Returns the record of an entity as JSON, to notice changes of it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn text(&self, id: &str) -> Result<Option<String>> {
        readable(self.database.lock().record(&self.store, id))
    }

    /// Returns a value that differs after any change of a record.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn change_counter(&self) -> Result<ChangeCounter> {
        self.database.lock().change_counter().map_err(PathError::of_state)
    }

    /// Writes the record of an entity, replacing an existing one. When this returns, the record is on disk.
    ///
    /// # Errors
    /// If the record cannot be written. An existing record remains unchanged then.
    pub fn keep<T: Serialize>(&self, remembered: &Remembered<T>) -> Result<()> {
        self.keep_all([remembered])
    }

    /// Writes the records of several entities, all or none.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn keep_all<'r, T: Serialize + 'r>(&self, all: impl IntoIterator<Item = &'r Remembered<T>>) -> Result<()> {
        let changes = all.into_iter().map(|remembered| self.kept(&remembered.id, remembered));
        self.write(&changes.collect::<Result<Vec<_>>>()?, Durability::Disk)
    }

    /// Returns the change that writes a record.
    pub(crate) fn kept(&self, key: &str, record: &impl Serialize) -> Result<RecordChange> {
        let value = serde_json::to_string(record).map_err(|error| self.invalid(key, error))?;
        Ok(RecordChange { value: Some(value), ..self.forgotten(key) })
    }

    /// Returns the change that removes a record.
    pub(crate) fn forgotten(&self, key: &str) -> RecordChange {
        RecordChange { store: self.store.clone(), key: key.to_owned(), value: None }
    }

    /// Makes changes of records, of this or other stores, in one transaction.
    pub(crate) fn write(&self, changes: &[RecordChange], durability: Durability) -> Result<()> {
        self.database.lock().write_records(changes, durability).map_err(PathError::of_state)
    }

    /// Writes the record of an entity unless it exists, because a base is the state before the first change.
    ///
    /// # Errors
    /// If the record cannot be written, or the existing one is invalid.
    pub fn keep_first<T: Serialize + DeserializeOwned>(&self, remembered: &Remembered<T>) -> Result<()> {
        if self.recall::<T>(&remembered.id)?.is_some() { Ok(()) } else { self.keep(remembered) }
    }

    /// Removes the record of an entity. When this returns, the removal is on disk.
    ///
    /// # Errors
    /// If the record cannot be removed.
    pub fn forget(&self, id: &str) -> Result<()> {
        self.forget_all(&[id])
    }

    /// Removes the records of several entities, all or none.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub fn forget_all(&self, ids: &[impl AsRef<str>]) -> Result<()> {
        let changes: Vec<RecordChange> = ids.iter().map(|id| self.forgotten(id.as_ref())).collect();
        self.write(&changes, Durability::Disk)
    }

    /// Waits until all changes of records are on disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.database.lock().sync().map_err(PathError::of_state)
    }

    fn invalid(&self, id: &str, error: serde_json::Error) -> PathError {
        let database = self.database.lock();
        let shown = format!("{}, record {id} of {}", database.path().display(), self.store);
        PathError::new("read", shown, io::Error::from(error))
    }
}

/// Returns the result of reading. For users who may not read the database, there are no records: they can list and check
/// entities, but not apply them.
pub(crate) fn readable<T: Default>(read: std::result::Result<T, StateError>) -> Result<T> {
    match read {
        Err(error) if error.is_denied() && !rustix::process::geteuid().is_root() => Ok(T::default()),
        read => read.map_err(PathError::of_state),
    }
}

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
