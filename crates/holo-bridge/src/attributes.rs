//! The attributes that a definition passes to a module, in a table of their own, so that their names cannot collide
//! with keys.

use holo_plugin::definitions::Invalid;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;
use std::fmt;

/// The key with which the TOML parser represents dates and times.
const DATE: &str = "$__toml_private_datetime";
/// The error for a text with a NUL, at which programs would truncate it.
const NUL: &str = "cannot hold NUL";

/// Attributes by name. A value that cannot be passed to modules is [invalid](Self::invalid_values), and replaced with
/// null.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    values: BTreeMap<String, Value>,
    problems: Vec<Problem>,
}

/// A value that cannot be passed to modules.
#[derive(Clone, Debug, PartialEq)]
struct Problem {
    /// The path to the value, such as `name[1].other`.
    path: String,
    words: String,
}

impl Attributes {
    /// Returns the names and values, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the value of an attribute.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Sets the value of an attribute.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.values.insert(name.into(), value.into());
    }

    /// Returns the values that cannot be passed to modules; `key` is the key of the table of attributes.
    #[must_use]
    pub fn invalid_values(&self, key: &str) -> Vec<Invalid> {
        let invalid = |problem: &Problem| Invalid::new(format!("{key}.{}", problem.path), problem.words.as_str());
        self.problems.iter().map(invalid).collect()
    }

    /// Returns true if there are no attributes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// Returns all strings in a value, including the names of nested tables.
#[must_use]
pub fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(values) => values.iter().flat_map(texts).collect(),
        Value::Object(entries) => {
            entries.iter().flat_map(|(name, value)| [vec![name.as_str()], texts(value)].concat()).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// Returns a string, number or boolean as text; `None` for lists and tables.
#[must_use]
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Attributes, D::Error> {
        struct Table;

        impl<'de> Visitor<'de> for Table {
            type Value = Attributes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Attributes, A::Error> {
                let mut attributes = Attributes::default();
                while let Some(name) = entries.next_key::<String>()? {
                    let path = name.escape_debug().to_string();
                    let value = entries.next_value_seed(Checked { path, problems: &mut attributes.problems })?;
                    attributes.values.insert(name, value);
                }
                Ok(attributes)
            }
        }

        deserializer.deserialize_map(Table)
    }
}

impl Serialize for Attributes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.values.serialize(serializer)
    }
}

/// Deserializes a value, and records the parts that cannot be passed to modules.
struct Checked<'p> {
    path: String,
    problems: &'p mut Vec<Problem>,
}

impl Checked<'_> {
    /// Returns a placeholder for a value that cannot be passed to modules.
    fn refuse(self, words: impl Into<String>) -> Value {
        self.problems.push(Problem { path: self.path, words: words.into() });
        Value::Null
    }

    /// Deserializes a part of the value.
    fn part(&mut self, path: String) -> Checked<'_> {
        Checked { path, problems: self.problems }
    }
}

impl<'de> DeserializeSeed<'de> for Checked<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Checked<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, number, boolean, list or table")
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(match Number::from_f64(number) {
            Some(number) => Value::Number(number),
            None => self.refuse(format!("{number} cannot be given to a module")),
        })
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(if text.contains('\0') { self.refuse(NUL) } else { Value::String(text.to_owned()) })
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        loop {
            let path = format!("{}[{}]", self.path, values.len());
            match items.next_element_seed(self.part(path))? {
                Some(value) => values.push(value),
                None => return Ok(Value::Array(values)),
            }
        }
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            if name == DATE {
                entries.next_value::<IgnoredAny>()?;
                return Ok(self.refuse("a date or time has to be written in quotes"));
            }
            let path = format!("{}.{}", self.path, name.escape_debug());
            if name.contains('\0') {
                self.part(path.clone()).refuse(NUL);
            }
            let value = entries.next_value_seed(self.part(path))?;
            values.insert(name, value);
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holo_plugin::definitions::reading;
    use serde_json::json;
    use toml::de::DeTable;

    #[derive(Debug, serde::Deserialize)]
    struct Table {
        attributes: Attributes,
    }

    /// Parses attributes; the error contains the invalid ones.
    fn read(text: &str) -> Result<Attributes, String> {
        let table = DeTable::parse(text).unwrap();
        let attributes = reading::read::<Table>(&table).map_err(|error| error.to_string())?.attributes;
        let invalid: Vec<String> = attributes.invalid_values("attributes").iter().map(ToString::to_string).collect();
        if invalid.is_empty() { Ok(attributes) } else { Err(invalid.join("\n")) }
    }

    #[test]
    fn values_of_every_kind_are_read() {
        let written = "[attributes]\na = 42\nb = 2.5\nc = true\nd = [\"x\", [1]]\ne = { f = 'g', h = {} }\nz = 1e300\n";
        let attributes = read(written).unwrap();
        assert_eq!(
            serde_json::to_value(&attributes).unwrap(),
            json!({"a": 42, "b": 2.5, "c": true, "d": ["x", [1]], "e": {"f": "g", "h": {}}, "z": 1e300})
        );
        assert_eq!(attributes.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "b", "c", "d", "e", "z"]);
        let written = |name| text_of(&attributes, name);
        assert_eq!((written("a"), written("b"), written("c")), ("42".into(), "2.5".into(), "true".into()));
        assert_eq!(text(attributes.get("d").unwrap()), None);
    }

    fn text_of(attributes: &Attributes, name: &str) -> String {
        text(attributes.get(name).unwrap()).unwrap()
    }

    #[test]
    fn what_no_module_can_be_given_is_refused_where_it_stands() {
        for (value, problem) in [
            ("1979-05-27", "attributes.a: a date or time has to be written in quotes"),
            ("07:32:00", "attributes.a: a date or time has to be written in quotes"),
            ("[\"x\", { y = 1979-05-27T07:32:00Z }]", "attributes.a[1].y: a date or time has to be written in quotes"),
            ("nan", "attributes.a: NaN cannot be given to a module"),
            ("[-inf]", "attributes.a[0]: -inf cannot be given to a module"),
            ("\"x\\u0000\"", "attributes.a: cannot hold NUL"),
        ] {
            assert_eq!(read(&format!("attributes.a = {value}\n")).unwrap_err(), problem, "{value}");
        }
    }

    #[test]
    fn one_mistake_hides_no_other() {
        assert_eq!(
            read("[attributes]\na = 1979-05-27\nb = [nan, 'x', { c = 07:32:00 }]\nd = \"\\u0000\"\n").unwrap_err(),
            "attributes.a: a date or time has to be written in quotes\nattributes.b[0]: NaN cannot be given to a module\n\
             attributes.b[2].c: a date or time has to be written in quotes\nattributes.d: cannot hold NUL"
        );
        assert_eq!(read("attributes = 3").unwrap_err(), "attributes: expected a table, found 3");
    }

    #[test]
    fn all_texts_are_found() {
        let value = json!({"a": ["b", 1, {"c": "d"}], "e": null});
        assert_eq!(texts(&value), ["a", "b", "c", "d", "e"]);
    }
}
