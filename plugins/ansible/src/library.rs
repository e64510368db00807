//! The files of modules, and their properties that are known without running them.

use crate::module::ModuleName;
use holo_plugin::definitions::similar;
use serde::Deserialize;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A module without any of these imports cannot be run within a Python process.
const IMPORTS: [&str; 3] = ["ansible.module_utils.", "ansible_collections.", "AnsibleModule"];
/// Old-style modules, which read their arguments from a file, or are templates.
const OF_OLD: [&str; 2] = ["WANT_JSON", "<<INCLUDE_ANSIBLE_MODULE"];

/// The directories with modules, as found by Python.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Library {
    /// The directory of Ansible itself.
    package: PathBuf,
    /// The directories of collections in order of precedence.
    collections: Vec<PathBuf>,
}

/// A module file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) file: PathBuf,
    /// True if Ansible's controller also works on it.
    pub(crate) has_action: bool,
}

/// The reason why a module cannot be run, worded to follow `module: `.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LibraryError {
    #[error("there is no collection {collection} in {}", shown(places))]
    NoCollection { collection: String, places: Vec<PathBuf> },
    #[error("there is no {module} in {}{}", folder.display(), hint(meant.as_ref()))]
    NoModule { module: ModuleName, folder: PathBuf, meant: Option<String> },
    #[error("{} is not written in Python", file.display())]
    OtherLanguage { file: PathBuf },
    #[error("{} does not use AnsibleModule, and cannot be run", file.display())]
    OtherInterface { file: PathBuf },
    #[error("cannot read {}: {reason}", file.display())]
    Unreadable { file: PathBuf, reason: String },
    #[error("{module} was removed: {reason}")]
    Removed { module: ModuleName, reason: String },
    #[error(
        "{module} has a part that Ansible's controller does, and which is missing here; `module_only = true` runs it without"
    )]
    HasAction { module: ModuleName },
}

fn shown(places: &[PathBuf]) -> String {
    let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    if places.is_empty() { "the directories of [[host]] collections".to_owned() } else { places.join(", ") }
}

fn hint(meant: Option<&String>) -> String {
    meant.map(|meant| format!(", did you mean {meant}?")).unwrap_or_default()
}

impl Library {
    /// Finds a module.
    ///
    /// # Errors
    /// If it does not exist, or cannot be run.
    pub(crate) fn find(&self, module: &ModuleName) -> Result<Module, LibraryError> {
        let plugins = self.plugins(module)?;
        let folder = plugins.join("modules");
        let path = module.path();
        let file = folder.join(&path).with_extension("py");
        let text = match fs::read(&file) {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(self.missing(module, &folder)),
            Err(error) => {
                return Err(LibraryError::Unreadable { file, reason: holo_change::error::reason(&error) });
            }
        };
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if has(&OF_OLD) || !has(&IMPORTS) {
            let powershell = file.with_extension("ps1");
            return Err(match powershell.exists() {
                true => LibraryError::OtherLanguage { file: powershell },
                false => LibraryError::OtherInterface { file },
            });
        }
        let has_action = self.actions(module, &plugins).join(path).with_extension("py").exists();
        Ok(Module { file, has_action })
    }

    /// Returns the module that has replaced another one, as far as Ansible or the collection has a record of that.
    ///
    /// # Errors
    /// If it was removed without a replacement, or the record cannot be read.
    pub(crate) fn redirected(&self, module: &ModuleName) -> Result<Option<ModuleName>, LibraryError> {
        let plugins = self.plugins(module)?;
        let file = match module.collection() {
            None => plugins.join("config/ansible_builtin_runtime.yml"),
            Some(_) => plugins.with_file_name("meta").join("runtime.yml"),
        };
        let Ok(text) = fs::read(&file) else { return Ok(None) };
        let unreadable = |reason: String| LibraryError::Unreadable { file: file.clone(), reason };
        let routing =
            holo_plugin::facts::from_yaml(file.display(), &text).map_err(|error| unreadable(error.to_string()))?;
        let name = module.path().display().to_string().replace('/', ".");
        let entry = routing.get("plugin_routing").and_then(|routing| routing.get("modules")?.get(&name));
        let text_at = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let redirect = entry.and_then(|entry| text_at(entry, "redirect"));
        match (redirect, entry.and_then(|entry| entry.get("tombstone"))) {
            (Some(name), _) => ModuleName::parse(&name).map(Some).map_err(unreadable),
            (None, Some(tombstone)) => {
                let reason = text_at(tombstone, "warning_text").unwrap_or_else(|| "it has no replacement".to_owned());
                Err(LibraryError::Removed { module: module.clone(), reason })
            }
            (None, None) => Ok(None),
        }
    }

    /// Returns the folder that contains those of modules and actions.
    fn plugins(&self, module: &ModuleName) -> Result<PathBuf, LibraryError> {
        let Some((namespace, name)) = module.collection() else { return Ok(self.package.clone()) };
        let folder = |root: &PathBuf| root.join("ansible_collections").join(namespace).join(name);
        match self.collections.iter().map(folder).find(|folder| folder.is_dir()) {
            Some(folder) => Ok(folder.join("plugins")),
            None => {
                let collection = format!("{namespace}.{name}");
                Err(LibraryError::NoCollection { collection, places: self.collections.clone() })
            }
        }
    }

    fn actions(&self, module: &ModuleName, plugins: &Path) -> PathBuf {
        let plugins = if module.collection().is_none() { plugins.join("plugins") } else { plugins.to_owned() };
        plugins.join("action")
    }

    fn missing(&self, module: &ModuleName, folder: &Path) -> LibraryError {
        let path = folder.join(module.path());
        for other in [path.with_extension("ps1"), path.clone()] {
            if other.is_file() {
                return LibraryError::OtherLanguage { file: other };
            }
        }
        let names = path.parent().map(names_in).unwrap_or_default();
        let meant =
            path.file_name().and_then(OsStr::to_str).and_then(|name| similar(name, names.iter().map(String::as_str)));
        LibraryError::NoModule { module: module.clone(), folder: folder.to_owned(), meant: meant.map(str::to_owned) }
    }
}

/// Returns the names of the modules in a folder.
fn names_in(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let modules = files.filter(|path| path.extension().is_some_and(|suffix| suffix == "py"));
    let mut names: Vec<String> = modules
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .filter(|name| !name.starts_with('_'))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "from ansible.module_utils.basic import AnsibleModule\n";

    fn library(folder: &Path) -> Library {
        let collections = vec![folder.join("one"), folder.join("two")];
        Library { package: folder.join("ansible"), collections }
    }

    fn write(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn modules_are_found_in_the_first_directory_that_has_their_collection() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for path in [
            "ansible/modules/copy.py",
            "ansible/plugins/action/copy.py",
            "ansible/modules/ping.py",
            "one/ansible_collections/a/b/plugins/modules/x.py",
            "one/ansible_collections/a/b/plugins/action/deep/y.py",
            "one/ansible_collections/a/b/plugins/modules/deep/y.py",
            "two/ansible_collections/a/b/plugins/modules/only_here.py",
            "two/ansible_collections/a/c/plugins/modules/z.py",
        ] {
            write(folder, path, MODULE);
        }
        let find = |name: &str| {
            let found = library(folder).find(&ModuleName::parse(name).unwrap());
            found.map(|module| (module.file.strip_prefix(folder).unwrap().to_owned(), module.has_action))
        };
        assert_eq!(find("copy").unwrap(), ("ansible/modules/copy.py".into(), true));
        assert_eq!(find("ping").unwrap(), ("ansible/modules/ping.py".into(), false));
        assert_eq!(find("a.b.x").unwrap(), ("one/ansible_collections/a/b/plugins/modules/x.py".into(), false));
        assert_eq!(find("a.b.deep.y").unwrap(), ("one/ansible_collections/a/b/plugins/modules/deep/y.py".into(), true));
        assert_eq!(find("a.c.z").unwrap(), ("two/ansible_collections/a/c/plugins/modules/z.py".into(), false));
        let said = |name: &str| find(name).unwrap_err().to_string().replace(&folder.display().to_string(), "");
        assert_eq!(said("a.b.only_here"), "there is no a.b.only_here in /one/ansible_collections/a/b/plugins/modules");
        assert_eq!(said("copi"), "there is no ansible.builtin.copi in /ansible/modules, did you mean copy?");
        assert_eq!(said("a.d.x"), "there is no collection a.d in /one, /two");
    }

    #[test]
    fn renamed_modules_are_found_by_the_records_of_ansible_and_collections() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let routing = "plugin_routing:\n  modules:\n    sysctl:\n      redirect: ansible.posix.sysctl\n    old:\n      \
            tombstone:\n        removal_version: '1'\n        warning_text: Use new.\n";
        write(folder, "ansible/config/ansible_builtin_runtime.yml", routing);
        write(folder, "one/ansible_collections/a/b/meta/runtime.yml", &routing.replace("ansible.posix", "a.b"));
        write(folder, "one/ansible_collections/a/b/plugins/modules/x.py", MODULE);
        let redirected = |name: &str| {
            let found = library(folder).redirected(&ModuleName::parse(name).unwrap());
            found.map(|module| module.map(|module| module.to_string())).map_err(|error| error.to_string())
        };
        assert_eq!(redirected("sysctl"), Ok(Some("ansible.posix.sysctl".to_owned())));
        assert_eq!(redirected("a.b.sysctl"), Ok(Some("a.b.sysctl".to_owned())));
        assert_eq!(redirected("copy"), Ok(None));
        assert_eq!(redirected("old"), Err("ansible.builtin.old was removed: Use new.".to_owned()));
    }

    #[test]
    fn what_no_python_can_become_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let modules = "one/ansible_collections/a/b/plugins/modules";
        for (name, text) in [
            ("documented.py", "DOCUMENTATION = ''\n"),
            ("documented.ps1", "#Requires\n"),
            ("windows.ps1", "#Requires\n"),
            ("binary", "\x7fELF"),
            ("wants.py", "# WANT_JSON\nimport json, sys\n"),
            ("old.py", "#<<INCLUDE_ANSIBLE_MODULE_COMMON>>\nfrom ansible.module_utils.basic import *\n"),
            ("plain.py", "print('{}')\n"),
            ("helped.py", "from ansible_collections.a.b.plugins.module_utils.helper import Helper\n"),
        ] {
            write(folder, &format!("{modules}/{name}"), text);
        }
        let said = |name: &str| {
            let found = library(folder).find(&ModuleName::parse(&format!("a.b.{name}")).unwrap());
            found
                .map(|_| ())
                .map_err(|error| error.to_string().replace(&format!("{}/{modules}/", folder.display()), ""))
        };
        for (name, file) in [("documented", "documented.ps1"), ("windows", "windows.ps1"), ("binary", "binary")] {
            assert_eq!(said(name), Err(format!("{file} is not written in Python")));
        }
        for name in ["wants", "old", "plain"] {
            assert_eq!(said(name), Err(format!("{name}.py does not use AnsibleModule, and cannot be run")));
        }
        assert_eq!(said("helped"), Ok(()));
    }
}
