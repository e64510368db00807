//! The records of entities.

use crate::remembered::note_change;
use crate::{Database, Durability, StateError};
use rusqlite::OptionalExtension;

impl Database {
    /// Calls a function with the key and the JSON of each record of a store whose key has this prefix, in the order of the keys.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn each_record(&self, store: &str, prefix: &str, mut act: impl FnMut(&str, &str)) -> Result<(), StateError> {
        let read = self.read(|connection| {
            let sql = "SELECT entity, value FROM record WHERE store = ?1 AND entity >= ?2 ORDER BY entity";
            let mut query = connection.prepare_cached(sql)?;
            let mut rows = query.query((store, prefix))?;
            while let Some(row) = rows.next()? {
                let key = row.get_ref(0)?.as_str()?;
                if !key.starts_with(prefix) {
                    break;
                }
                act(key, row.get_ref(1)?.as_str()?);
            }
            Ok(())
        });
        read.map(Option::unwrap_or_default)
    }

    /// Returns the keys of the records of a store, in order.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn record_keys(&self, store: &str) -> Result<Vec<String>, StateError> {
        let read = self.read(|connection| {
            let mut query = connection.prepare_cached("SELECT entity FROM record WHERE store = ?1 ORDER BY entity")?;
            query.query_map([store], |row| row.get(0))?.collect()
        });
        read.map(Option::unwrap_or_default)
    }

    /// Returns the JSON of a record.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn record(&self, store: &str, key: &str) -> Result<Option<String>, StateError> {
        let read = self.read(|connection| {
            let mut query = connection.prepare_cached("SELECT value FROM record WHERE store = ?1 AND entity = ?2")?;
            query.query_row((store, key), |row| row.get(0)).optional()
        });
        read.map(Option::flatten)
    }

    /// Returns the stores that have records, in order.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn record_stores(&self) -> Result<Vec<String>, StateError> {
        let read = self.read(|connection| {
            let mut query = connection.prepare_cached("SELECT DISTINCT store FROM record ORDER BY store")?;
            query.query_map([], |row| row.get(0))?.collect()
        });
        read.map(Option::unwrap_or_default)
    }

    /// Writes and removes records, in one transaction.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn write_records(&self, changes: &[RecordChange], durability: Durability) -> Result<(), StateError> {
        // Without a database, there are no records to remove.
        if changes.iter().all(|change| change.value.is_none()) && self.read(|_| Ok(()))?.is_none() {
            return Ok(());
        }
        self.write(durability, |transaction| {
            let mut insert = transaction
                .prepare_cached("INSERT OR REPLACE INTO record (store, entity, value) VALUES (?1, ?2, ?3)")?;
            let mut delete = transaction.prepare_cached("DELETE FROM record WHERE store = ?1 AND entity = ?2")?;
            for RecordChange { store, key, value } in changes {
                match value {
                    Some(value) => insert.execute((store, key, value))?,
                    None => delete.execute((store, key))?,
                };
                note_change(transaction, store, key)?;
            }
            Ok(())
        })
    }
}

/// A change of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordChange {
    /// The store of the record.
    pub store: String,
    /// The key of the record.
    pub key: String,
    /// Its new JSON; `None` if the record is removed.
    pub value: Option<String>,
}
