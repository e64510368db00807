//! What `holo state` does: looks at the database as a whole, and saves what can be read of a damaged one.

use crate::export::{columns, copy_rows, table_names};
use crate::{Access, Damage, Database, StateError, configured};
use rusqlite::{Connection, OpenFlags};
use std::fs;
use std::io;
use std::path::PathBuf;

/// The number of rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSize {
    /// Its name.
    pub name: String,
    /// The number of its rows.
    pub rows: u64,
}

/// The result of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The path that the damaged file was moved to.
    pub damaged: PathBuf,
    /// The rows that were saved.
    pub saved: Vec<TableSize>,
    /// The tables of which rows may be lost.
    pub incomplete: Vec<String>,
}

impl Database {
    /// Returns the tables, each with the number of its rows.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn tables(&self) -> Result<Vec<TableSize>, StateError> {
        let read = self.read(|connection| {
            let size = |name: String| {
                let count = format!("SELECT count(*) FROM \"{name}\"");
                let rows: i64 = connection.query_row(&count, [], |row| row.get(0))?;
                Ok(TableSize { name, rows: rows.unsigned_abs() })
            };
            table_names(connection)?.into_iter().map(size).collect()
        });
        read.map(Option::unwrap_or_default)
    }

    /// Checks every page and every reference. Returns the errors found.
    ///
    /// # Errors
    /// If the database cannot be opened.
    pub fn integrity(&self) -> Result<Vec<String>, StateError> {
        let checked = self.read(|connection| {
            let mut found: Vec<String> = texts(connection, "PRAGMA integrity_check(100)")?;
            found.retain(|line| line != "ok");
            let dangling = "SELECT 'a row of ' || \"table\" || ' refers to a missing row of ' || parent FROM pragma_foreign_key_check";
            found.extend(texts(connection, dangling)?);
            Ok(found)
        });
        match checked {
            Err(error) => error.damage().map(|Damage(detail)| vec![detail.clone()]).ok_or(error),
            Ok(found) => Ok(found.unwrap_or_default()),
        }
    }

    /// Moves the database aside and writes a new one with every row that can be read. Call it only while holding the lock of the root.
    ///
    /// # Errors
    /// If the files cannot be moved or the new database cannot be written. The damaged database is complete in any case, under its old name
    /// or its new one.
    pub fn repair(&self, suffix: &str) -> Result<Repaired, StateError> {
        self.close();
        let moved = |path: &PathBuf| {
            let mut moved = path.clone().into_os_string();
            moved.push(suffix);
            PathBuf::from(moved)
        };
        let [damaged, log, index] = self.files();
        let io = |error| self.problem(crate::Problem::Io(error));
        // SQLite expects the log next to the moved database, under a corresponding name.
        let new = moved(&damaged);
        let [_, new_log, _] = Database::with_access(new.clone(), Access::Read).files();
        match fs::rename(&log, new_log) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        fs::rename(&damaged, &new).map_err(io)?;
        crate::remove(&index).map_err(io)?;
        let mut repaired = Repaired { damaged: new.clone(), saved: Vec::new(), incomplete: Vec::new() };
        let source = configured(&new, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(|error| self.error(error))?;
        self.write(crate::Durability::Disk, |transaction| {
            transaction.pragma_update(None, "defer_foreign_keys", true)?;
            for name in table_names(transaction)? {
                let (rows, is_complete) = salvage(&source, transaction, &name)?;
                if !is_complete {
                    repaired.incomplete.push(name.clone());
                }
                repaired.saved.push(TableSize { name, rows });
            }
            // Rows that refer to a lost one are of no use.
            transaction.execute("DELETE FROM run_entry WHERE run NOT IN (SELECT sequence FROM run)", [])?;
            transaction.execute("DELETE FROM blob_use WHERE digest NOT IN (SELECT digest FROM blob)", [])?;
            Ok(())
        })?;
        Ok(repaired)
    }
}

fn texts(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

/// Copies the rows of a table that can be read: from its beginning up to the damage, then from its end down to it.
fn salvage(source: &Connection, target: &Connection, table: &str) -> rusqlite::Result<(u64, bool)> {
    let Ok(columns) = columns(source, table) else { return Ok((0, false)) };
    if columns.is_empty() {
        return Ok((0, false));
    }
    let (mut rows, mut is_complete) = (0, true);
    for order in ["", " ORDER BY 1 DESC"] {
        let sql = format!("SELECT * FROM \"{table}\"{order}");
        let copied =
            source.prepare(&sql).map_or((0, false), |mut query| copy_rows(&mut query, target, table, &columns));
        rows += copied.0;
        is_complete = copied.1;
        if is_complete {
            break;
        }
    }
    Ok((rows, is_complete))
}
