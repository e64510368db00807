//! The keys of providers and resources.

use crate::metadata::is_word;
use holo_bridge::{Attributes, Interpreter};
use holo_plugin::definitions::{Declaration, Definition, Invalid, NameError, NameKeys};
use serde::Deserialize;

/// The declaration of a provider with additional properties.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct DeclaredProvider {
    /// Its file: an absolute path, or one relative to the resource directory.
    pub(crate) path: String,
    /// The program that runs it, instead of that in its first line, with arguments before the file.
    #[cfg_attr(test, schemars(with = "Option<holo_bridge::testing::InterpreterSchema>"))]
    pub(crate) interpreter: Option<Interpreter>,
    /// True if it works below `HOLO_ROOT_DIR`, so that it can be run in test mode.
    #[serde(default)]
    pub(crate) respects_root: bool,
}

/// A resource managed by a provider: that named by the common key `provider`, or the only suitable one.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Resource {
    /// The type of the resource.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// The name of the resource.
    pub(crate) name: String,
    /// The desired attributes.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "holo_bridge::testing::AttributesSchema"))]
    pub(crate) attributes: Attributes,
    /// The names of attributes whose values are not shown.
    #[serde(default)]
    pub(crate) sensitive: Vec<String>,
}

impl Declaration for DeclaredProvider {
    const TABLE: &'static str = "provider";
    const KEY: Option<&'static str> = Some("path");

    fn invalid_values(&self) -> Vec<Invalid> {
        let is_provider = self.path.ends_with(".prov") && !self.path.contains(char::is_control);
        Invalid::all([
            if is_provider {
                Ok(())
            } else {
                Err(Invalid::new("path", format!("{:?} does not end in .prov", self.path)))
            },
            match self.interpreter.as_ref().and_then(Interpreter::problem) {
                Some(problem) => Err(Invalid::new("interpreter", problem)),
                None => Ok(()),
            },
        ])
    }
}

impl Definition for Resource {
    const TABLE: &'static str = "resource";
    const ENTITY_TYPE: &'static str = "ral";
    const UNITED: &'static [&'static str] = &["sensitive"];

    fn entity_name(keys: &NameKeys<'_, '_>) -> Result<String, NameError> {
        let word = |key: &'static str, text: &str| match is_word(text) {
            true => Ok(()),
            false => Err(keys.wrong(key, &format!("{text:?} is not lower-case letters, digits, - and _"))),
        };
        let (kind, provider) = (keys.required("type")?, keys.optional("provider")?);
        word("type", kind)?;
        provider.map_or(Ok(()), |provider| word("provider", provider))?;
        let name = keys.required("name")?;
        match provider {
            Some(provider) => Ok(format!("{kind}::{provider}:{name}")),
            None if name.starts_with(':') => Err(keys.wrong("name", "begins with a colon; say which provider")),
            None => Ok(format!("{kind}:{name}")),
        }
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        let problem = |name: &str| attribute_problem(name).map(|problem| (name.to_owned(), problem));
        let named = self.attributes.iter().filter_map(|(name, _)| problem(name));
        let named = named.map(|(name, problem)| Invalid::new(format!("attributes.{}", name.escape_debug()), problem));
        named.chain(self.attributes.invalid_values("attributes")).collect()
    }

    fn validate(&self) -> Result<(), Invalid> {
        match self.sensitive.iter().find(|name| self.attributes.get(name).is_none()) {
            Some(name) => Err(Invalid::new("sensitive", format!("there is no attribute {name:?}"))),
            None => Ok(()),
        }
    }
}

/// Returns the reason why the name of an attribute is invalid.
fn attribute_problem(name: &str) -> Option<&'static str> {
    if name == "name" {
        return Some("the name of a resource is a key of its own");
    }
    if name == "ral" || name.starts_with("ral_") || name.starts_with("__") {
        return Some("libral keeps this to itself");
    }
    let is_name = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    (!is_name).then_some("is not a valid attribute name: lower-case letters, digits and underscores")
}

#[cfg(test)]
mod tests;
