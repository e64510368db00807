//! The directories that were created on the way to managed paths, and are removed when they are empty.

use crate::{Database, Durability, StateError};

impl Database {
    /// Returns all directories, each with a plugin that has created it. Parents precede their children.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn directories(&self) -> Result<Vec<(Vec<u8>, String)>, StateError> {
        let read = self.read(|connection| {
            let mut query = connection.prepare_cached("SELECT path, plugin FROM directory ORDER BY path")?;
            query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        });
        read.map(Option::unwrap_or_default)
    }

    /// Returns true if a plugin has created a directory.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn has_directory(&self, path: &[u8]) -> Result<bool, StateError> {
        let read = self
            .read(|connection| connection.prepare_cached("SELECT 1 FROM directory WHERE path = ?1")?.exists([path]));
        read.map(Option::unwrap_or_default)
    }

    /// Adds directories that a plugin is about to create. When this returns, they are on disk.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn add_directories<'a>(
        &self,
        plugin: &str,
        paths: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), StateError> {
        let mut paths = paths.into_iter().peekable();
        if paths.peek().is_none() {
            return Ok(());
        }
        self.write(Durability::Disk, |transaction| {
            let sql = "INSERT INTO directory (path, plugin) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
            let mut insert = transaction.prepare_cached(sql)?;
            paths.try_for_each(|path| insert.execute((path, plugin)).map(drop))
        })
    }

    /// Removes directories, whichever plugin has created them.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn remove_directories<'a>(&self, paths: impl IntoIterator<Item = &'a [u8]>) -> Result<(), StateError> {
        let mut paths = paths.into_iter().peekable();
        if paths.peek().is_none() {
            return Ok(());
        }
        self.write(Durability::Disk, |transaction| {
            let mut delete = transaction.prepare_cached("DELETE FROM directory WHERE path = ?1")?;
            paths.try_for_each(|path| delete.execute([path]).map(drop))
        })
    }
}
