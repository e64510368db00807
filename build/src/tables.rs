//! The tables of a description as types, before their values are checked.

use crate::findings::Findings;
use holo_definitions::reading::{self, Problem};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// The names of all tables.
const TABLES: [&str; 8] = ["package", "file", "directory", "symlink", "action", "trigger", "user", "group"];

/// `[package]`
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PackageTable {
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) alpha: Option<u32>,
    pub(crate) beta: Option<u32>,
    pub(crate) epoch: Option<u32>,
    pub(crate) release: Option<u32>,
    pub(crate) description: Option<String>,
    pub(crate) details: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) homepage: Option<String>,
    pub(crate) changes: Option<String>,
    pub(crate) author: Option<String>,
    pub(crate) architecture: Option<String>,
    pub(crate) requires: Vec<String>,
    pub(crate) provides: Vec<String>,
    pub(crate) conflicts: Vec<String>,
    pub(crate) replaces: Vec<String>,
    #[serde(rename = "setupScript")]
    pub(crate) setup_script: Option<String>,
    #[serde(rename = "cleanupScript")]
    pub(crate) cleanup_script: Option<String>,
    #[serde(rename = "definitionFile")]
    pub(crate) definition_file: Option<String>,
    pub(crate) tree: Option<String>,
}

/// `[[file]]`
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct FileTable {
    pub(crate) path: Option<String>,
    pub(crate) content: Option<String>,
    #[serde(rename = "contentFrom")]
    pub(crate) content_from: Option<String>,
    pub(crate) raw: bool,
    pub(crate) config: bool,
    pub(crate) mode: Option<String>,
    pub(crate) owner: Option<AccountValue>,
    pub(crate) group: Option<AccountValue>,
}

/// `[[directory]]`
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DirectoryTable {
    pub(crate) path: Option<String>,
    pub(crate) mode: Option<String>,
    pub(crate) owner: Option<AccountValue>,
    pub(crate) group: Option<AccountValue>,
}

/// `[[symlink]]`
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SymlinkTable {
    pub(crate) path: Option<String>,
    pub(crate) target: Option<String>,
}

/// `[[action]]`
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ActionTable {
    pub(crate) on: Option<When>,
    pub(crate) script: Option<String>,
}

/// The occasion of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum When {
    Setup,
    Cleanup,
    Removal,
    Purge,
}

/// `[[trigger]]`
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TriggerTable {
    pub(crate) path: Option<String>,
    pub(crate) script: Option<String>,
}

/// An owner or group.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "toml::Value")]
pub(crate) enum AccountValue {
    Id(i64),
    Name(String),
    /// Neither a number nor a string.
    Other,
}

impl From<toml::Value> for AccountValue {
    fn from(value: toml::Value) -> AccountValue {
        match value {
            toml::Value::Integer(id) => AccountValue::Id(id),
            toml::Value::String(name) => AccountValue::Name(name),
            _ => AccountValue::Other,
        }
    }
}

/// A table with its location and those of its keys.
pub(crate) struct Table<T> {
    pub(crate) value: T,
    /// The line of the table.
    pub(crate) line: usize,
    lines: Vec<(String, usize)>,
    /// Keys with invalid values, which were reported and are missing from `value`.
    invalid: Vec<String>,
}

impl Table<PackageTable> {
    /// The table of a description without one, which was reported: keys that are required are not missing as well.
    pub(crate) fn absent() -> Table<PackageTable> {
        let invalid = ["name", "version", "author"].map(str::to_owned).into();
        Table { value: PackageTable::default(), line: 1, lines: Vec::new(), invalid }
    }
}

impl<T> Table<T> {
    /// Returns the line of a key, or that of the table.
    pub(crate) fn line_of(&self, key: &str) -> usize {
        self.lines.iter().find(|(name, _)| name == key).map_or(self.line, |(_, line)| *line)
    }

    /// Reports a missing key, unless its value was reported already.
    pub(crate) fn missing(&self, key: &str, findings: &mut Findings) {
        if !self.invalid.iter().any(|invalid| invalid == key) {
            findings.error(self.line, format!("{key}: is missing"));
        }
    }
}

/// Reads a table. Every invalid value is an error; unknown keys are warnings. Like in the original, the case of keys
/// does not matter.
pub(crate) fn read<T: DeserializeOwned + Default>(
    table: &DeTable<'_>,
    line: usize,
    findings: &mut Findings,
) -> Table<T> {
    let lines = table.iter().map(|(key, value)| (key.get_ref().to_string(), findings.line(&value.span()))).collect();
    let mut read = Table { value: T::default(), line, lines, invalid: Vec::new() };
    let mut rest = Spanned::new(0..0, table.clone());
    loop {
        let problem = match reading::read::<T>(&rest) {
            Ok(value) => {
                read.value = value;
                return read;
            }
            Err(problem) => problem,
        };
        let line = problem.span().map(|span| findings.line(&span));
        let Some(key) = problem.top_key().map(str::to_owned) else {
            findings.error(line, problem);
            return read;
        };
        let removed = rest.get_mut().remove(key.as_str());
        match problem.problem() {
            Problem::UnknownKey(known) if problem.is_at_top() => {
                let same = known.iter().find(|known| known.eq_ignore_ascii_case(&key));
                match (same, removed) {
                    (Some(same), Some(value)) if !rest.get_ref().contains_key(*same) => {
                        read.lines.push(((*same).to_owned(), findings.line(&value.span())));
                        rest.get_mut().insert(Spanned::new(value.span(), (*same).into()), value);
                    }
                    _ => findings.warning(line, format!("{problem}; it is ignored")),
                }
            }
            _ => match removed.and_then(|value| valid_items(&key, &value, findings)) {
                Some(items) => drop(rest.get_mut().insert(Spanned::new(0..0, key.into()), items)),
                None => {
                    findings.error(line, problem);
                    read.invalid.push(key);
                }
            },
        }
    }
}

/// Reports the elements of a list that are no strings, and returns the list without them; `None` if there is no such
/// element. All lists are lists of strings.
fn valid_items<'d>(key: &str, value: &Spanned<DeValue<'d>>, findings: &mut Findings) -> Option<Spanned<DeValue<'d>>> {
    let DeValue::Array(list) = value.get_ref() else { return None };
    let mut valid = DeArray::new();
    for (index, item) in list.iter().enumerate() {
        match reading::read_value::<String>(item) {
            Ok(_) => valid.push(item.clone()),
            Err(problem) => findings.error(findings.line(&item.span()), format!("{key}[{index}]: {problem}")),
        }
    }
    (valid.len() < list.len()).then(|| Spanned::new(value.span(), DeValue::Array(valid)))
}

/// Returns the tables of a list, such as `[[file]]`, with their lines.
pub(crate) fn list<'t, 'd>(root: &'t DeTable<'d>, key: &str, findings: &mut Findings) -> Vec<(&'t DeTable<'d>, usize)> {
    let mut tables = Vec::new();
    for value in entries(root, key) {
        let elements = match value.get_ref() {
            DeValue::Array(list) => list.iter().collect(),
            _ => vec![value],
        };
        for element in elements {
            let line = findings.line(&element.span());
            match element.get_ref() {
                DeValue::Table(table) if !std::ptr::eq(element, value) => tables.push((table, line)),
                other => findings.error(line, format!("{key}: expected [[{key}]], found {}", reading::kind(other))),
            }
        }
    }
    tables
}

/// Returns the values of a key of the whole description in their order. There are several if the key is written in
/// several ways, as its case does not matter.
pub(crate) fn entries<'t, 'd>(root: &'t DeTable<'d>, key: &str) -> Vec<&'t Spanned<DeValue<'d>>> {
    let same = root.iter().filter(|(name, _)| name.get_ref().eq_ignore_ascii_case(key));
    let mut values: Vec<_> = same.map(|(_, value)| value).collect();
    values.sort_by_key(|value| value.span().start);
    values
}

/// Warns about unknown tables.
pub(crate) fn note_unknown(root: &DeTable<'_>, findings: &mut Findings) {
    for (key, _) in root {
        let name = key.get_ref();
        if !TABLES.iter().any(|table| table.eq_ignore_ascii_case(name)) {
            let text = reading::unknown_key(name, &TABLES, "").replacen("key", "table", 1);
            findings.warning(findings.line(&key.span()), format!("{name}: {text}; it is ignored"));
        }
    }
}
