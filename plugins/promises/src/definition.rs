//! The keys of modules and promises.

use crate::module_log::LogLevel;
use crate::names::{attribute_problem, expansion_problem, is_identifier};
use holo_bridge::{Attributes, Interpreter, texts};
use holo_plugin::definitions::{Declaration, Definition, Invalid, NameError, NameKeys};
use serde::Deserialize;

/// A module: the program that keeps promises of a type.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Module {
    /// The type of its promises: letters, digits and underscores.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// Its file: an absolute path, or one relative to the resource directory.
    pub(crate) path: String,
    /// The program that runs it, with arguments before the file; without one, the file itself is executed.
    #[cfg_attr(test, schemars(with = "Option<holo_bridge::testing::InterpreterSchema>"))]
    pub(crate) interpreter: Option<Interpreter>,
    /// The kind of asset that a promiser of this type is, such as `path`.
    pub(crate) provides: Option<String>,
    /// True if it works below `HOLO_ROOT_DIR`, so that it can be run in test mode.
    #[serde(default)]
    pub(crate) respects_root: bool,
}

/// A promise that a module keeps.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Promise {
    /// The type, which a module declares.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// The promiser: for most types, the name of the managed object.
    pub(crate) promiser: String,
    /// The name of the entity; the promiser by default.
    #[serde(rename = "name")]
    pub(crate) _name: Option<String>,
    /// The attributes of the promise.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "holo_bridge::testing::AttributesSchema"))]
    pub(crate) attributes: Attributes,
    /// The names of attributes whose values are not shown.
    #[serde(default)]
    pub(crate) sensitive: Vec<String>,
    /// The log level requested from the module.
    #[serde(default)]
    pub(crate) log_level: LogLevel,
    /// `warn` if the promise must never change the system: the module warns about the changes that it would make.
    #[serde(default)]
    pub(crate) action_policy: ActionPolicy,
    /// The attributes of the promise that replaces this one when it has no definition any more.
    #[cfg_attr(test, schemars(with = "Option<holo_bridge::testing::AttributesSchema>"))]
    pub(crate) scrub: Option<Attributes>,
}

/// The permission to change the system.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum ActionPolicy {
    #[default]
    Fix,
    Warn,
    /// The same as `warn`; CFEngine has both names.
    Nop,
}

impl Declaration for Module {
    const TABLE: &'static str = "module";
    const KEY: Option<&'static str> = Some("type");

    fn invalid_values(&self) -> Vec<Invalid> {
        let word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        Invalid::all([
            type_problem(&self.kind).map_or(Ok(()), |problem| Err(Invalid::new("type", problem))),
            match self.path.as_str() {
                "" => Err(Invalid::new("path", "is empty")),
                path if path.contains(char::is_control) => {
                    Err(Invalid::new("path", format!("{path:?} contains control characters")))
                }
                _ => Ok(()),
            },
            match self.interpreter.as_ref().and_then(Interpreter::problem) {
                Some(problem) => Err(Invalid::new("interpreter", problem)),
                None => Ok(()),
            },
            match &self.provides {
                Some(kind) if !word(kind) => Err(Invalid::new("provides", format!("{kind:?} is not one word"))),
                _ => Ok(()),
            },
        ])
    }
}

impl Definition for Promise {
    const TABLE: &'static str = "promise";
    const UNITED: &'static [&'static str] = &["sensitive"];

    fn entity_name(keys: &NameKeys<'_, '_>) -> Result<String, NameError> {
        let kind = keys.required("type")?;
        if let Some(problem) = type_problem(kind) {
            return Err(keys.wrong("type", &problem));
        }
        let name = match keys.optional("name")? {
            Some(name) => name,
            None => keys.required("promiser")?,
        };
        Ok(format!("{kind}:{name}"))
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        let promiser = match self.promiser.as_str() {
            "" => Err(Invalid::new("promiser", "is empty")),
            text if text.contains(['\n', '\0']) => Err(Invalid::new("promiser", "cannot hold a newline or NUL")),
            text => expansion_problem(text, false).map_or(Ok(()), |problem| Err(Invalid::new("promiser", problem))),
        };
        let mut invalid = Invalid::all([promiser]);
        for (key, attributes) in [("attributes", Some(&self.attributes)), ("scrub", self.scrub.as_ref())] {
            invalid.extend(attributes.iter().flat_map(|attributes| self.invalid_attributes(key, attributes)));
        }
        invalid
    }

    fn validate(&self) -> Result<(), Invalid> {
        let is_there = |name: &String| {
            [Some(&self.attributes), self.scrub.as_ref()].into_iter().flatten().any(|all| all.get(name).is_some())
        };
        match self.sensitive.iter().find(|name| !is_there(name)) {
            Some(name) => Err(Invalid::new("sensitive", format!("there is no attribute {name:?}"))),
            None => Ok(()),
        }
    }
}

impl Promise {
    fn invalid_attributes(&self, key: &str, attributes: &Attributes) -> Vec<Invalid> {
        let problem = |(name, value): (&str, &serde_json::Value)| {
            let is_sensitive = self.sensitive.iter().any(|sensitive| sensitive == name);
            let of_texts = || texts(value).into_iter().find_map(|text| expansion_problem(text, is_sensitive));
            let problem = attribute_problem(name).or_else(of_texts)?;
            Some(Invalid::new(format!("{key}.{}", name.escape_debug()), problem))
        };
        attributes.iter().filter_map(problem).chain(attributes.invalid_values(key)).collect()
    }
}

fn type_problem(kind: &str) -> Option<String> {
    (!is_identifier(kind)).then(|| format!("{kind:?} is not letters, digits and underscores with no digit first"))
}

#[cfg(test)]
mod tests;
