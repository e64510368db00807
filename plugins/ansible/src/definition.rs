//! The keys of a task's definition, and of the table about Python.

use crate::library::{self, ModuleName};
use holo_bridge::{Attributes, Interpreter};
use holo_plugin::definitions::{Declaration, Definition, Invalid, values};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

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
    /// Whether the module has changed something: a boolean, an expression over its answer, or several that must all hold.
    #[serde(default)]
    pub(crate) changed_when: Option<Conditions>,
    /// Whether the module has failed: a boolean, an expression over its answer, or several that must all hold.
    #[serde(default)]
    pub(crate) failed_when: Option<Conditions>,
    /// The name of the answer in expressions. All its values can be received by other entities.
    #[serde(default)]
    pub(crate) register: Option<String>,
    /// Whether the task is applied: a boolean, an expression over earlier answers, or several that must all hold.
    #[serde(default)]
    pub(crate) when: Option<Conditions>,
    /// Arguments whose values are Jinja expressions, evaluated when the task is applied.
    #[serde(default)]
    pub(crate) expressions: BTreeMap<String, String>,
    /// True if a failure of the module is only reported as a warning.
    #[serde(default)]
    pub(crate) ignore_errors: bool,
    /// Variables for expressions and templates, in addition to data and facts.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, Value>"))]
    pub(crate) vars: Attributes,
    /// Environment variables of the module.
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
    /// The user who runs the module.
    #[serde(default)]
    pub(crate) become_user: Option<String>,
    /// True if the module may gain privileges by running set-user-ID or set-group-ID programs, despite `become_user`.
    #[serde(default)]
    pub(crate) become_exec: bool,
    /// True if the task is only applied when it is refreshed, like a handler.
    #[serde(default)]
    pub(crate) refresh_only: bool,
    /// True to run the module although Ansible's controller would do a part of its work.
    #[serde(default)]
    pub(crate) module_only: bool,
    /// The arguments with which the module is run when the task has no definition any more.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<std::collections::BTreeMap<String, Value>>"))]
    pub(crate) scrub: Option<Attributes>,
}

/// The keys of a task about how its module is run and its answer interpreted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Options {
    pub(crate) changed_when: Option<Conditions>,
    pub(crate) failed_when: Option<Conditions>,
    pub(crate) register: Option<String>,
    pub(crate) when: Option<Conditions>,
    pub(crate) expressions: BTreeMap<String, String>,
    pub(crate) ignore_errors: bool,
    pub(crate) vars: Attributes,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) become_user: Option<String>,
    pub(crate) become_exec: bool,
    pub(crate) module_only: bool,
}

/// Conditions that must all hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Conditions {
    One(Condition),
    All(Vec<Condition>),
}

/// A condition on the answer of a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Condition {
    Fixed(bool),
    /// A Jinja expression, as in Ansible.
    Expression(String),
}

impl Conditions {
    pub(crate) fn all(&self) -> &[Condition] {
        match self {
            Conditions::One(condition) => std::slice::from_ref(condition),
            Conditions::All(conditions) => conditions,
        }
    }

    /// Returns true if the conditions never hold, whatever the answer is.
    pub(crate) fn is_never(&self) -> bool {
        self.all().contains(&Condition::Fixed(false))
    }
}

impl Task {
    pub(crate) fn options(&self) -> Options {
        Options {
            changed_when: self.changed_when.clone(),
            failed_when: self.failed_when.clone(),
            register: self.register.clone(),
            when: self.when.clone(),
            expressions: self.expressions.clone(),
            ignore_errors: self.ignore_errors,
            vars: self.vars.clone(),
            environment: self.environment.clone(),
            become_user: self.become_user.clone(),
            become_exec: self.become_exec,
            module_only: self.module_only,
        }
    }

    /// Returns errors in the keys of [`Options`].
    fn invalid_options(&self) -> Vec<Invalid> {
        let mut invalid = self.vars.invalid_values("vars");
        for (key, conditions) in
            [("changed_when", &self.changed_when), ("failed_when", &self.failed_when), ("when", &self.when)]
        {
            let conditions = conditions.iter().flat_map(Conditions::all);
            if conditions
                .clone()
                .any(|condition| matches!(condition, Condition::Expression(text) if text.contains("{{")))
            {
                invalid.push(Invalid::new(key, "an expression is written without {{ }}"));
            }
        }
        if let Some(name) = self.register.as_ref().filter(|name| !is_word(name)) {
            invalid.push(Invalid::new("register", format!("{name:?} is not a name of letters, digits and _")));
        }
        let bad =
            |(name, value): &(&String, &String)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0');
        if let Some((name, _)) = self.environment.iter().find(bad) {
            invalid.push(Invalid::new("environment", format!("{name:?} cannot be an environment variable")));
        }
        if self.become_exec && self.become_user.is_none() {
            invalid.push(Invalid::new("become_exec", "only has a meaning with become_user"));
        }
        invalid
    }
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
    const STRINGS: &'static [&'static str] = &["register"];

    fn doubts(&self) -> Vec<Invalid> {
        let is_given = |name: &str| {
            [Some(&self.args), self.scrub.as_ref()].into_iter().flatten().any(|args| args.get(name).is_some())
                || self.expressions.contains_key(name)
        };
        let unknown = self.sensitive.iter().filter(|name| !is_given(name));
        unknown.map(|name| Invalid::new("sensitive", format!("there is no argument {name:?}"))).collect()
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        let module = ModuleName::parse(&self.module);
        let mut invalid = self.invalid_options();
        let problem = match &module {
            Ok(module) => library::refusal(module),
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
