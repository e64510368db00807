//! The metadata that a provider reports, in YAML.

use crate::attribute::{Access, Attribute, ValueType};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

/// The metadata of a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Metadata {
    /// The type of its resources.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) invoke: Invoke,
    pub(crate) suitable: Suitable,
    /// Its attributes by name, except for the name of the resource.
    pub(crate) attributes: BTreeMap<String, Attribute>,
}

/// The convention for calling a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Invoke {
    Simple,
    Json,
}

/// The condition for using a provider on this system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Suitable {
    Always(bool),
    /// These commands must exist, or must not if the value is false.
    Commands(Vec<(String, bool)>),
}

impl Metadata {
    /// Parses metadata. The default name of the provider is `stem`; errors name `shown`.
    pub(crate) fn parse(stem: &str, shown: &str, text: &[u8]) -> Result<Metadata, String> {
        let document = holo_plugin::facts::from_yaml(shown, text).map_err(|error| error.to_string())?;
        Metadata::from_document(stem, &document).map_err(|problem| format!("{shown}: {problem}"))
    }

    fn from_document(stem: &str, document: &Map<String, Value>) -> Result<Metadata, String> {
        let provider = document.get("provider").ok_or("there is no provider")?;
        let provider = provider.as_object().ok_or("provider: expected a table")?;
        let kind = word(provider, "type")?.ok_or("provider.type: is missing")?;
        let name = word(provider, "name")?.unwrap_or_else(|| stem.to_owned());
        let is_description = |value: &&Value| value.is_string();
        let description = provider.get("desc").filter(is_description).and_then(Value::as_str).unwrap_or_default();
        Ok(Metadata {
            kind,
            name,
            description: description.trim().to_owned(),
            invoke: invoke(provider.get("invoke"))?,
            suitable: suitable(provider.get("suitable"))?,
            attributes: attributes(provider.get("attributes"))?,
        })
    }

    /// Returns `TYPE::NAME`.
    pub(crate) fn qualified_name(&self) -> String {
        format!("{}::{}", self.kind, self.name)
    }

    /// Returns the required commands.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &str> {
        let commands: &[(String, bool)] = match &self.suitable {
            Suitable::Always(_) => &[],
            Suitable::Commands(commands) => commands,
        };
        commands.iter().filter(|(_, is_needed)| *is_needed).map(|(command, _)| command.as_str())
    }

    /// Returns the reason why the provider is not suitable for this system; `None` if it is.
    pub(crate) fn obstacle(&self) -> Option<String> {
        match &self.suitable {
            Suitable::Always(true) => None,
            Suitable::Always(false) => Some("suitable is false".to_owned()),
            Suitable::Commands(commands) => {
                commands.iter().find_map(|(command, is_needed)| match (is_there(command), is_needed) {
                    (false, true) => Some(format!("there is no command {command}")),
                    (true, false) => Some(format!("there is a command {command}")),
                    _ => None,
                })
            }
        }
    }
}

/// Returns true if the text is a valid name of a type or provider.
pub(crate) fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte))
}

fn word(provider: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match provider.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if is_word(text) => Ok(Some(text.clone())),
        Some(other) => Err(format!("provider.{key}: {other} is not lower-case letters, digits, - and _")),
    }
}

fn invoke(value: Option<&Value>) -> Result<Invoke, String> {
    match value.and_then(Value::as_str) {
        Some("simple") => Ok(Invoke::Simple),
        Some("json") => Ok(Invoke::Json),
        _ => Err(match value {
            None => "provider.invoke: is missing".to_owned(),
            Some(other) => format!("provider.invoke: expected simple or json, found {other}"),
        }),
    }
}

fn suitable(value: Option<&Value>) -> Result<Suitable, String> {
    let expected = |found: &Value| format!("provider.suitable: expected true, false or commands, found {found}");
    match value {
        None => Err("provider.suitable: is missing".to_owned()),
        Some(Value::Bool(truth)) => Ok(Suitable::Always(*truth)),
        Some(Value::String(text)) if text == "true" || text == "false" => Ok(Suitable::Always(text == "true")),
        Some(Value::Object(table)) if table.len() == 1 => {
            let commands = table
                .get("commands")
                .and_then(Value::as_array)
                .ok_or_else(|| "provider.suitable: expected a list of commands".to_owned())?;
            commands.iter().map(command).collect::<Result<_, String>>().map(Suitable::Commands)
        }
        Some(other) => Err(expected(other)),
    }
}

fn command(value: &Value) -> Result<(String, bool), String> {
    let text = value.as_str().ok_or_else(|| format!("provider.suitable: {value} is not the name of a command"))?;
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [name] => Ok((name.to_owned(), true)),
        ["not", name] => Ok((name.to_owned(), false)),
        _ => Err(format!("provider.suitable: {text:?} is not the name of a command")),
    }
}

fn attributes(value: Option<&Value>) -> Result<BTreeMap<String, Attribute>, String> {
    let table = value.and_then(Value::as_object).ok_or("provider.attributes: expected a table")?;
    if !table.contains_key("name") {
        return Err("provider.attributes: there is no name".to_owned());
    }
    let others = table.iter().filter(|(name, _)| *name != "name");
    others.map(|(name, value)| Ok((name.clone(), attribute(name, value)?))).collect()
}

fn attribute(name: &str, value: &Value) -> Result<Attribute, String> {
    let path = format!("provider.attributes.{name}");
    let empty = Map::new();
    let table = match value {
        Value::Null => &empty,
        Value::Object(table) => table,
        other => return Err(format!("{path}: expected a table, found {other}")),
    };
    let text = |key: &str| match table.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err(format!("{path}.{key}: expected a string, found {other}")),
    };
    let value_type = text("type")?.unwrap_or("string");
    let access = text("kind")?.unwrap_or("rw");
    Ok(Attribute {
        value_type: ValueType::parse(value_type)
            .ok_or_else(|| format!("{path}.type: {value_type:?} is not string, boolean, array[string] or enum[…]"))?,
        access: match access {
            "rw" => Access::ReadWrite,
            "r" => Access::Read,
            "w" => Access::Write,
            other => return Err(format!("{path}.kind: {other:?} is not rw, r or w")),
        },
    })
}

/// Returns true if a command exists in PATH.
fn is_there(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_program = |file: &std::path::Path| {
        std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if command.contains('/') {
        return is_program(command.as_ref());
    }
    std::env::split_paths(&path).any(|directory| is_program(&directory.join(command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Metadata, String> {
        Metadata::parse("stem", "x.yaml", text.as_bytes())
    }

    #[test]
    fn everything_that_is_said_is_read() {
        let metadata = read(
            "---\nprovider:\n  type: service\n  name: systemd\n  desc: |\n    Services.\n  invoke: simple\n  actions: [list, find, update]\n  \
             suitable:\n    commands: [systemctl, not initctl]\n  attributes:\n    name:\n      desc: the name\n    ensure:\n      type: enum[running, stopped]\n    \
             enable:\n      type: enum[true, false, mask]\n    description:\n      kind: r\n    password: { kind: w }\n    plain:\n",
        )
        .unwrap();
        assert_eq!(metadata.qualified_name(), "service::systemd");
        assert_eq!((metadata.invoke, metadata.description.as_str()), (Invoke::Simple, "Services."));
        assert_eq!(metadata.commands().collect::<Vec<_>>(), ["systemctl"]);
        let attribute = |name: &str| {
            let attribute = &metadata.attributes[name];
            format!("{} {}", attribute.value_type, attribute.access)
        };
        assert_eq!(attribute("ensure"), "enum[running, stopped] rw");
        assert_eq!(attribute("enable"), "enum[true, false, mask] rw");
        assert_eq!((attribute("description"), attribute("password")), ("string r".to_owned(), "string w".to_owned()));
        assert_eq!(attribute("plain"), "string rw");
        assert!(!metadata.attributes.contains_key("name"));
    }

    #[test]
    fn a_provider_is_called_as_its_file() {
        let text = "provider: { type: a, invoke: json, suitable: \"false\", attributes: { name: } }";
        let metadata = read(text).unwrap();
        assert_eq!(metadata.qualified_name(), "a::stem");
        assert_eq!(metadata.obstacle().as_deref(), Some("suitable is false"));
    }

    #[test]
    fn commands_decide_whether_it_is_suitable() {
        let with = |commands: &str| {
            read(&format!(
                "provider: {{ type: a, invoke: json, suitable: {{ commands: [{commands}] }}, attributes: {{ name: }} }}"
            ))
            .unwrap()
            .obstacle()
        };
        assert_eq!(with("sh, not there-is-no-such"), None);
        assert_eq!(with("there-is-no-such").as_deref(), Some("there is no command there-is-no-such"));
        assert_eq!(with("not sh").as_deref(), Some("there is a command sh"));
    }

    #[test]
    fn mistakes_are_named() {
        let rest = "invoke: json, suitable: true, attributes: { name: }";
        for (text, problem) in [
            ("a: b".to_owned(), "there is no provider"),
            ("provider: { }".to_owned(), "provider.type: is missing"),
            (
                format!("provider: {{ type: A, {rest} }}"),
                "provider.type: \"A\" is not lower-case letters, digits, - and _",
            ),
            ("provider: { type: a }".to_owned(), "provider.invoke: is missing"),
            (
                "provider: { type: a, invoke: xml }".to_owned(),
                "provider.invoke: expected simple or json, found \"xml\"",
            ),
            ("provider: { type: a, invoke: json }".to_owned(), "provider.suitable: is missing"),
            (
                "provider: { type: a, invoke: json, suitable: maybe }".to_owned(),
                "provider.suitable: expected true, false or commands, found \"maybe\"",
            ),
            (
                "provider: { type: a, invoke: json, suitable: { commands: [a b] } }".to_owned(),
                "provider.suitable: \"a b\" is not the name of a command",
            ),
            ("provider: { type: a, invoke: json, suitable: true }".to_owned(), "provider.attributes: expected a table"),
            (
                "provider: { type: a, invoke: json, suitable: true, attributes: { x: } }".to_owned(),
                "provider.attributes: there is no name",
            ),
            (
                "provider: { type: a, invoke: json, suitable: true, attributes: { name: , x: { type: int } } }"
                    .to_owned(),
                "provider.attributes.x.type: \"int\" is not string, boolean, array[string] or enum[…]",
            ),
            (
                "provider: { type: a, invoke: json, suitable: true, attributes: { name: , x: { kind: x } } }"
                    .to_owned(),
                "provider.attributes.x.kind: \"x\" is not rw, r or w",
            ),
        ] {
            assert_eq!(read(&text), Err(format!("x.yaml: {problem}")), "{text}");
        }
    }
}
