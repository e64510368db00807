//! The files of modules, their names, and their properties that are known without running them. Modules that only exist in Ansible's
//! controller have replacements.

use holo_plugin::definitions::similar;
use serde::Deserialize;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

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

/// The collection of Ansible's own modules.
const BUILTIN: &str = "ansible.builtin";
/// Its name in playbooks in which custom modules take precedence.
const LEGACY: &str = "ansible.legacy";

/// The full name of a module: `NAMESPACE.COLLECTION.NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ModuleName {
    /// `None` for a module of Ansible itself.
    collection: Option<(String, String)>,
    /// The rest, with dots for subfolders of the collection.
    name: String,
}

impl ModuleName {
    /// Parses a name in a definition: a full name, or a single word for a module of Ansible itself.
    ///
    /// # Errors
    /// The reason why the name is invalid.
    pub(crate) fn parse(text: &str) -> Result<ModuleName, String> {
        let is_part = |part: &str| {
            let letters = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
            !part.is_empty() && part.bytes().all(letters)
        };
        let parts: Vec<&str> = text.split('.').collect();
        let wrong = || Err(format!("{text:?} is not a module's name, such as \"copy\" or \"ansible.posix.sysctl\""));
        if !parts.iter().all(|part| is_part(part)) {
            return wrong();
        }
        match parts[..] {
            [name] => Ok(ModuleName::builtin(name)),
            [namespace, collection, ref name @ ..] if !name.is_empty() => {
                let full = format!("{namespace}.{collection}");
                let is_builtin = full == BUILTIN || full == LEGACY;
                let collection = (!is_builtin).then(|| (namespace.to_owned(), collection.to_owned()));
                Ok(ModuleName { collection, name: name.join(".") })
            }
            _ => wrong(),
        }
    }

    /// Returns the name of a module of Ansible itself.
    pub(crate) fn builtin(name: &str) -> ModuleName {
        ModuleName { collection: None, name: name.to_owned() }
    }

    /// Returns the short name if it is a module of Ansible itself.
    pub(crate) fn as_builtin(&self) -> Option<&str> {
        self.collection.is_none().then_some(&*self.name)
    }

    /// Returns the collection, unless it is a module of Ansible itself.
    pub(crate) fn collection(&self) -> Option<(&str, &str)> {
        self.collection.as_ref().map(|(namespace, name)| (&**namespace, &**name))
    }

    /// Returns the path of the module below the folder of modules, without its suffix.
    pub(crate) fn path(&self) -> PathBuf {
        self.name.split('.').collect()
    }

    /// Returns the name for importing it in Python.
    pub(crate) fn in_python(&self) -> String {
        match &self.collection {
            None => format!("ansible.modules.{}", self.name),
            Some((namespace, collection)) => {
                format!("ansible_collections.{namespace}.{collection}.plugins.modules.{}", self.name)
            }
        }
    }
}

impl fmt::Display for ModuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.collection {
            None => write!(f, "{BUILTIN}.{}", self.name),
            Some((namespace, collection)) => write!(f, "{namespace}.{collection}.{}", self.name),
        }
    }
}

const TASKS_ARE_FILES: &str = "all definition files are read, and `if` or a .toml.jinja leaves tasks out";
const FACTS: &str = "facts and data are those of holo-facts(7), in a .toml.jinja";
const WAITING: &str = "`health_check` and `retries` wait, and so does the module wait_for";

/// Modules that only exist in the controller, and have a counterpart here.
pub(crate) const EMULATED: [&str; 5] = ["assert", "debug", "fail", "include_vars", "set_fact"];

/// Names or prefixes, and their replacements.
const INSTEAD: [(&str, &str); 14] = [
    ("add_host", "the only host is this one"),
    ("async_", "`timeout` is how long a task may take, and `before` and `after` what it waits for"),
    ("fetch", "the file is on this machine already"),
    ("gather_facts", FACTS),
    ("group_by", FACTS),
    ("import_", TASKS_ARE_FILES),
    ("include_", TASKS_ARE_FILES),
    ("meta", "`notifies` and `subscribes` are what handlers are in a playbook"),
    ("pause", WAITING),
    ("raw", "use the module command or shell, or the plugin exec"),
    ("reboot", "use the plugin exec"),
    ("set_stats", "`send` tells what an answer says to the entities that are refreshed"),
    ("validate_argument_spec", "the arguments of each module are looked at when it is run"),
    ("wait_for_connection", WAITING),
];

/// Returns the reason why a module cannot be used, if it only exists in the controller.
pub(crate) fn refusal(module: &ModuleName) -> Option<String> {
    let name = module.as_builtin().filter(|name| !EMULATED.contains(name))?;
    let is_meant =
        |known: &&(&str, &str)| if known.0.ends_with('_') { name.starts_with(known.0) } else { name == known.0 };
    let (_, instead) = INSTEAD.iter().find(is_meant)?;
    Some(format!("{name} is a part of Ansible's controller, which there is none of: {instead}"))
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

    #[test]
    fn a_word_is_a_module_of_ansible_itself() {
        for text in ["copy", "ansible.builtin.copy", "ansible.legacy.copy"] {
            let name = ModuleName::parse(text).unwrap();
            assert_eq!(
                (name.to_string().as_str(), name.as_builtin()),
                ("ansible.builtin.copy", Some("copy")),
                "{text}"
            );
            assert_eq!((name.in_python().as_str(), name.collection()), ("ansible.modules.copy", None));
        }
    }

    #[test]
    fn other_modules_have_a_collection_and_perhaps_folders() {
        let name = ModuleName::parse("ansible.posix.sysctl").unwrap();
        assert_eq!((name.to_string().as_str(), name.as_builtin()), ("ansible.posix.sysctl", None));
        assert_eq!(name.in_python(), "ansible_collections.ansible.posix.plugins.modules.sysctl");
        let name = ModuleName::parse("community.general.files.ini_file").unwrap();
        assert_eq!(name.collection(), Some(("community", "general")));
        assert_eq!(name.path(), PathBuf::from("files/ini_file"));
        assert_eq!(name.in_python(), "ansible_collections.community.general.plugins.modules.files.ini_file");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["", ".", "a.b", "Copy", "a b", "a/b", "..a", "a..b.c", "ansible.builtin", "ansible.posix.", "cöpy"]
        {
            assert!(ModuleName::parse(text).is_err(), "{text:?}");
        }
    }

    fn refused(text: &str) -> Option<String> {
        refusal(&ModuleName::parse(text).unwrap())
    }

    #[test]
    fn each_names_something_to_be_used_instead() {
        assert_eq!(
            refused("ansible.builtin.raw").unwrap(),
            "raw is a part of Ansible's controller, which there is none of: use the module command or shell, or the plugin exec"
        );
        assert!(refused("include_tasks").unwrap().contains("definition files"));
    }

    #[test]
    fn all_that_are_only_actions_are_refused_and_no_others() {
        let actions = "include_tasks include_role import_playbook import_role import_tasks meta add_host group_by \
        pause fetch raw reboot gather_facts wait_for_connection validate_argument_spec \
        set_stats async_status async_wrapper";
        for name in actions.split_whitespace() {
            assert!(refused(name).is_some(), "{name}");
            assert!(refused(&format!("local.test.{name}")).is_none(), "{name}");
        }
        for name in ["copy", "command", "wait_for", "setup", "service", "shell", "failed", "tempfile", "template"] {
            assert!(refused(name).is_none(), "{name}");
        }
    }
}
