//! The tables of a file by name, and a compact representation for very many.

use crate::similar::similar;
use std::borrow::Cow;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// A key of a file that is not a valid table, with the form to use instead.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TableError {
    #[error("[{0}] has to be written as [[{0}]]")]
    OneTable(String),
    #[error("{0} has to be written as [[{0}]]")]
    NoTables(String),
    #[error("unknown table {shown}, {hint}")]
    Unknown { shown: String, hint: String },
    #[error("{key}: this key is in no table; write the line [[{table}]] above it")]
    Stray { key: String, table: &'static str },
}

/// Returns the tables of a key of the file, which must be one of `known` (empty names are ignored).
///
/// # Errors
/// The form to use instead.
pub(crate) fn tables_of<'s>(
    key: &str,
    value: Spanned<DeValue<'s>>,
    known: &[&'static str],
) -> Result<Vec<Spanned<DeValue<'s>>>, TableError> {
    let is_list_of_tables = |list: &DeArray<'_>| list.iter().all(|item| item.get_ref().is_table());
    let is_known = !key.is_empty() && known.contains(&key);
    let unknown = |shown| Err(TableError::Unknown { shown, hint: expected_table(key, known) });
    match value.into_inner() {
        DeValue::Array(list) if is_known && is_list_of_tables(&list) => Ok(list.into_iter().collect()),
        DeValue::Table(_) if is_known => Err(TableError::OneTable(key.to_owned())),
        DeValue::Array(_) | DeValue::Table(_) if is_known => Err(TableError::NoTables(key.to_owned())),
        DeValue::Table(_) => unknown(format!("[{key}]")),
        DeValue::Array(list) if is_list_of_tables(&list) && !list.is_empty() => unknown(format!("[[{key}]]")),
        _ => Err(TableError::Stray { key: key.to_owned(), table: known.first().copied().unwrap_or_default() }),
    }
}

fn expected_table(key: &str, known: &[&'static str]) -> String {
    let known = || known.iter().copied().filter(|table| !table.is_empty());
    match similar(key, known()) {
        Some(table) => format!("did you mean [[{table}]]?"),
        None => {
            let tables: Vec<String> = known().map(|table| format!("[[{table}]]")).collect();
            format!("expected {}", tables.join(" or "))
        }
    }
}

/// A table without spare capacity. A map reserves room for more entries, and there may be very many tables.
pub(crate) struct CompactTable<'s> {
    span: Range<usize>,
    entries: Box<[Entry<'s>]>,
}

impl<'s> CompactTable<'s> {
    pub(crate) fn new(table: Spanned<DeTable<'s>>) -> CompactTable<'s> {
        CompactTable { span: table.span(), entries: table.into_inner().into_iter().collect() }
    }

    pub(crate) fn into_table(self) -> Spanned<DeTable<'s>> {
        Spanned::new(self.span, self.entries.into_iter().collect())
    }
}

/// A key and its value.
type Entry<'s> = (Spanned<Cow<'s, str>>, Spanned<DeValue<'s>>);
