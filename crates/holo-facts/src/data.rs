//! Data: what is said about machines, in layers of files from the more to the less specific.

mod hierarchy;
mod lines;
mod merge;

use crate::document;
use crate::key::{self, KeyError};
use crate::template::Templates;
use hierarchy::Hierarchy;
use holo_definitions::LocatedError;
use holo_system::Root;
use lines::Lines;
use merge::Merged;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

pub use lines::Standing;

/// The directories of data, the stronger first: the machine's own, and the packages'.
const DIRECTORIES: [&str; 2] = ["etc/holo/data", "usr/share/holo/data"];

/// All data that applies to a machine.
#[derive(Debug)]
pub struct Data {
    files: Vec<Source>,
    merged: Merged,
    value: Value,
}

/// Data that only a part of the run has, more specific than all other.
#[derive(Debug)]
pub(crate) struct Layer {
    /// The file it comes from, as the user knows it.
    pub(crate) from: PathBuf,
    pub(crate) table: Table,
}

/// A file of data.
#[derive(Debug)]
struct Source {
    /// As the user knows it.
    path: PathBuf,
    /// Its text, if lines can be told from it.
    text: Option<String>,
}

/// The value at a key, and the places that it comes from.
#[derive(Debug, PartialEq)]
pub struct Origin<'a> {
    /// The value's key.
    pub key: String,
    /// The value.
    pub value: &'a Value,
    /// Its places: one file, or each that a list was joined from, the more specific first.
    pub from: Vec<Standing<'a>>,
    /// The values that were overridden and their places, the more specific first.
    pub over: Vec<(Standing<'a>, &'a Value)>,
}

impl Data {
    /// Reads the data of the system below the root. Facts are asked for only if the hierarchy does so.
    ///
    /// # Errors
    /// If a file of data, or the hierarchy, is not as it should be.
    pub(crate) fn read(
        root: &Path,
        templates_of_facts: impl FnOnce() -> Templates,
        own: Option<&Layer>,
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
        for directory in DIRECTORIES.map(Path::new) {
            for name in layers.iter().flat_map(|layer| document::KINDS.map(|kind| format!("{layer}.{kind}"))) {
                let path = directory.join(name);
                if let Some(content) = document::content(&root, &path)? {
                    let shown = root.shown(&path);
                    tables.push(document::read(shown.display(), &path, &content)?);
                    files.push(Source { path: shown, text: String::from_utf8(content).ok() });
                }
            }
        }
        let merged = merge::merge(tables, hierarchy.rules());
        let value = merged.value();
        Ok(Data { files, merged, value })
    }

    /// The data of one layer alone.
    pub(crate) fn of(layer: &Layer) -> Data {
        let merged = merge::merge(vec![layer.table.clone()], &merge::Rules::default());
        let value = merged.value();
        Data { files: vec![Source { path: layer.from.clone(), text: None }], merged, value }
    }

    /// All data: a table.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The value at a dotted key, if there is one.
    ///
    /// # Errors
    /// If it is not a key.
    pub fn lookup(&self, key: &str) -> Result<Option<&Value>, KeyError> {
        key::find(&self.value, key)
    }

    /// Says of every value at or below a key, or else of all, where it came from. There is nothing if the key is unknown.
    ///
    /// # Errors
    /// If it is not a key.
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

/// A table as it was read.
type Table = Map<String, Value>;

#[cfg(test)]
mod tests;
