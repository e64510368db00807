//! Contents of files, each stored once.

use crate::{Database, Durability, StateError};
use rusqlite::OptionalExtension;

impl Database {
    /// Returns a content, whichever store uses it.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn blob(&self, digest: &str) -> Result<Option<Vec<u8>>, StateError> {
        let read = self.read(|connection| {
            let mut query = connection.prepare_cached("SELECT content FROM blob WHERE digest = ?1")?;
            query.query_row([digest], |row| row.get(0)).optional()
        });
        read.map(Option::flatten)
    }

    /// Returns true if a store uses a content.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn has_blob(&self, store: &str, digest: &str) -> Result<bool, StateError> {
        let read = self.read(|connection| {
            let mut query = connection.prepare_cached("SELECT 1 FROM blob_use WHERE store = ?1 AND digest = ?2")?;
            query.exists([store, digest])
        });
        Ok(read?.unwrap_or(false))
    }

    /// Writes contents, which a store uses. They are on disk when a later transaction is.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn write_blobs<'a>(
        &self,
        store: &str,
        blobs: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<(), StateError> {
        self.write(Durability::Process, |transaction| {
            let mut insert = transaction
                .prepare_cached("INSERT INTO blob (digest, content) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?;
            let mut used = transaction.prepare_cached(USE)?;
            for (digest, content) in blobs {
                insert.execute((digest, content))?;
                used.execute([store, digest])?;
            }
            Ok(())
        })
    }

    /// Lets another store use a content. Returns false if the content does not exist.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn share_blob(&self, store: &str, digest: &str) -> Result<bool, StateError> {
        self.write(Durability::Process, |transaction| {
            let exists = transaction.prepare_cached("SELECT 1 FROM blob WHERE digest = ?1")?.exists([digest])?;
            if exists {
                transaction.prepare_cached(USE)?.execute([store, digest])?;
            }
            Ok(exists)
        })
    }

    /// Removes the contents of a store except those for which a function returns true, unless other stores use them.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn keep_blobs(&self, store: &str, is_used: impl Fn(&str) -> bool) -> Result<(), StateError> {
        let read = self.read(|connection| {
            let mut query = connection.prepare_cached("SELECT digest FROM blob_use WHERE store = ?1")?;
            query.query_map([store], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()
        });
        let mut unused = read?.unwrap_or_default();
        unused.retain(|digest| !is_used(digest));
        if unused.is_empty() {
            return Ok(());
        }
        self.write(Durability::Disk, |transaction| {
            let mut release = transaction.prepare_cached("DELETE FROM blob_use WHERE store = ?1 AND digest = ?2")?;
            let mut remove = transaction.prepare_cached(
                "DELETE FROM blob WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM blob_use WHERE digest = ?1)",
            )?;
            for digest in &unused {
                release.execute([store, digest])?;
                remove.execute([digest])?;
            }
            Ok(())
        })
    }
}

const USE: &str = "INSERT INTO blob_use (store, digest) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
