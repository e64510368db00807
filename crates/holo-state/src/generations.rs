//! The saved inputs of runs, and the values that entities reported, as JSON that the caller interprets.
//!
//! An input that does not change from one generation to the next is one row.

use crate::{Database, Durability, StateError};
use bstr::{BString, ByteSlice};
use rusqlite::{OptionalExtension, Transaction};

/// A file, directory or symlink of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its path, relative to the root.
    pub path: BString,
    /// Its kind and attributes.
    pub value: String,
    /// The digest of the content of a file.
    pub content: Option<String>,
    /// The stamp of a file when its content was read, if any later change results in a different one.
    pub stamp: Option<Vec<u8>>,
}

impl Database {
    /// Returns the numbers and metadata of all generations, in order.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn generations(&self) -> Result<Vec<(u32, String)>, StateError> {
        let read = self.read(|connection| {
            let mut query = connection.prepare("SELECT number, value FROM generation ORDER BY number")?;
            query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        });
        read.map(Option::unwrap_or_default)
    }

    /// Returns the number of the next generation. Numbers are never reused.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn next_generation(&self) -> Result<u32, StateError> {
        let last = self.read(|connection| {
            let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'generation'";
            connection.query_row(sql, [], |row| row.get::<_, u32>(0)).optional()
        });
        Ok(last?.flatten().map_or(1, |last| last + 1))
    }

    /// Returns the inputs of a generation, in the order of their paths.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn inputs(&self, generation: u32) -> Result<Vec<Input>, StateError> {
        let read = self.read(|connection| {
            let sql = "SELECT path, value, content, stamp FROM input
                WHERE since <= ?1 AND (until IS NULL OR until > ?1) ORDER BY path";
            let mut query = connection.prepare(sql)?;
            let input = |row: &rusqlite::Row<'_>| {
                let path = row.get::<_, Vec<u8>>(0)?.into();
                Ok(Input { path, value: row.get(1)?, content: row.get(2)?, stamp: row.get(3)? })
            };
            query.query_map([generation], input)?.collect()
        });
        read.map(Option::unwrap_or_default)
    }

    /// Adds a generation, which differs from the last one by these inputs.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn add_generation(
        &self,
        number: u32,
        value: &str,
        removed: &[BString],
        added: &[Input],
    ) -> Result<(), StateError> {
        self.write(Durability::Disk, |transaction| {
            transaction.execute("INSERT INTO generation (number, value) VALUES (?1, ?2)", (number, value))?;
            let mut end = transaction.prepare("UPDATE input SET until = ?2 WHERE path = ?1 AND until IS NULL")?;
            for path in removed.iter().chain(added.iter().map(|input| &input.path)) {
                end.execute((path.as_bytes(), number))?;
            }
            let sql = "INSERT INTO input (path, since, value, content, stamp) VALUES (?1, ?2, ?3, ?4, ?5)";
            let mut insert = transaction.prepare(sql)?;
            for Input { path, value, content, stamp } in added {
                insert.execute((path.as_bytes(), number, value, content, stamp))?;
            }
            Ok(())
        })
    }

    /// Replaces the stamps of inputs of the last generation.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn stamp_inputs(&self, stamps: &[(BString, Option<Vec<u8>>)]) -> Result<(), StateError> {
        if stamps.is_empty() {
            return Ok(());
        }
        self.write(Durability::Process, |transaction| {
            let mut update = transaction.prepare("UPDATE input SET stamp = ?2 WHERE path = ?1 AND until IS NULL")?;
            stamps.iter().try_for_each(|(path, stamp)| update.execute((path.as_bytes(), stamp)).map(drop))
        })
    }

    /// Removes generations, and the inputs that only they have.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn remove_generations(&self, numbers: &[u32]) -> Result<(), StateError> {
        self.write(Durability::Disk, |transaction| {
            let mut remove = transaction.prepare("DELETE FROM generation WHERE number = ?1")?;
            numbers.iter().try_for_each(|number| remove.execute([number]).map(drop))?;
            let sql = "DELETE FROM input WHERE until IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM generation WHERE number >= since AND number < until)";
            transaction.execute(sql, []).map(drop)
        })
    }

    /// Returns the digests of the contents of all inputs.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn input_contents(&self) -> Result<Vec<String>, StateError> {
        self.texts("SELECT DISTINCT content FROM input WHERE content IS NOT NULL")
    }

    /// Returns the records of reported values, in their order.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn value_records(&self) -> Result<Vec<String>, StateError> {
        self.texts("SELECT record FROM reported_value ORDER BY sequence")
    }

    fn texts(&self, sql: &str) -> Result<Vec<String>, StateError> {
        let read = self.read(|connection| connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect());
        read.map(Option::unwrap_or_default)
    }

    /// Adds records of reported values.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn add_value_records(&self, records: &[String]) -> Result<(), StateError> {
        self.write(Durability::Process, |transaction| insert_values(transaction, records))
    }

    /// Replaces all records of reported values.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn replace_value_records(&self, records: &[String]) -> Result<(), StateError> {
        self.write(Durability::Disk, |transaction| {
            transaction.execute("DELETE FROM reported_value", [])?;
            insert_values(transaction, records)
        })
    }
}

fn insert_values(transaction: &Transaction<'_>, records: &[String]) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare("INSERT INTO reported_value (record) VALUES (?1)")?;
    records.iter().try_for_each(|record| insert.execute([record]).map(drop))
}
