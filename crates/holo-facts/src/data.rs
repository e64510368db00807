//! Data about machines, in layers of files from more to less specific.

mod constraints;
mod hierarchy;
mod merge;
mod secrets;

use crate::document::{self, Lines};
use crate::key::{self, KeyError};
use crate::template::Templates;
use constraints::{Constraint, VariableError};
use hierarchy::Hierarchy;
use holo_definitions::LocatedError;
use holo_process::words::reason;
use holo_system::Root;
use merge::Merged;
use secrets::{hidden, look_alike};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::document::Standing;
pub(crate) use secrets::{Secrets, is_encrypted};

/// The data directories in order of precedence, highest first: that of the machine, and that of packages.
const DIRECTORIES: [&str; 2] = ["etc/holo/data", "usr/share/holo/data"];

/// The directory of the layers that the machine's fleet has for it, which are more specific than all others. Their order is
/// that of their names.
const FLEET: &str = "etc/holo/fleet-data";

/// All data that applies to a machine.
#[derive(Debug)]
pub struct Data {
    files: Vec<Source>,
    /// The values to show, with a placeholder for each encrypted one.
    merged: Merged,
    value: Value,
    /// The values with encrypted ones as they are in the files.
    sealed: Value,
    secrets: Arc<Secrets>,
    /// True if secrets are replaced with look-alikes.
    is_disguised: bool,
}

/// Additional data for a part of the run, more specific than any other.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// Its file, as shown to the user.
    pub(crate) from: PathBuf,
    pub(crate) table: Table,
}

/// A data file.
#[derive(Debug)]
struct Source {
    /// As shown to the user.
    path: PathBuf,
    /// Its text, if line numbers can be determined.
    text: Option<String>,
}

/// The value of a key, with its origin.
#[derive(Debug, PartialEq)]
pub struct Origin<'a> {
    /// The value's key.
    pub key: String,
    /// The value.
    pub value: &'a Value,
    /// The file of the value, or all files whose lists were joined, most specific first.
    pub from: Vec<Standing<'a>>,
    /// The overridden values with their files, most specific first.
    pub over: Vec<(Standing<'a>, &'a Value)>,
}

/// Reads the file of a layer, which need not exist.
fn layer(root: &Root, path: &Path, files: &mut Vec<Source>, tables: &mut Vec<Table>) -> Result<(), LocatedError> {
    if let Some(content) = document::content(root, path)? {
        let shown = root.shown(path);
        tables.push(document::read(shown.display(), path, &content)?);
        files.push(Source { path: shown, text: String::from_utf8(content).ok() });
    }
    Ok(())
}

impl Data {
    /// Reads the data of the system below the root. Facts are only gathered if the hierarchy uses them.
    ///
    /// # Errors
    /// If a data file or the hierarchy is invalid.
    pub(crate) fn read(
        root: &Path,
        templates_of_facts: impl Fn() -> Templates,
        own: Option<&Layer>,
        secrets: &Arc<Secrets>,
    ) -> Result<Data, LocatedError> {
        let root = Root::new(root);
        let hierarchy = Hierarchy::read(&root, &DIRECTORIES)?;
        let mut layers = Vec::new();
        if DIRECTORIES.iter().any(|directory| root.has(directory)) {
            layers = hierarchy.layers(&templates_of_facts())?;
        }
        let (mut files, mut tables) = (Vec::new(), Vec::new());
        if let Some(own) = own {
            files.push(Source { path: own.from.clone(), text: None });
            tables.push(own.table.clone());
        }
        let of_fleet =
            root.names(FLEET).map_err(|error| LocatedError::new(root.shown(FLEET).display(), reason(&error)))?;
        for path in of_fleet.iter().map(|name| Path::new(FLEET).join(name)).filter(|path| document::is_document(path)) {
            layer(&root, &path, &mut files, &mut tables)?;
        }
        for directory in DIRECTORIES.map(Path::new) {
            for name in layers.iter().flat_map(|layer| document::KINDS.map(|kind| format!("{layer}.{kind}"))) {
                layer(&root, &directory.join(name), &mut files, &mut tables)?;
            }
        }
        let mut merged = merge::merge(tables, hierarchy.rules());
        for constraint in hierarchy.constraints() {
            if let Some((name, text)) = constraint.variable() {
                let place = format!("${name}");
                put(&mut merged, &constraint.parts, text, files.len())
                    .map_err(|problem| LocatedError::new(&place, format!("{}: {problem}", constraint.key)))?;
                files.push(Source { path: place.into(), text: None });
            }
        }
        let data = Data::new(files, merged, secrets);
        data.check(&hierarchy, &layers, templates_of_facts)?;
        Ok(data)
    }

    /// Checks all values against the constraints of the hierarchy.
    fn check(
        &self,
        hierarchy: &Hierarchy,
        layers: &[String],
        templates_of_facts: impl Fn() -> Templates,
    ) -> Result<(), LocatedError> {
        if hierarchy.constraints().is_empty() {
            return Ok(());
        }
        let templates = templates_of_facts();
        let check = |constraint: &Constraint| constraint.check(self, &templates, hierarchy.place(), layers).err();
        let mut wrong = hierarchy.constraints().iter().filter_map(check);
        let Some(first) = wrong.next() else { return Ok(()) };
        // Report all errors, so that they can be fixed at once.
        let others: String = wrong.map(|error| format!("; {error}")).collect();
        Err(LocatedError { text: first.text + &others, ..first })
    }

    fn new(files: Vec<Source>, mut merged: Merged, secrets: &Arc<Secrets>) -> Data {
        let sealed = merged.value();
        secrets.see(&sealed);
        merged.replace(&hidden);
        let value = merged.value();
        Data { files, merged, value, sealed, secrets: Arc::clone(secrets), is_disguised: false }
    }

    /// Returns the same data with look-alikes instead of secrets.
    pub(crate) fn disguised(self) -> Data {
        Data { is_disguised: true, ..self }
    }

    /// Returns the data of a single layer.
    pub(crate) fn of(layer: &Layer, secrets: &Arc<Secrets>) -> Data {
        let merged = merge::merge(vec![layer.table.clone()], &merge::Rules::default());
        Data::new(vec![Source { path: layer.from.clone(), text: None }], merged, secrets)
    }

    /// Returns all data as a table, with placeholders for secrets.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns all data with encrypted values as they are in the files.
    #[must_use]
    pub fn sealed(&self) -> &Value {
        &self.sealed
    }

    /// Returns true if any value may be encrypted.
    pub(crate) fn has_secrets(&self) -> bool {
        self.secrets.are_seen()
    }

    /// Returns the decrypted text of a value with this key; `None` if it is not encrypted.
    ///
    /// # Errors
    /// If it cannot be decrypted.
    pub(crate) fn secret(&self, key: &str, text: &str) -> Option<Result<String, LocatedError>> {
        is_encrypted(text).then(|| {
            let opened = self.secrets.open(text, &self.sealed);
            let opened = opened.map_err(|problem| self.unopened(key, &problem.to_string()));
            opened.map(|text| if self.is_disguised { look_alike(&text) } else { text })
        })
    }

    /// Returns the error for a secret that cannot be decrypted, with its location.
    fn unopened(&self, key: &str, problem: &str) -> LocatedError {
        let text = format!("{}: this cannot be decrypted: {problem}", key::shown(key));
        let origins = self.explain(Some(key)).unwrap_or_default();
        let standing = origins.first().and_then(|origin| origin.from.first());
        let place = standing.map_or(Path::new("data"), |standing| standing.file);
        LocatedError::new(place.display(), text).at(standing.and_then(|standing| standing.line))
    }

    /// Decrypts all secrets in a value of the sealed data.
    ///
    /// # Errors
    /// If any of them cannot be decrypted.
    pub fn open(&self, key: &str, value: &Value) -> Result<Value, LocatedError> {
        Ok(match value {
            Value::String(text) => match self.secret(key, text) {
                Some(opened) => opened?.into(),
                None => value.clone(),
            },
            _ if !self.has_secrets() => value.clone(),
            Value::Array(list) => {
                let items = list.iter().enumerate();
                items
                    .map(|(index, item)| self.open(&key::join(key, &index.to_string()), item))
                    .collect::<Result<_, _>>()?
            }
            Value::Object(table) => {
                let entries =
                    table.iter().map(|(part, value)| Ok((part.clone(), self.open(&key::join(key, part), value)?)));
                Value::Object(entries.collect::<Result<_, LocatedError>>()?)
            }
            other => other.clone(),
        })
    }

    /// Returns the value of a dotted key, with placeholders for secrets; `None` if it does not exist.
    ///
    /// # Errors
    /// If the key is invalid.
    pub fn lookup(&self, key: &str) -> Result<Option<&Value>, KeyError> {
        key::find(&self.value, key)
    }

    /// Returns the origin of every value at or below a key, or of all values. The list is empty if the key does not
    /// exist.
    ///
    /// # Errors
    /// If the key is invalid.
    pub fn explain(&self, key: Option<&str>) -> Result<Vec<Origin<'_>>, KeyError> {
        let parts = key.map_or_else(|| Ok(Vec::new()), key::parts)?;
        let mut origins = Vec::new();
        let lines: Vec<Lines<'_>> =
            self.files.iter().map(|file| Lines::from_text(&file.path, file.text.as_deref())).collect();
        self.merged.leaves(&parts, "", &mut |key, leaf| {
            let stands = |place: usize| Standing {
                file: self.files.get(place).map_or(Path::new(""), |file| &file.path),
                line: lines.get(place).and_then(|lines| lines.find(key)),
            };
            origins.push(Origin {
                key: key.to_owned(),
                value: &leaf.value,
                from: leaf.from.iter().map(|place| stands(*place)).collect(),
                over: leaf.over.iter().map(|(place, value)| (stands(*place), value)).collect(),
            });
        });
        Ok(origins)
    }
}

/// Sets a key to the text of a variable.
fn put(merged: &mut Merged, parts: &[String], text: String, place: usize) -> Result<(), VariableError> {
    let replaced = merged.at(parts).map(Merged::value);
    let value = constraints::of_type(text, replaced.as_ref())?;
    if merged.put(parts, value, place) { Ok(()) } else { Err(VariableError::NoTable) }
}

/// A parsed table.
type Table = Map<String, Value>;

#[cfg(test)]
mod tests;
