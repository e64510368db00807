//! Facts and data in templates: they are loaded only if a template uses them, and whether results contain encrypted data is detected.

use super::Knowledge;
use crate::data::{Data, Origin};
use crate::key;
use crate::registry::Services;
use crate::template::{Templates, escape_in_strings, failed};
use holo_definitions::{LocatedError, Rendered};
use minijinja::value::{Enumerator, Object, ObjectRepr, Serde};
use minijinja::{Error, ErrorKind, Value};
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Returns templates with only `facts` in scope.
pub(super) fn of_facts(knowledge: &Knowledge) -> Templates {
    let knowledge = knowledge.clone();
    Templates::new().with_table("facts", move || Ok(Value::from(Serde(knowledge.facts().value()))))
}

/// Returns templates with `facts`, `data`, `lookup` and `registrations` in scope.
pub(super) fn of_all(knowledge: &Knowledge) -> Templates {
    let table = {
        let knowledge = knowledge.clone();
        move || -> Result<Value, LocatedError> {
            let data = knowledge.data()?;
            opened(&knowledge, data, "", data.sealed())
        }
    };
    let knowledge_of_lookup = knowledge.clone();
    let lookup = move |key: &str| look_up(&knowledge_of_lookup, key);
    of_facts(knowledge).with_table("data", table).with_lookup(lookup).with_registrations(registrations_of(knowledge))
}

fn registrations_of(knowledge: &Knowledge) -> impl Fn(&[&str]) -> Result<Value, Error> + use<> {
    let knowledge = knowledge.clone();
    move |wanted| {
        let services = knowledge.registrations(wanted).map_err(|error| failed(&error))?;
        Ok(Value::from_object(Services(services)))
    }
}

fn look_up(knowledge: &Knowledge, key: &str) -> Result<Option<Value>, Error> {
    let data = knowledge.data().map_err(|error| failed(&error))?;
    let found = key::find(data.sealed(), key);
    let found = found.map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
    found.map(|value| opened(knowledge, data, key, value)).transpose().map_err(|error| failed(&error))
}

/// Decrypts a data value. If a part of a table or list cannot be decrypted, the other parts remain usable.
fn opened(knowledge: &Knowledge, data: &Data, key: &str, value: &Json) -> Result<Value, LocatedError> {
    match data.open(key, value) {
        Ok(value) => Ok(Value::from(Serde(&value))),
        Err(error) if value.is_string() => Err(error),
        Err(error) => Ok(Value::from_object(Unopened {
            knowledge: knowledge.clone(),
            key: key.to_owned(),
            value: value.clone(),
            error,
        })),
    }
}

/// A table or list that contains secrets that cannot be decrypted: its other items can be used individually.
#[derive(Debug)]
struct Unopened {
    knowledge: Knowledge,
    key: String,
    value: Json,
    error: LocatedError,
}

impl Object for Unopened {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        if self.value.is_array() { ObjectRepr::Seq } else { ObjectRepr::Map }
    }

    fn get_value(self: &Arc<Self>, part: &Value) -> Option<Value> {
        let (part, value) = match &self.value {
            Json::Array(list) => (part.to_string(), list.get(part.as_usize()?)?),
            value => (part.as_str()?.to_owned(), value.get(part.as_str()?)?),
        };
        let data = self.knowledge.data().ok()?;
        let opened = opened(&self.knowledge, data, &key::join(&self.key, &part), value);
        Some(opened.unwrap_or_else(|error| failed(&error).into()))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.knowledge.note_unopened(&self.error);
        Enumerator::NonEnumerable
    }

    fn render(self: &Arc<Self>, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.knowledge.note_unopened(&self.error);
        Err(fmt::Error)
    }
}

/// Renders templates and evaluates conditions over facts and data.
///
/// If the data contains encrypted values, every operation is repeated with look-alikes: parts of results that differ
/// depend on secrets.
#[derive(Debug)]
pub struct Renderer {
    knowledge: Knowledge,
    templates: Templates,
    disguised: OnceLock<Templates>,
}

impl Renderer {
    pub(super) fn new(knowledge: &Knowledge) -> Renderer {
        Renderer { knowledge: knowledge.clone(), templates: knowledge.templates(), disguised: OnceLock::new() }
    }

    /// Renders a template. The name is used in errors; names in `scope` hide facts and data of the same name.
    ///
    /// # Errors
    /// The error, with the name and line of the template.
    pub fn render(&self, name: &str, text: &str, scope: &Map<String, Json>) -> Result<Rendered, LocatedError> {
        let (rendered, disguised) = self.twice(|templates| templates.render(name, text, scope))?;
        Ok(match disguised {
            Some(disguised) => Rendered::beside(rendered, disguised.unwrap_or_default()),
            None => Rendered::new(rendered),
        })
    }

    /// Performs an operation with the templates, and again with look-alikes if there are encrypted values.
    fn twice<T>(
        &self,
        work: impl Fn(&Templates) -> Result<T, LocatedError>,
    ) -> Result<(T, Option<Result<T, LocatedError>>), LocatedError> {
        let done = unless_unopened(work(&self.templates), &self.knowledge);
        let again = self
            .knowledge
            .disguised()
            .map(|knowledge| unless_unopened(work(self.disguised.get_or_init(|| knowledge.templates())), knowledge));
        match (done, again) {
            (Ok(done), again) => Ok((done, again)),
            (Err(error), Some(again)) => Err(shown(error, again.err().as_ref())),
            (Err(error), None) => Err(error),
        }
    }
}

impl holo_definitions::Templates for Renderer {
    fn render(&self, name: &str, text: &str) -> Result<Rendered, LocatedError> {
        Renderer::render(self, name, &escape_in_strings(text), &Map::new())
    }

    fn holds(&self, condition: &str) -> Result<bool, LocatedError> {
        self.twice(|templates| templates.expression(condition)?.holds()).map(|(holds, _)| holds)
    }
}

/// Returns the result, or an error if it depends on a secret that cannot be decrypted.
fn unless_unopened<T>(done: Result<T, LocatedError>, knowledge: &Knowledge) -> Result<T, LocatedError> {
    knowledge.take_unopened().map_or(done, Err)
}

/// Returns an error without text from encrypted values: if it differs from that with look-alikes, it is replaced.
#[must_use]
pub fn shown(error: LocatedError, disguised: Option<&LocatedError>) -> LocatedError {
    if disguised == Some(&error) {
        return error;
    }
    let text = "the error is not shown, because it concerns an encrypted value in data";
    LocatedError { text: text.to_owned(), ..error }
}

/// File name suffixes of templates that can read data.
const SUFFIXES: [&str; 3] = [".jinja", ".j2", ".holotemplate"];

/// Returns true if the file name is that of a template.
#[must_use]
pub fn is_template(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    SUFFIXES.iter().any(|suffix| name.ends_with(suffix.as_bytes()))
}

impl Knowledge {
    /// Returns the data values that a template reads, with their origins, by key. Names that only the template's plugin
    /// defines are treated as undefined; rendering stops where it is impossible without them.
    ///
    /// # Errors
    /// If a data file or the hierarchy is invalid.
    pub fn read_by(&self, template: &str) -> Result<BTreeMap<String, Origin<'_>>, LocatedError> {
        let data = self.data()?;
        let keys = Keys::default();
        let table = {
            let (knowledge, keys) = (self.clone(), keys.clone());
            move || Ok(seen(String::new(), knowledge.data()?.value(), &keys))
        };
        let lookup = {
            let (knowledge, keys) = (self.clone(), keys.clone());
            move |key: &str| {
                let found = knowledge.data().map_err(|error| failed(&error))?.lookup(key).ok().flatten();
                Ok(Some(found.map_or(Value::UNDEFINED, |value| {
                    keys.add(key);
                    Value::from(Serde(value))
                })))
            }
        };
        let templates = of_facts(self).leniently().with_table("data", table).with_lookup(lookup);
        let templates = templates.with_registrations(registrations_of(self));
        let _ = templates.render("template", template, &Map::new());
        let read = keys.0.lock().unwrap_or_else(PoisonError::into_inner);
        let origins = read.iter().flat_map(|key| data.explain(Some(key)).unwrap_or_default());
        Ok(origins.map(|origin| (origin.key.clone(), origin)).collect())
    }
}

/// The keys that were read.
#[derive(Clone, Debug, Default)]
struct Keys(Arc<Mutex<BTreeSet<String>>>);

impl Keys {
    fn add(&self, key: &str) {
        if !key.is_empty() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned());
        }
    }
}

/// A table of data that records reads.
#[derive(Debug)]
struct Seen {
    key: String,
    table: Map<String, Json>,
    keys: Keys,
}

/// Returns a value for a template: reads of a table are recorded by key, those of other values as a whole.
fn seen(key: String, value: &Json, keys: &Keys) -> Value {
    if let Json::Object(table) = value {
        return Value::from_object(Seen { key, table: table.clone(), keys: keys.clone() });
    }
    keys.add(&key);
    Value::from(Serde(value))
}

impl Object for Seen {
    fn get_value(self: &Arc<Self>, part: &Value) -> Option<Value> {
        let part = part.as_str()?;
        Some(seen(key::join(&self.key, part), self.table.get(part)?, &self.keys))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.keys.add(&self.key);
        Enumerator::Values(self.table.keys().map(Value::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_a_template_reads_is_known_with_its_place() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("etc/holo/data");
        fs::create_dir_all(&folder).unwrap();
        let text = "port = 80\nunread = 1\nlist = [1, 2]\n\n[web]\nname = \"x\"\n\n[web.tls]\nkey = \"k\"\ncert = \"c\"\n\n[hosts]\na = 1\n";
        fs::write(folder.join("common.toml"), text).unwrap();
        let knowledge = Knowledge::new(root.path(), None);
        let read = |template: &str| {
            let found = knowledge.read_by(template).unwrap();
            let show = |origin: &Origin<'_>| format!("{}:{}", origin.key, origin.from[0].line.unwrap_or_default());
            found.values().map(show).collect::<Vec<_>>()
        };
        assert_eq!(read("{{ data.web.name }}"), ["web.name:6"]);
        assert_eq!(read("{{ facts.kernel.name }}{{ lookup('port') }}"), ["port:1"]);
        assert_eq!(read("{{ data.web.tls }}"), ["web.tls.cert:10", "web.tls.key:9"]);
        assert_eq!(read("{% for name, value in data.hosts|items %}{{ name }}{% endfor %}"), ["hosts.a:13"]);
        assert_eq!(read("{% for item in data.list %}{{ item }}{% endfor %}"), ["list:3"]);
        // Undefined and unknown names do not stop rendering.
        assert_eq!(
            read("{{ input }}{{ data.none }}{{ lookup('none', 1) }}{{ other.thing.more }}{{ data.port }}"),
            ["port:1"]
        );
        assert_eq!(read("{% if data.port == 81 %}{{ data.unread }}{% endif %}"), ["port:1"]);
        assert_eq!(read("{{ data.port }}{{ broken"), Vec::<String>::new());
    }

    #[test]
    fn templates_are_known_by_their_names() {
        for (path, is) in [("/a/b.toml.jinja", true), ("motd.holotemplate", true), ("x.j2", true), ("x.toml", false)] {
            assert_eq!(is_template(Path::new(path)), is, "{path}");
        }
    }
}
