//! Records of runs, as JSON that the caller interprets.

use crate::{Database, Durability, StateError};
use bstr::BString;
use rusqlite::{OptionalExtension, Row, Transaction, params_from_iter};

/// The beginning and the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunHeader {
    /// Its place in the order in which runs began.
    pub sequence: i64,
    /// Its ID.
    pub id: String,
    /// The record of its beginning.
    pub began: String,
    /// The record of its end. `None` if it is at work or was killed.
    pub ended: Option<String>,
}

/// The limits of the records that are kept. The newest run is always kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLimits<'a> {
    /// Runs whose ID sorts before this one are removed.
    pub oldest: Option<&'a str>,
    /// The number of bytes of all records. The oldest runs are removed while there are more.
    pub size: u64,
}

const HEADER: &str = "SELECT sequence, id, began, ended FROM run";

impl Database {
    /// Returns runs, the newest first: at most `count` of those that began before the run `before`.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn runs(&self, before: Option<i64>, count: usize) -> Result<Vec<RunHeader>, StateError> {
        let (before, count) = (before.unwrap_or(i64::MAX), i64::try_from(count).unwrap_or(i64::MAX));
        self.headers("WHERE sequence < ?1 ORDER BY sequence DESC LIMIT ?2", (before, count))
    }

    /// Returns the runs whose IDs begin with a text, the newest first.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn runs_by_prefix(&self, prefix: &str) -> Result<Vec<RunHeader>, StateError> {
        self.headers("WHERE substr(id, 1, length(?1)) = ?1 ORDER BY sequence DESC", [prefix])
    }

    /// Returns the runs that are at work or were killed, the newest first.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn unfinished_runs(&self) -> Result<Vec<RunHeader>, StateError> {
        self.headers("WHERE ended IS NULL ORDER BY sequence DESC", [])
    }

    fn headers(&self, clause: &str, parameters: impl rusqlite::Params) -> Result<Vec<RunHeader>, StateError> {
        let read = self.read(|connection| {
            connection.prepare(&format!("{HEADER} {clause}"))?.query_map(parameters, header)?.collect()
        });
        read.map(Option::unwrap_or_default)
    }

    /// Returns the entries of a run, in their order; with texts to look for, those that contain one of them.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn run_entries(&self, run: i64, texts: &[BString]) -> Result<Vec<String>, StateError> {
        let any = vec!["instr(CAST(record AS BLOB), ?) > 0"; texts.len()].join(" OR ");
        let any = if any.is_empty() { String::new() } else { format!("AND ({any})") };
        let sql = format!("SELECT record FROM run_entry WHERE run = {run} {any} ORDER BY sequence");
        let read = self.read(|connection| {
            let parameters = params_from_iter(texts.iter().map(|text| text.as_slice()));
            connection.prepare(&sql)?.query_map(parameters, |row| row.get(0))?.collect()
        });
        read.map(Option::unwrap_or_default)
    }

    /// Returns the record of the last run that had nothing to do.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn idle_run(&self) -> Result<Option<String>, StateError> {
        let read = self
            .read(|connection| connection.query_row("SELECT record FROM idle_run", [], |row| row.get(0)).optional());
        read.map(Option::flatten)
    }

    /// Returns the record of what the last check or apply found.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn standing(&self) -> Result<Option<String>, StateError> {
        let read = self
            .read(|connection| connection.query_row("SELECT record FROM standing", [], |row| row.get(0)).optional());
        read.map(Option::flatten)
    }

    /// Replaces or removes the record of what the last check or apply found. Does not create a database.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn write_standing(&self, record: Option<&str>) -> Result<(), StateError> {
        if self.existing()?.is_none() {
            return Ok(());
        }
        self.write(Durability::Process, |transaction| match record {
            Some(record) => {
                transaction.execute("INSERT OR REPLACE INTO standing (only, record) VALUES (1, ?1)", [record]).map(drop)
            }
            None => transaction.execute("DELETE FROM standing", []).map(drop),
        })
    }

    /// Records that a run begins, and how earlier ones ended, given by their sequence numbers.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn begin_run(&self, id: &str, began: &str, concluded: &[(i64, String)]) -> Result<(), StateError> {
        self.write(Durability::Process, |transaction| {
            for (sequence, ended) in concluded {
                transaction.execute("UPDATE run SET ended = ?2 WHERE sequence = ?1", (sequence, ended))?;
            }
            insert(transaction, id, began, None)
        })
    }

    /// Records a run that has already ended.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn add_run(&self, id: &str, began: &str, ended: &str) -> Result<(), StateError> {
        self.write(Durability::Disk, |transaction| insert(transaction, id, began, Some(ended)))
    }

    /// Adds entries to a run.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn append_run_entries(&self, id: &str, entries: &[String], durability: Durability) -> Result<(), StateError> {
        self.write(durability, |transaction| append(transaction, id, entries))
    }

    /// Records the last entries and the end of a run, and removes records beyond the limits.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn end_run(&self, id: &str, entries: &[String], ended: &str, limits: &RunLimits<'_>) -> Result<(), StateError> {
        self.write(Durability::Disk, |transaction| {
            append(transaction, id, entries)?;
            transaction.execute("UPDATE run SET ended = ?2 WHERE id = ?1", (id, ended))?;
            retain(transaction, limits)
        })
    }

    /// Records that a run had nothing to do. Only the last one of these is kept.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn end_idle_run(&self, id: &str, record: &str) -> Result<(), StateError> {
        self.write(Durability::Process, |transaction| {
            transaction.execute("DELETE FROM run WHERE id = ?1", [id])?;
            transaction.execute("INSERT OR REPLACE INTO idle_run (only, record) VALUES (1, ?1)", [record])?;
            Ok(())
        })
    }
}

fn header(row: &Row<'_>) -> rusqlite::Result<RunHeader> {
    Ok(RunHeader { sequence: row.get(0)?, id: row.get(1)?, began: row.get(2)?, ended: row.get(3)? })
}

fn insert(transaction: &Transaction<'_>, id: &str, began: &str, ended: Option<&str>) -> rusqlite::Result<()> {
    transaction.execute("INSERT INTO run (id, began, ended) VALUES (?1, ?2, ?3)", (id, began, ended)).map(drop)
}

fn append(transaction: &Transaction<'_>, id: &str, entries: &[String]) -> rusqlite::Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    let run: i64 = transaction.query_row("SELECT sequence FROM run WHERE id = ?1", [id], |row| row.get(0))?;
    let mut insert = transaction.prepare("INSERT INTO run_entry (run, record) VALUES (?1, ?2)")?;
    for entry in entries {
        insert.execute((run, entry))?;
    }
    let size: usize = entries.iter().map(String::len).sum();
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    transaction.execute("UPDATE run SET size = size + ?2 WHERE sequence = ?1", (run, size)).map(drop)
}

fn retain(transaction: &Transaction<'_>, limits: &RunLimits<'_>) -> rusqlite::Result<()> {
    let newest = "sequence < (SELECT max(sequence) FROM run)";
    let mut removed = 0;
    if let Some(oldest) = limits.oldest {
        removed += transaction.execute(&format!("DELETE FROM run WHERE id < ?1 AND {newest}"), [oldest])?;
    }
    let beyond = "SELECT sequence FROM (SELECT sequence,
            sum(size + length(began) + ifnull(length(ended), 0)) OVER (ORDER BY sequence DESC) AS total FROM run)
        WHERE total > ?1";
    let size = i64::try_from(limits.size).unwrap_or(i64::MAX);
    removed += transaction.execute(&format!("DELETE FROM run WHERE sequence IN ({beyond}) AND {newest}"), [size])?;
    if removed > 0 {
        transaction.execute_batch("PRAGMA incremental_vacuum")?;
    }
    Ok(())
}
