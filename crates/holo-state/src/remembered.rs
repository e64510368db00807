//! What runs found out about plugins, and the records that have changed since.

use crate::{Database, Durability, StateError};
use rusqlite::{Connection, OptionalExtension, Transaction};
use std::collections::{BTreeMap, BTreeSet};

/// What is remembered of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The plugin's ID.
    pub plugin: String,
    /// The dispatcher's own format.
    pub value: Vec<u8>,
    /// The stamps of the files that the value rests on, in the dispatcher's own format.
    pub manifest: Vec<u8>,
    /// The keys of the plugin's records that have changed since the value was written.
    pub changed: BTreeSet<String>,
}

/// What is remembered of all plugins together: there is nothing to do as long as no file of the manifests has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The dispatcher's own format.
    pub value: Vec<u8>,
    /// The manifests of all plugins.
    pub manifests: Vec<Vec<u8>>,
}

impl Database {
    /// Returns what is remembered of all plugins together; `None` if a record has changed since, or a refresh is due.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn settled(&self) -> Result<Option<Settled>, StateError> {
        let read = self.read(|connection| {
            let Some(value) = settled_value(connection)? else { return Ok(None) };
            let mut query = connection.prepare("SELECT manifest FROM remembered")?;
            let manifests = query.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            Ok(Some(Settled { value, manifests }))
        });
        read.map(Option::flatten)
    }

    /// Returns only the [value](Settled::value) of [`settled`](Self::settled). The manifests may be large.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn settled_value(&self) -> Result<Option<Vec<u8>>, StateError> {
        self.read(settled_value).map(Option::flatten)
    }

    /// Returns what is remembered of all plugins.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn remembered(&self) -> Result<Vec<Remembered>, StateError> {
        let mut changes = self.record_changes()?;
        let read = self.read(|connection| {
            let mut query = connection.prepare("SELECT plugin, value, manifest FROM remembered")?;
            let rows = query.query_map([], |row| {
                let plugin: String = row.get(0)?;
                let changed = changes.remove(&plugin).unwrap_or_default();
                Ok(Remembered { plugin, value: row.get(1)?, manifest: row.get(2)?, changed })
            })?;
            rows.collect()
        });
        read.map(Option::unwrap_or_default)
    }

    /// Returns the keys of the records that have changed since their plugin was remembered, by plugin. Every remembered plugin is included.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn record_changes(&self) -> Result<BTreeMap<String, BTreeSet<String>>, StateError> {
        let read = self.read(|connection| {
            let sql = "SELECT remembered.plugin, entity FROM remembered LEFT JOIN record_change USING (plugin)";
            let mut query = connection.prepare(sql)?;
            let mut rows = query.query([])?;
            let mut changes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            while let Some(row) = rows.next()? {
                changes.entry(row.get(0)?).or_default().extend(row.get::<_, Option<String>>(1)?);
            }
            Ok(changes)
        });
        read.map(Option::unwrap_or_default)
    }

    /// Replaces what is remembered of these plugins, and forgets the changes of their records. Only [`Remembered::changed`] of the value
    /// that was read may have been taken into account, so other changes are kept. `settled` replaces [`Settled::value`].
    ///
    /// Does nothing if there is no database.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn remember(&self, remembered: &[Remembered], settled: Option<&[u8]>) -> Result<(), StateError> {
        if self.read(|_| Ok(()))?.is_none() {
            return Ok(());
        }
        self.write(Durability::Process, |transaction| {
            let mut insert = transaction
                .prepare("INSERT OR REPLACE INTO remembered (plugin, value, manifest) VALUES (?1, ?2, ?3)")?;
            let mut delete = transaction.prepare("DELETE FROM record_change WHERE plugin = ?1 AND entity = ?2")?;
            for Remembered { plugin, value, manifest, changed } in remembered {
                insert.execute((plugin, value, manifest))?;
                for key in changed {
                    delete.execute((plugin, key))?;
                }
            }
            match settled {
                Some(value) => transaction.execute("INSERT OR REPLACE INTO settled VALUES (1, ?1)", [value]),
                None => transaction.execute("DELETE FROM settled", []),
            }
            .map(drop)
        })
    }
}

fn settled_value(connection: &Connection) -> rusqlite::Result<Option<Vec<u8>>> {
    let sql = "SELECT value FROM settled WHERE NOT EXISTS (SELECT 1 FROM record_change) AND NOT EXISTS (SELECT 1 FROM refresh)";
    connection.query_row(sql, [], |row| row.get(0)).optional()
}

/// Notes that a record has changed. The store of a record begins with the ID of its plugin.
pub(crate) fn note_change(transaction: &Transaction<'_>, store: &str, key: &str) -> rusqlite::Result<()> {
    let plugin = store.split_once('/').map_or(store, |(plugin, _)| plugin);
    let sql = "INSERT OR IGNORE INTO record_change (plugin, entity) SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM remembered WHERE plugin = ?1)";
    transaction.prepare_cached(sql)?.execute((plugin, key)).map(drop)
}
