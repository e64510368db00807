//! The tables of a file, by the names that stand above them.

use crate::similar::similar;
use toml::Spanned;
use toml::de::{DeArray, DeValue};

/// The tables that a key of the file stands for, which has to be one of `known`, of which an empty name is none.
///
/// # Errors
/// The form that is to be written instead.
pub(crate) fn tables_of<'s>(
    key: &str,
    value: Spanned<DeValue<'s>>,
    known: &[&'static str],
) -> Result<Vec<Spanned<DeValue<'s>>>, String> {
    let is_list_of_tables = |list: &DeArray<'_>| list.iter().all(|item| item.get_ref().is_table());
    let is_known = !key.is_empty() && known.contains(&key);
    match value.into_inner() {
        DeValue::Array(list) if is_known && is_list_of_tables(&list) => Ok(list.into_iter().collect()),
        DeValue::Table(_) if is_known => Err(format!("[{key}] has to be written as [[{key}]]")),
        DeValue::Array(_) | DeValue::Table(_) if is_known => Err(format!("{key} has to be written as [[{key}]]")),
        DeValue::Table(_) => Err(format!("unknown table [{key}], {}", expected_table(key, known))),
        DeValue::Array(list) if is_list_of_tables(&list) && !list.is_empty() => {
            Err(format!("unknown table [[{key}]], {}", expected_table(key, known)))
        }
        _ => {
            let table = known.first().copied().unwrap_or_default();
            Err(format!("{key}: this key is in no table; write the line [[{table}]] above it"))
        }
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
