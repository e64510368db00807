//! The keys of a task's definition, and of the table about Python.

use crate::controller;
use crate::module::ModuleName;
use holo_bridge::{Attributes, Interpreter};
use holo_plugin::definitions::{Declaration, Definition, Invalid, values};
use serde::Deserialize;
use serde_json::Value;

/// The prefix of Ansible's internal arguments.
const INTERNAL: &str = "_ansible_";

/// A task, which runs a module.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Task {
    /// The name of the entity.
    #[expect(dead_code, reason = "the ID is made of it before")]
    name: String,
    /// The module: `NAMESPACE.COLLECTION.NAME`, or a single word for one of Ansible itself.
    pub(crate) module: String,
    /// The arguments of the module.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, Value>"))]
    pub(crate) args: Attributes,
    /// False to never run the module in check mode.
    #[serde(default = "yes")]
    pub(crate) check_mode: bool,
    /// The values of the module's answer that are sent to the refreshed entities.
    #[serde(default)]
    pub(crate) send: Vec<String>,
    /// The arguments whose values are never shown.
    #[serde(default)]
    pub(crate) sensitive: Vec<String>,
    /// The arguments with which the module is run when the task has no definition any more.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<std::collections::BTreeMap<String, Value>>"))]
    pub(crate) scrub: Option<Attributes>,
}

/// Python and the collections, for all tasks.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct PythonTable {
    /// The Python with which Ansible's modules can be imported.
    #[serde(default = "default_python")]
    #[cfg_attr(test, schemars(with = "PathOrWords"))]
    pub(crate) python: Interpreter,
    /// The directories in which collections are looked up before those in Python's path.
    #[serde(default = "default_collections")]
    pub(crate) collections: Vec<String>,
    /// True if the modules themselves work below `$HOLO_ROOT_DIR`.
    #[serde(default)]
    pub(crate) respects_root: bool,
}

/// An interpreter.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it only describes")]
enum PathOrWords {
    /// The path of a program.
    Path(String),
    /// The path of a program and its first arguments.
    Words(Vec<String>),
}

fn yes() -> bool {
    true
}

fn default_python() -> Interpreter {
    Interpreter::new("/usr/bin/python3")
}

fn default_collections() -> Vec<String> {
    vec!["/usr/share/ansible/collections".to_owned()]
}

impl Default for PythonTable {
    fn default() -> PythonTable {
        PythonTable { python: default_python(), collections: default_collections(), respects_root: false }
    }
}

impl Declaration for PythonTable {
    const TABLE: &'static str = "host";

    fn invalid_values(&self) -> Vec<Invalid> {
        let python = self.python.problem().map_or(Ok(()), |problem| Err(Invalid::new("python", problem)));
        let collections = self.collections.iter().try_for_each(|path| values::absolute("collections", path).map(drop));
        Invalid::all([python, collections])
    }
}

impl Definition for Task {
    const TABLE: &'static str = "task";
    const ENTITY_TYPE: &'static str = "ansible";
    const UNITED: &'static [&'static str] = &["send", "sensitive"];

    fn doubts(&self) -> Vec<Invalid> {
        let is_given = |name: &str| {
            [Some(&self.args), self.scrub.as_ref()].into_iter().flatten().any(|args| args.get(name).is_some())
        };
        let unknown = self.sensitive.iter().filter(|name| !is_given(name));
        unknown.map(|name| Invalid::new("sensitive", format!("there is no argument {name:?}"))).collect()
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        let module = ModuleName::parse(&self.module);
        let mut invalid = Vec::new();
        let problem = match &module {
            Ok(module) => controller::refusal(module),
            Err(problem) => Some(problem.clone()),
        };
        invalid.extend(problem.map(|problem| Invalid::new("module", problem)));
        for (key, arguments) in [("args", Some(&self.args)), ("scrub", self.scrub.as_ref())] {
            let Some(arguments) = arguments else { continue };
            invalid.extend(internal_arguments(key, arguments));
            invalid.extend(arguments.invalid_values(key));
            if module.as_ref().is_ok_and(|module| module.as_builtin() == Some("copy")) {
                invalid.extend(copied_content(key, arguments));
            }
        }
        let cannot_be_sent = |name: &&String| !is_word(name);
        if let Some(name) = self.send.iter().find(cannot_be_sent) {
            invalid.push(Invalid::new(
                "send",
                format!("{name:?} is not a name that can be sent, of letters, digits and _"),
            ));
        }
        invalid
    }
}

fn is_word(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.starts_with(|letter: char| is_letter(letter) && !letter.is_ascii_digit()) && name.chars().all(is_letter)
}

/// Returns errors for Ansible's internal arguments.
fn internal_arguments(key: &str, arguments: &Attributes) -> Vec<Invalid> {
    let internal = arguments.iter().filter(|(name, _)| name.starts_with(INTERNAL));
    internal.map(|(name, _)| Invalid::new(format!("{key}.{name}"), "is for Ansible itself to say")).collect()
}

/// Checks the arguments of `copy` that only Ansible's controller would check.
fn copied_content(key: &str, arguments: &Attributes) -> Option<Invalid> {
    arguments.get("content")?;
    let problem = if arguments.get("src").is_some() {
        "there is src as well, and the file can have only one content"
    } else if arguments.get("dest").and_then(Value::as_str).is_some_and(|dest| dest.ends_with('/')) {
        "dest is a directory, and the file in it has no name"
    } else {
        return None;
    };
    Some(Invalid::new(format!("{key}.content"), problem))
}

#[cfg(test)]
mod tests;
