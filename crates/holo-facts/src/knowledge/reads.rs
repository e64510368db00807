//! The data that a template reads.

use super::{Knowledge, scope};
use crate::data::Origin;
use crate::key;
use crate::template::failed;
use holo_definitions::LocatedError;
use minijinja::Value;
use minijinja::value::{Enumerator, Object, Serde};
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

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
        let templates = scope::of_facts(self).leniently().with_table("data", table).with_lookup(lookup);
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
