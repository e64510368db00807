//! Data: what is said about machines, in layers of files from the more to the less specific.

mod hierarchy;
mod merge;

use crate::below::Below;
use crate::document;
use crate::fault::Fault;
use crate::key;
use crate::knowledge::{Knowledge, Layer};
use hierarchy::Hierarchy;
use merge::Merged;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The directories of data, the stronger first: the machine's own, and the packages'.
const DIRECTORIES: [&str; 2] = ["etc/holo/data", "usr/share/holo/data"];

/// All data that applies to a machine.
#[derive(Debug)]
pub struct Data {
    files: Vec<PathBuf>,
    merged: Merged,
    value: Value,
}

/// Where a value came from.
#[derive(Debug, PartialEq)]
pub struct Origin<'a> {
    /// The value's key.
    pub key: String,
    /// The value.
    pub value: &'a Value,
    /// The files that it came from: one, or each that a list was joined from, the more specific first.
    pub from: Vec<&'a Path>,
    /// The files whose values were overridden, the more specific first, and those values.
    pub over: Vec<(&'a Path, &'a Value)>,
}

impl Data {
    /// Reads the data of the system below the root. Facts are asked for only if the hierarchy does so.
    ///
    /// # Errors
    /// If a file of data, or the hierarchy, is not as it should be.
    pub(crate) fn read(root: &Path, knowledge: &Knowledge, own: Option<&Layer>) -> Result<Data, Fault> {
        let below = Below::new(root);
        let hierarchy = Hierarchy::read(&below, &DIRECTORIES)?;
        let mut layers = Vec::new();
        if DIRECTORIES.iter().any(|directory| below.has(directory)) {
            layers = hierarchy.layers(knowledge)?;
        }
        let (mut files, mut tables) = (Vec::new(), Vec::new());
        if let Some(own) = own {
            files.push(own.from.clone());
            tables.push(own.table.clone());
        }
        for directory in DIRECTORIES.map(Path::new) {
            for name in layers.iter().flat_map(|layer| ["toml", "json"].map(|kind| format!("{layer}.{kind}"))) {
                let path = directory.join(name);
                if let Some(content) = below.read(&path)? {
                    let shown = below.shown(&path);
                    tables.push(document::read(shown.display(), &path, &content)?);
                    files.push(shown);
                }
            }
        }
        let merged = merge::merge(tables, hierarchy.rules());
        let value = merged.value();
        Ok(Data { files, merged, value })
    }

    /// All data: a table.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The value at a dotted key, if there is one.
    ///
    /// # Errors
    /// If it is no key; the text says so.
    pub fn lookup(&self, key: &str) -> Result<Option<&Value>, String> {
        key::find(&self.value, key)
    }

    /// Says of every value at or below a key, or else of all, where it came from. There is nothing if the key is unknown.
    ///
    /// # Errors
    /// If it is no key; the text says so.
    pub fn explain(&self, key: Option<&str>) -> Result<Vec<Origin<'_>>, String> {
        let parts = key.map_or_else(|| Ok(Vec::new()), key::parts)?;
        let mut origins = Vec::new();
        self.merged.leaves(&parts, "", &mut |key, leaf| {
            let file = |place: usize| self.files.get(place).map_or(Path::new(""), PathBuf::as_path);
            origins.push(Origin {
                key: key.to_owned(),
                value: &leaf.value,
                from: leaf.from.iter().map(|place| file(*place)).collect(),
                over: leaf.over.iter().map(|(place, value)| (file(*place), value)).collect(),
            });
        });
        Ok(origins)
    }
}

/// A table as it was read.
type Table = Map<String, Value>;

#[cfg(test)]
mod tests;
