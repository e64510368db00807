//! The attributes that a definition gives to a module: a table of its own, so that no name collides with a key.

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;
use std::fmt;

/// The key under which dates and times come out of TOML.
const DATE: &str = "$__toml_private_datetime";

/// Names with values, by name. What JSON cannot hold is refused when they are read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes(BTreeMap<String, Value>);

impl Attributes {
    /// Returns the names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the value of an attribute.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Sets the value of an attribute.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.0.insert(name.into(), value.into());
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns all texts in a value, names of nested tables included.
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

/// Returns a string, number or boolean as text; nothing for lists and tables.
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
        let values = BTreeMap::<String, Checked>::deserialize(deserializer)?;
        Ok(Attributes(values.into_iter().map(|(name, Checked(value))| (name, value)).collect()))
    }
}

impl Serialize for Attributes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// A value that a module can be given.
struct Checked(Value);

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Checked, D::Error> {
        deserializer.deserialize_any(CheckedVisitor).map(Checked)
    }
}

struct CheckedVisitor;

impl<'de> Visitor<'de> for CheckedVisitor {
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

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        let finite = Number::from_f64(number);
        finite.map(Value::Number).ok_or_else(|| E::custom(format!("{number} cannot be given to a module")))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        without_nul(text).map(|text| Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Checked(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            if name == DATE {
                return Err(de::Error::custom("a date or time has to be written in quotes"));
            }
            without_nul(&name)?;
            let Checked(value) = entries.next_value()?;
            values.insert(name, value);
        }
        Ok(Value::Object(values))
    }
}

fn without_nul<E: de::Error>(text: &str) -> Result<&str, E> {
    if text.contains('\0') { Err(E::custom("cannot hold NUL")) } else { Ok(text) }
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

    fn read(text: &str) -> Result<Attributes, String> {
        let table = DeTable::parse(text).unwrap();
        reading::read::<Table>(&table).map(|table| table.attributes).map_err(|error| error.to_string())
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
    fn all_texts_are_found() {
        let value = json!({"a": ["b", 1, {"c": "d"}], "e": null});
        assert_eq!(texts(&value), ["a", "b", "c", "d", "e"]);
    }
}
