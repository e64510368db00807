//! `holo-ral show`: lists providers and resources for people and scripts, before any are defined.

use crate::attribute::{Access, Values};
use crate::catalog::Catalog;
use crate::convention::Reading;
use crate::definition::{DeclaredProvider, Resource};
use crate::entity::toml_value;
use crate::provider::{Note, Provider};
use crate::ral::in_order;
use holo_plugin::{Host, Output, Sink, Stream, definitions, streams};
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

const NOT_FOUND: u8 = 1;
const FAILED: u8 = 2;
const USAGE: &str = "usage: holo-ral show [TYPE[::PROVIDER] [NAME]] [--json]";

/// Runs the command with these arguments.
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let shown = show(arguments);
    let code = match &shown {
        Ok(text) => match streams::write(Stream::Stdout, text.as_bytes()) {
            Ok(()) => 0,
            Err(_) => FAILED,
        },
        Err(error) => {
            streams::complain(format_args!("holo-ral: {error}"));
            error.code()
        }
    };
    ExitCode::from(code)
}

/// The reason why the command failed.
#[derive(Debug, thiserror::Error)]
enum ShowError {
    #[error("{USAGE}")]
    Usage,
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Failed(String),
}

impl ShowError {
    fn code(&self) -> u8 {
        match self {
            ShowError::NotFound(_) => NOT_FOUND,
            ShowError::Usage | ShowError::Failed(_) => FAILED,
        }
    }
}

fn show(arguments: &[String]) -> Result<String, ShowError> {
    let is_json = arguments.iter().any(|argument| argument == "--json");
    let words: Vec<&str> = arguments.iter().map(String::as_str).filter(|argument| *argument != "--json").collect();
    if words.iter().any(|word| word.starts_with('-')) {
        return Err(ShowError::Usage);
    }
    let cache = tempfile::tempdir().map_err(|error| ShowError::Failed(error.to_string()))?;
    let host = host(cache.path())?;
    let catalog = Catalog::read(&host, &declared(&host));
    match words[..] {
        [] => Ok(providers(&catalog, is_json)),
        [kind] => resources(&host, &*chosen(&catalog, kind)?, is_json),
        [kind, name] => resource(&host, &*chosen(&catalog, kind)?, name, is_json),
        _ => Err(ShowError::Usage),
    }
}

/// Returns a host like that which the dispatcher would pass.
fn host(cache: &Path) -> Result<Host, ShowError> {
    let root = std::env::var_os("HOLO_ROOT_DIR").unwrap_or_else(|| "/".into());
    let below = |path: &str| Some(Path::new(&root).join(path).into_os_string());
    let variable = |name: &str| -> Option<OsString> {
        std::env::var_os(name).or_else(|| match name {
            "HOLO_ROOT_DIR" => Some(root.clone()),
            "HOLO_RESOURCE_DIR" => below("usr/share/holo/ral"),
            "HOLO_STATE_DIR" => below("var/lib/holo/ral"),
            "HOLO_CACHE_DIR" => Some(cache.into()),
            "HOLO_API_VERSION" => Some("3".into()),
            _ => None,
        })
    };
    Host::from_environment(variable).map_err(|name| ShowError::Failed(format!("{name} is not set")))
}

/// Prints findings of definitions.
struct Stderr;

impl Sink for Stderr {
    fn write(&mut self, _: Stream, bytes: &[u8]) {
        // Stderr may be closed.
        let _ = streams::write(Stream::Stderr, bytes);
    }
}

fn declared(host: &Host) -> Vec<DeclaredProvider> {
    let mut stderr = Stderr;
    let (_, declarations) = definitions::read_with::<Resource, DeclaredProvider>(host, &mut Output::new(&mut stderr));
    in_order(declarations)
}

fn chosen(catalog: &Catalog, kind: &str) -> Result<Arc<Provider>, ShowError> {
    let (kind, named) = kind.split_once("::").map_or((kind, None), |(kind, name)| (kind, Some(name)));
    catalog.choose(kind, named).map_err(|error| {
        let lines = [vec![error.message], error.reasons].concat().join("\n  ");
        ShowError::NotFound(lines)
    })
}

fn providers(catalog: &Catalog, is_json: bool) -> String {
    let mut all: Vec<&Arc<Provider>> = catalog.providers().collect();
    all.sort_by_key(|provider| provider.metadata.qualified_name());
    if is_json {
        let providers: Vec<Value> = all.iter().map(|provider| described(provider)).collect();
        return lines(&json!({ "providers": providers }));
    }
    let line = |provider: &&Arc<Provider>| {
        let obstacle = provider.metadata.obstacle().map_or_else(String::new, |reason| format!(" ({reason})"));
        format!("{}: {}{obstacle}\n", provider.metadata.qualified_name(), provider.invocation.file().display())
    };
    all.iter().map(line).collect()
}

fn described(provider: &Provider) -> Value {
    let metadata = &provider.metadata;
    let attributes = metadata.attributes.iter().map(|(name, attribute)| {
        json!({ "name": name, "type": attribute.value_type.to_string(), "kind": attribute.access.to_string() })
    });
    json!({
        "name": metadata.qualified_name(),
        "type": metadata.kind,
        "source": provider.invocation.file(),
        "desc": metadata.description,
        "suitable": metadata.obstacle().is_none(),
        "attributes": attributes.collect::<Vec<Value>>(),
    })
}

fn resources(host: &Host, provider: &Provider, is_json: bool) -> Result<String, ShowError> {
    let listed = provider.list(host, &mut |note| say(&note));
    let listed = listed.map_err(|error| ShowError::Failed(format!("{} {error}", provider.label())))?;
    let known = listed.iter().filter_map(|(name, reading)| match reading {
        Reading::Known(values) => Some((name, values)),
        Reading::Unknown | Reading::Failed(_) => None,
    });
    if is_json {
        let all: Vec<Value> = known.map(|(name, values)| as_json(provider, name, values)).collect();
        return Ok(lines(&json!({ "resources": all })));
    }
    let tables: Vec<String> = known.map(|(name, values)| table(provider, name, values)).collect();
    Ok(tables.join("\n"))
}

fn resource(host: &Host, provider: &Provider, name: &str, is_json: bool) -> Result<String, ShowError> {
    let readings = provider.get(host, &[name], &mut |note| say(&note));
    let readings = readings.map_err(|error| ShowError::Failed(format!("{} {error}", provider.label())))?;
    match readings.get(name) {
        Some(Reading::Known(values)) if is_json => Ok(lines(&json!({ "resource": as_json(provider, name, values) }))),
        Some(Reading::Known(values)) => Ok(table(provider, name, values)),
        Some(Reading::Failed(reason)) => Err(ShowError::Failed(format!("{} {reason}", provider.label()))),
        Some(Reading::Unknown) | None => Err(ShowError::NotFound(format!(
            "{name}: provider {} has no information about it",
            provider.metadata.qualified_name()
        ))),
    }
}

fn say(note: &Note) {
    note.say(&holo_bridge::Sensitive::default(), &mut Output::new(&mut Stderr));
}

fn as_json(provider: &Provider, name: &str, values: &Values) -> Value {
    let attributes: Map<String, Value> = values.clone().into_iter().collect();
    json!({ "type": provider.metadata.kind, "provider": provider.metadata.name, "name": name, "attributes": attributes })
}

/// Returns a definition of a resource in its current state. Read-only attributes are comments.
fn table(provider: &Provider, name: &str, values: &Values) -> String {
    let (kind, provider_name) = (&provider.metadata.kind, &provider.metadata.name);
    let text = |text: &str| toml_value(&Value::from(text));
    let mut table = format!(
        "[[resource]]\ntype = {}\nprovider = {}\nname = {}\n[resource.attributes]\n",
        text(kind),
        text(provider_name),
        text(name)
    );
    for (name, value) in values {
        let is_read_only =
            provider.metadata.attributes.get(name).is_none_or(|attribute| attribute.access == Access::Read);
        let mark = if is_read_only { "# " } else { "" };
        table.push_str(&format!("{mark}{name} = {}\n", toml_value(value)));
    }
    table
}

fn lines(value: &Value) -> String {
    serde_json::to_string_pretty(value).map_or_else(|_| value.to_string(), |text| text + "\n")
}
