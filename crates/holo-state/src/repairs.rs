//! What runs that nobody asked for did to entities.

use crate::{Database, Durability, StateError};
use bstr::BString;

/// Creates the table. A database from before repairs were counted gets it with the first one.
pub(crate) const TABLE: &str = include_str!("repairs.sql");

impl Database {
    /// Returns the IDs of the entities that such runs have worked on, each with its record as JSON.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn repairs(&self) -> Result<Vec<(BString, String)>, StateError> {
        let read = self.read(|connection| {
            if !connection.table_exists(None, "repair")? {
                return Ok(Vec::new());
            }
            let mut query = connection.prepare("SELECT entity, record FROM repair")?;
            let rows = query.query_map([], |row| Ok((row.get::<_, Vec<u8>>(0)?.into(), row.get(1)?)))?;
            rows.collect()
        });
        read.map(Option::unwrap_or_default)
    }

    /// Writes these records, and removes those of these entities.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn write_repairs(&self, put: &[(BString, String)], removed: &[BString]) -> Result<(), StateError> {
        self.write(Durability::Process, |transaction| {
            transaction.execute_batch(TABLE)?;
            let mut insert = transaction.prepare("INSERT OR REPLACE INTO repair (entity, record) VALUES (?1, ?2)")?;
            for (entity, record) in put {
                insert.execute((entity.as_slice(), record))?;
            }
            let mut delete = transaction.prepare("DELETE FROM repair WHERE entity = ?1")?;
            for entity in removed {
                delete.execute([entity.as_slice()])?;
            }
            Ok(())
        })
    }
}
