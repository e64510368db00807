//! The database as JSON Lines, one row a line: `{"table": "run", "row": {…}}`.
//!
//! Bytes are strings where they are UTF-8 and arrays of numbers elsewhere; the type of the column tells them from text.

use crate::{Database, Durability, StateError};
use holo_protocol::Text;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row, Statement, params_from_iter};
use serde_json::{Map, Value as Json, json};
use std::io::{BufRead, Write};

/// The first line of an export.
const HEADER: &str = "holo state";

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    name: String,
    is_bytes: bool,
}

/// An export cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The database cannot be written.
    #[error(transparent)]
    Database(#[from] StateError),
    /// The input cannot be read.
    #[error("cannot read the export: {0}")]
    Io(#[from] std::io::Error),
    /// A line is not what an export has.
    #[error("line {line}: {reason}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The error.
        reason: String,
    },
    /// The database has rows that an import would mix with.
    #[error("{} is not empty; move it aside first", .0.display())]
    NotEmpty(std::path::PathBuf),
}

impl Database {
    /// Writes every row as a line of JSON.
    ///
    /// # Errors
    /// If the database cannot be read. An error of the writer is returned inside.
    pub fn export(&self, to: &mut dyn Write) -> Result<std::io::Result<()>, StateError> {
        let header = json!({ "format": HEADER, "version": crate::VERSION });
        let mut written = writeln!(to, "{header}");
        self.read(|connection| {
            for table in table_names(connection)? {
                let columns = columns(connection, &table)?;
                let mut query = connection.prepare(&format!("SELECT * FROM \"{table}\""))?;
                let mut rows = query.query([])?;
                while let (Some(row), true) = (rows.next()?, written.is_ok()) {
                    written = writeln!(to, "{}", json!({ "table": table, "row": to_json(row, &columns)? }));
                }
            }
            Ok(())
        })?;
        Ok(written.and_then(|()| to.flush()))
    }

    /// Reads an export into an empty database, in one transaction.
    ///
    /// # Errors
    /// If the database has rows, a line cannot be understood, or the database cannot be written. No change is made then.
    pub fn import(&self, from: &mut dyn BufRead) -> Result<u64, ImportError> {
        if self.tables()?.iter().any(|table| table.rows > 0) {
            return Err(ImportError::NotEmpty(self.path().to_owned()));
        }
        let mut failed = None;
        let imported = self.write(Durability::Disk, |transaction| {
            transaction.pragma_update(None, "defer_foreign_keys", true)?;
            match import(from, transaction) {
                Ok(rows) => Ok(rows),
                Err(RowError::Database(error)) => Err(error),
                Err(RowError::Import(error)) => {
                    failed = Some(error);
                    Err(rusqlite::Error::QueryReturnedNoRows)
                }
            }
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(imported?),
        }
    }
}

/// What ends the transaction of an import.
enum RowError {
    Database(rusqlite::Error),
    Import(ImportError),
}

impl From<rusqlite::Error> for RowError {
    fn from(error: rusqlite::Error) -> RowError {
        RowError::Database(error)
    }
}

/// A row does not fit its table.
#[derive(Debug, thiserror::Error)]
enum CellError {
    #[error("{0}: {1}")]
    Bytes(String, serde_json::Error),
    #[error("{0}: {1} is neither a number nor a text")]
    Kind(String, Json),
    #[error("there is no column {0:?}")]
    Unknown(String),
}

fn import(from: &mut dyn BufRead, connection: &Connection) -> Result<u64, RowError> {
    let tables = table_names(connection)?;
    let mut rows = 0;
    for (index, line) in from.lines().enumerate() {
        let wrong = |reason: String| RowError::Import(ImportError::Line { line: index + 1, reason });
        let line = line.map_err(|error| RowError::Import(ImportError::Io(error)))?;
        let mut value: Json = serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?;
        if index == 0 {
            if value.get("format").and_then(Json::as_str) != Some(HEADER) {
                return Err(wrong("this is no export of `holo state export`".to_owned()));
            }
            if value.get("version").and_then(Json::as_i64) != Some(crate::VERSION) {
                return Err(wrong(format!("only exports of version {} can be read", crate::VERSION)));
            }
            continue;
        }
        let table = value.get("table").and_then(Json::as_str).unwrap_or_default().to_owned();
        if !tables.contains(&table) {
            return Err(wrong(format!("there is no table {table:?}")));
        }
        let columns = columns(connection, &table)?;
        let Some(Json::Object(row)) = value.get_mut("row").map(Json::take) else {
            return Err(wrong("it has no row".to_owned()));
        };
        let values = from_json(row, &columns).map_err(|error| wrong(error.to_string()))?;
        insert(connection, &table, &columns, values).map_err(|error| wrong(error.to_string()))?;
        rows += 1;
    }
    Ok(rows)
}

/// Returns the names of the tables, in the order in which they were created, without those that can be lost: what runs remember about files
/// on this machine.
pub(crate) fn table_names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
               AND name NOT IN ('remembered', 'record_change', 'settled') ORDER BY rootpage";
    connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

pub(crate) fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Column>> {
    let mut query = connection.prepare("SELECT name, type FROM pragma_table_info(?1)")?;
    let columns = query.query_map([table], |row| {
        let kind: String = row.get(1)?;
        Ok(Column { name: row.get(0)?, is_bytes: kind == "BLOB" })
    })?;
    columns.collect()
}

/// Copies the rows of a query that are not there yet. Returns their number, and whether the query could be read to its end.
pub(crate) fn copy_rows(
    query: &mut Statement<'_>,
    target: &Connection,
    table: &str,
    columns: &[Column],
) -> (u64, bool) {
    let Ok(mut rows) = query.query([]) else { return (0, false) };
    let mut copied = 0;
    loop {
        let row = match rows.next() {
            Ok(Some(row)) => row,
            Ok(None) => return (copied, true),
            Err(_) => return (copied, false),
        };
        let values: rusqlite::Result<Vec<Value>> = (0..columns.len()).map(|index| row.get(index)).collect();
        // A row that breaks a rule of the table is damaged, too.
        copied += u64::from(values.is_ok_and(|values| insert(target, table, columns, values).is_ok()));
    }
}

fn insert(connection: &Connection, table: &str, columns: &[Column], values: Vec<Value>) -> rusqlite::Result<()> {
    let names: Vec<String> = columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
    let places = vec!["?"; columns.len()].join(", ");
    let sql = format!("INSERT INTO \"{table}\" ({}) VALUES ({places})", names.join(", "));
    connection.execute(&sql, params_from_iter(values)).map(drop)
}

fn to_json(row: &Row<'_>, columns: &[Column]) -> rusqlite::Result<Map<String, Json>> {
    let mut object = Map::new();
    for (index, column) in columns.iter().enumerate() {
        let value = match row.get_ref(index)? {
            ValueRef::Null => Json::Null,
            ValueRef::Integer(number) => number.into(),
            ValueRef::Real(number) => number.into(),
            ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into(),
            ValueRef::Blob(bytes) => json!(Text::from(bytes)),
        };
        object.insert(column.name.clone(), value);
    }
    Ok(object)
}

fn from_json(mut row: Map<String, Json>, columns: &[Column]) -> Result<Vec<Value>, CellError> {
    let mut values = Vec::new();
    for Column { name, is_bytes } in columns {
        let value = match row.remove(name) {
            None | Some(Json::Null) => Value::Null,
            Some(value) if *is_bytes => {
                let Text(bytes) =
                    serde_json::from_value(value).map_err(|error| CellError::Bytes(name.clone(), error))?;
                Value::Blob(bytes.into())
            }
            Some(Json::String(text)) => Value::Text(text),
            Some(Json::Number(number)) => {
                number.as_i64().map(Value::Integer).or_else(|| number.as_f64().map(Value::Real)).unwrap_or(Value::Null)
            }
            Some(other) => return Err(CellError::Kind(name.clone(), other)),
        };
        values.push(value);
    }
    match row.keys().next() {
        Some(name) => Err(CellError::Unknown(name.clone())),
        None => Ok(values),
    }
}
