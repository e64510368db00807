//! Values of definitions that must not be shown, because they come from encrypted data, and definition files with such
//! values that are world-readable.

use crate::definition::Definition;
use crate::definition::NameError;
use crate::source::Sources;
use crate::stack::plain;
use crate::templates::MISTAKE;
use crate::tolerant::Problem;
use crate::{ResourceDirs, receive};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table};

/// A value of a table that must not be shown.
pub(crate) struct HiddenValue {
    /// Its key, prefixed with those of the tables that contain it.
    pub(crate) key: String,
    /// The span from the start of the key to the end of the value.
    span: Range<usize>,
    text: String,
}

/// Returns the values of a table that must not be shown.
pub(crate) fn hidden_values(table: &DeTable<'_>, sources: &Sources) -> Vec<HiddenValue> {
    let mut values = Vec::new();
    collect(table, "", sources, &mut values);
    values
}

fn collect(table: &DeTable<'_>, within: &str, sources: &Sources, values: &mut Vec<HiddenValue>) {
    for (key, value) in table {
        let name = format!("{within}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(table) => collect(table, &format!("{name}."), sources, values),
            found if is_hidden(value, sources) => {
                let text = match found {
                    DeValue::String(text) => text.to_string(),
                    _ => plain(value).map(|value| value.to_string()).unwrap_or_default(),
                };
                values.push(HiddenValue { key: name, span: key.span().start..value.span().end, text });
            }
            _ => {}
        }
    }
}

/// Returns true if any part of a value must not be shown.
///
/// Lists can be merged from several files, so each of their items has its own span.
pub(crate) fn is_hidden(value: &Spanned<DeValue<'_>>, sources: &Sources) -> bool {
    let within = match value.get_ref() {
        DeValue::Array(list) => list.iter().any(|item| is_hidden(item, sources)),
        DeValue::Table(table) => table.values().any(|value| is_hidden(value, sources)),
        _ => false,
    };
    within || sources.hides(&value.span())
}

/// Returns an error if the name of a definition would reveal a hidden value.
pub(crate) fn in_name(name: &str, table: &Spanned<DeTable<'_>>, sources: &Sources) -> Option<NameError> {
    let values = hidden_values(table.get_ref(), sources);
    let shown = values.into_iter().find(|value| !value.text.is_empty() && name.contains(&value.text))?;
    Some(NameError { span: shown.span, problem: not_here(&shown.key) })
}

/// Marks a definition with hidden values as sensitive. Removes values that would be shown nevertheless, and adds them
/// to `wrong`.
pub(crate) fn hide<'s, D: Definition>(
    mut own: Spanned<DeTable<'s>>,
    values: &[HiddenValue],
    wrong: &mut Vec<Problem>,
) -> Spanned<DeTable<'s>> {
    for HiddenValue { key, span, .. } in values {
        match receive::hide_of::<D>(own.clone(), key) {
            Some(hidden) => own = hidden,
            None => {
                remove(own.get_mut(), key);
                wrong.push((span.clone(), not_here(key)));
            }
        }
    }
    own
}

/// Removes hidden values from the common keys, all of which are shown.
pub(crate) fn refuse(common: &mut Spanned<DeTable<'_>>, sources: &Sources, wrong: &mut Vec<Problem>) {
    for HiddenValue { key, span, .. } in hidden_values(common.get_ref(), sources) {
        remove(common.get_mut(), &key);
        wrong.push((span, not_here(&key)));
    }
}

fn not_here(key: &str) -> String {
    format!("{key}: an encrypted value cannot be used here, because it would be shown")
}

fn remove(table: &mut DeTable<'_>, key: &str) {
    match key.split_once('.') {
        Some((outer, inner)) if !table.contains_key(key) => {
            if let Some(DeValue::Table(table)) = table.get_mut(outer).map(Spanned::get_mut) {
                remove(table, inner);
            }
        }
        _ => drop(table.remove(key)),
    }
}

/// Returns the error message without hidden values.
pub(crate) fn shown((span, words): Problem, values: &[HiddenValue]) -> Problem {
    let tells = |value: &HiddenValue| {
        let is_about = value.span.contains(&span.start) && words != not_here(&value.key);
        is_about || (!value.text.is_empty() && words.contains(&value.text))
    };
    let words = match values.iter().find(|value| tells(value)) {
        Some(value) => format!("{}: {MISTAKE}", value.key),
        None => words,
    };
    (span, words)
}

const READABLE_BY_OTHERS: u32 = 0o004;

/// Returns the world-readable definition files with a table that contains a value and sets `sensitive = true`.
#[must_use]
pub fn exposed_files(directories: &ResourceDirs) -> Vec<PathBuf> {
    let files = directories.list(Path::new("")).unwrap_or_default().into_iter().map(|file| file.path);
    let mut exposed: Vec<PathBuf> = files.filter(|path| is_readable_by_others(path) && is_sensitive(path)).collect();
    exposed.sort();
    exposed
}

fn is_readable_by_others(path: &Path) -> bool {
    fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & READABLE_BY_OTHERS != 0)
}

fn is_sensitive(path: &Path) -> bool {
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    let text = if is_toml { holo_system::read_file(path).unwrap_or_default() } else { Vec::new() };
    let text = String::from_utf8(text).unwrap_or_default();
    // A sensitive source is in another file, with a mode of its own.
    let is_secret = |table: &Table| {
        let is_declared = table.get("sensitive").and_then(toml::Value::as_bool) == Some(true);
        is_declared && !table.contains_key("source")
    };
    let tables: Table =
        if text.contains("sensitive") { toml::from_str(&text).unwrap_or_default() } else { Table::new() };
    tables.values().filter_map(toml::Value::as_array).flatten().filter_map(toml::Value::as_table).any(is_secret)
}

#[cfg(test)]
mod exposed_tests {
    use super::*;
    use std::fs::Permissions;

    #[test]
    fn only_what_is_written_down_for_everybody_is_exposed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str, mode: u32| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        };
        let secret = "[[file]]\npath = \"/x\"\ncontent = \"s\"\nsensitive = true\n";
        write("a.toml", secret, 0o644);
        write("b.toml", secret, 0o640);
        write("c.toml", "[[file]]\npath = \"/x\"\nsource = \"s\"\nsensitive = true\n", 0o644);
        write("d.toml", "[[file]]\npath = \"/x\"\nsensitive = false\n", 0o644);
        write("e.toml", "sensitive = [", 0o644);
        write("f.txt", secret, 0o644);
        assert_eq!(exposed_files(&folder.path().to_owned().into()), [folder.path().join("a.toml")]);
    }
}
