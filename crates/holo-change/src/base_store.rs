//! The bases of entities: one record per entity in the state database, kept from before the first change until the
//! orphaned entity is scrubbed.

mod succession;

use crate::error::{Notices, PathError, Result};
use crate::locations::{Locations, SharedDatabase};
use holo_protocol::report::{Action, Asset, EntityReport};
use holo_state::{Durability, StateError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

pub use succession::{Legacy, Orphan, Records, Things};

pub use holo_state::ChangeCounter;
pub(crate) use holo_state::RecordChange;

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

    /// Returns all records except invalid ones.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub(crate) fn all_valid<T: DeserializeOwned>(&self) -> Result<Vec<Remembered<T>>> {
        let mut all = Vec::new();
        let add = |_: &str, text: &str| all.extend(serde_json::from_str(text).ok());
        readable(self.database.lock().each_record(&self.store, "", add))?;
        Ok(all)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The messages for unreadable records.
    #[derive(Default)]
    struct Unreadable(Vec<String>);

    impl Notices for Unreadable {
        fn unreadable_record(&mut self, error: &PathError) {
            self.0.push(error.to_string());
        }

        fn taken_over(&mut self, _: &str, _: &str) {}
    }

    fn store(folder: &Path) -> BaseStore {
        BaseStore::open(&Locations::new("/".into(), folder.join("x"), "x".into()))
    }

    fn remembered(id: &str, base: u32) -> Remembered<u32> {
        let mut report = EntityReport::new(id);
        report.edges.needs.push(Asset::new("user", "fred"));
        report.edges.requires.push("a:b".into());
        Remembered::new(&report, base)
    }

    #[test]
    fn first_record_is_kept_until_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        assert_eq!(store.recall::<u32>("a:b").unwrap(), None);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "reading creates no database");
        let long = format!("file:/{}", "x/".repeat(300));
        let other = format!("{long}y");
        for (number, id) in (0..).zip(["package:nginx", "file:/etc/a b", &long, &other]) {
            store.keep_first(&remembered(id, number)).unwrap();
            store.keep_first(&remembered(id, 99)).unwrap();
            assert_eq!(store.recall(id).unwrap(), Some(remembered(id, number)));
        }
        store.keep_all(&[remembered(&long, 7), remembered(&other, 8)]).unwrap();
        assert_eq!(store.recall(&long).unwrap(), Some(remembered(&long, 7)));
        let all = store.all::<u32>(&mut Unreadable::default()).unwrap();
        assert_eq!((all.len(), store.ids().unwrap()), (4, all.keys().cloned().collect()));
        assert_eq!(store.all_of::<u32>("file:", &mut Unreadable::default()).unwrap().len(), 3);
        store.forget_all(&Vec::from_iter(all.keys())).unwrap();
        assert_eq!(store.ids().unwrap(), [""; 0]);
    }

    #[test]
    fn kinds_and_plugins_have_separate_records() {
        let folder = tempfile::tempdir().unwrap();
        let locations = Locations::new("/".into(), folder.path().join("x"), "x".into());
        let kind = BaseStore::open_kind(&locations, "access");
        kind.keep(&remembered("a:b", 1)).unwrap();
        assert_eq!(BaseStore::open(&locations).ids().unwrap(), [""; 0]);
        assert_eq!(BaseStore::of(&locations, "y", "access").ids().unwrap(), [""; 0]);
        assert_eq!(BaseStore::of(&locations, "x", "access").ids().unwrap(), ["a:b"]);
    }

    #[test]
    fn invalid_record_is_named_and_left_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        store.keep(&remembered("a:b", 1)).unwrap();
        store.keep(&Remembered::new(&EntityReport::new("c:d"), "text")).unwrap();
        let mut unreadable = Unreadable::default();
        let all = store.all::<u32>(&mut unreadable).unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["a:b"]);
        let problem = &unreadable.0[0];
        assert!(problem.contains("state.db, record c:d of x: invalid type"), "{problem}");
        assert_eq!(store.all_valid::<u32>().unwrap().len(), 1);
        assert!(store.recall::<u32>("c:d").is_err() && store.text("c:d").unwrap().is_some());
    }

    #[test]
    fn an_orphan_has_the_edges_that_it_had() {
        let report = remembered("user:fred", 1).orphan_report();
        assert!(report.edges.orphan);
        assert_eq!(report.edges.needs, [Asset::new("user", "fred")]);
        assert_eq!(report.edges.after, ["a:b"]);
    }
}
