//! Values that entities have sent.

use crate::{Database, Durability, StateError};
use bstr::{BStr, BString};

/// The last value that an entity sent under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentValue {
    /// The ID of the entity.
    pub entity: BString,
    /// The name of the value.
    pub name: BString,
    /// The ID of the entity's plugin.
    pub plugin: String,
    /// The value.
    pub value: BString,
    /// Whether it must not be shown.
    pub is_sensitive: bool,
}

impl Database {
    /// Returns the last values that entities have sent.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn sent_values(&self) -> Result<Vec<SentValue>, StateError> {
        let read = self.read(|connection| {
            let mut query = connection.prepare("SELECT entity, name, plugin, value, is_sensitive FROM sent_value")?;
            let rows = query.query_map([], |row| {
                Ok(SentValue {
                    entity: row.get::<_, Vec<u8>>(0)?.into(),
                    name: row.get::<_, Vec<u8>>(1)?.into(),
                    plugin: row.get(2)?,
                    value: row.get::<_, Vec<u8>>(3)?.into(),
                    is_sensitive: row.get(4)?,
                })
            })?;
            rows.collect()
        });
        read.map(Option::unwrap_or_default)
    }

    /// Writes these values, and removes those of these entities and names.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn write_sent_values<'a>(
        &self,
        put: &[SentValue],
        removed: impl IntoIterator<Item = (&'a BStr, &'a BStr)>,
        durability: Durability,
    ) -> Result<(), StateError> {
        self.write(durability, |transaction| {
            let mut insert = transaction.prepare(
                "INSERT OR REPLACE INTO sent_value (entity, name, plugin, value, is_sensitive) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            for SentValue { entity, name, plugin, value, is_sensitive } in put {
                insert.execute((entity.as_slice(), name.as_slice(), plugin, value.as_slice(), is_sensitive))?;
            }
            let mut delete = transaction.prepare("DELETE FROM sent_value WHERE entity = ?1 AND name = ?2")?;
            for (entity, name) in removed {
                delete.execute::<(&[u8], &[u8])>((entity, name))?;
            }
            Ok(())
        })
    }
}
