//! Records of tasks: how to undo them when they have no definition any more, and the arguments that modules declare as `no_log`.

use crate::definition::Options;
use crate::library::ModuleName;
use holo_bridge::{Attributes, digest};
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::{OnDisk, Tree};
use holo_plugin::{EntityReport, Host};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The call that undoes a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    module: String,
    pub(crate) scrub: Attributes,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sensitive: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<Duration>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) options: Options,
}

fn is_default(options: &Options) -> bool {
    *options == Options::default()
}

impl Record {
    /// Creates a record.
    pub(crate) fn new(
        module: &ModuleName,
        scrub: Attributes,
        sensitive: &[String],
        timeout: Option<Duration>,
        options: Options,
    ) -> Record {
        Record { module: module.to_string(), scrub, sensitive: sensitive.to_vec(), timeout, options }
    }

    /// Returns the module.
    ///
    /// # Errors
    /// If the name is invalid, because the record was modified.
    pub(crate) fn module(&self) -> Result<ModuleName, String> {
        ModuleName::parse(&self.module)
    }

    /// Saves the record of a task with this report, unless it is unchanged.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn keep(
        &self,
        host: &Host,
        report: &EntityReport,
        kept: Option<&Remembered<Record>>,
    ) -> Result<(), String> {
        let remembered = Remembered::new(report, self.clone());
        if kept == Some(&remembered) {
            return Ok(());
        }
        let kept = BaseStore::open(host.locations()).keep(&remembered);
        kept.map_err(|error| error.to_string())
    }

    /// Removes the record of a task.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(crate) fn forget(host: &Host, id: &str) -> Result<(), String> {
        BaseStore::open(host.locations()).forget(id).map_err(|error| error.to_string())
    }
}

/// The file with the names, in the state directory.
const FILE: &str = ".no_log.json";
/// Parts of names that are taken for `no_log` while the module's declaration is unknown.
const SECRET: [&str; 6] = ["password", "passwd", "passphrase", "token", "secret", "private_key"];

/// The names by module, as written in definitions.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct NoLog(BTreeMap<String, Declared>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Declared {
    /// The digests of the module's files, which declare the same arguments only until they are changed.
    files: BTreeMap<PathBuf, String>,
    names: BTreeSet<String>,
}

fn digest_of(file: &Path) -> Option<String> {
    Some(digest(&String::from_utf8_lossy(&fs::read(file).ok()?)))
}

impl NoLog {
    /// Reads the known names. Without them, [`names`](Self::names) are guessed.
    pub(crate) fn read(host: &Host) -> NoLog {
        fs::read(host.state_dir().join(FILE))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }

    /// Returns the names of the arguments of a module that must not be shown.
    pub(crate) fn names(&self, module: &str, arguments: &[&Attributes]) -> Vec<String> {
        let is_current =
            |declared: &&Declared| declared.files.iter().all(|(file, known)| digest_of(file).as_ref() == Some(known));
        match self.0.get(module).filter(is_current) {
            Some(declared) => declared.names.iter().cloned().collect(),
            None => {
                let mut names = Vec::new();
                for (name, value) in arguments.iter().flat_map(|arguments| arguments.iter()) {
                    guess(name, value, &mut names);
                }
                names
            }
        }
    }

    /// Saves what the files of a module declare. Errors are ignored, as names are guessed otherwise.
    pub(crate) fn learn(&mut self, host: &Host, module: &str, files: &[PathBuf], names: &[String]) {
        let digests = files.iter().filter_map(|file| Some((file.clone(), digest_of(file)?)));
        let declared = Declared { files: digests.collect(), names: names.iter().cloned().collect() };
        if self.0.get(module) == Some(&declared) {
            return;
        }
        self.0.insert(module.to_owned(), declared);
        if host.only_reads() {
            return;
        }
        let Ok(text) = serde_json::to_vec(self) else { return };
        let _ = Tree::open(host.state_dir())
            .and_then(|state| state.place(Path::new(FILE)).replace(&text, 0o600, OnDisk::Nothing));
    }
}

/// Adds the names that look like secrets, also in nested tables.
fn guess(name: &str, value: &Value, names: &mut Vec<String>) {
    let lower = name.to_lowercase();
    match value {
        // Whether to change a password is no secret.
        Value::Bool(_) | Value::Null => {}
        _ if SECRET.iter().any(|part| lower.contains(part)) && !lower.starts_with("update_") => {
            names.push(name.to_owned());
        }
        Value::Object(fields) => fields.iter().for_each(|(name, value)| guess(name, value, names)),
        Value::Array(items) => items.iter().for_each(|item| guess("", item, names)),
        Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn arguments() -> Attributes {
        let mut attributes = Attributes::default();
        attributes.insert("login_password", "x");
        attributes.insert("update_password", "always");
        attributes.insert("privatekey", "x");
        attributes.insert("append_token", true);
        attributes.insert("nested", json!([{"API_TOKEN": "x"}]));
        attributes
    }

    #[test]
    fn names_are_guessed_until_the_module_was_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("module.py");
        fs::write(&file, "x").unwrap();
        let mut known = NoLog::default();
        let guessed = ["login_password".to_owned(), "API_TOKEN".to_owned()];
        assert_eq!(known.names("m", &[&arguments()]), guessed);
        let digests = BTreeMap::from([(file.clone(), digest_of(&file).unwrap())]);
        known.0.insert("m".to_owned(), Declared { files: digests, names: ["privatekey".to_owned()].into() });
        assert_eq!(known.names("m", &[&arguments()]), ["privatekey"]);
        // The same size and time do not make it the same.
        let modified = fs::metadata(&file).unwrap().modified().unwrap();
        fs::write(&file, "y").unwrap();
        fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        assert_eq!(known.names("m", &[&arguments()]), guessed);
    }
}
