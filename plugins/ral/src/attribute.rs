//! Types and values of attributes, and the comparison of actual and desired states of resources.

use crate::metadata::Metadata;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::{self, Display};

/// The state of a resource as reported by its provider, without the name. Missing attributes were not reported.
pub(crate) type Values = BTreeMap<String, Value>;

/// An attribute of a type of resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attribute {
    pub(crate) value_type: ValueType,
    pub(crate) access: Access,
}

/// The type of an attribute's values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ValueType {
    String,
    Boolean,
    Strings,
    Enum(Vec<String>),
}

/// Whether an attribute can be read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Access {
    ReadWrite,
    Read,
    Write,
}

impl ValueType {
    /// Parses the name of a type, such as `enum[running, stopped]`.
    pub(crate) fn parse(text: &str) -> Option<ValueType> {
        let compact: String = text.split_whitespace().collect();
        match compact.as_str() {
            "string" => Some(ValueType::String),
            "boolean" => Some(ValueType::Boolean),
            "array[string]" => Some(ValueType::Strings),
            other => {
                let members: Vec<String> =
                    other.strip_prefix("enum[")?.strip_suffix(']')?.split(',').map(str::to_owned).collect();
                (!members.iter().any(String::is_empty)).then_some(ValueType::Enum(members))
            }
        }
    }

    /// Returns true if the type is an enum that has this member.
    pub(crate) fn has_member(&self, text: &str) -> bool {
        matches!(self, ValueType::Enum(members) if members.iter().any(|member| member == text))
    }

    /// Converts a value of a definition to this type.
    ///
    /// # Errors
    /// If it cannot be converted, worded to follow the attribute's name.
    pub(crate) fn value(&self, value: &Value) -> Result<Value, String> {
        match self {
            ValueType::String => single(value).map(Value::from),
            ValueType::Boolean => match single(value)?.as_str() {
                "true" => Ok(true.into()),
                "false" => Ok(false.into()),
                other => Err(format!("expected true or false, found {other:?}")),
            },
            ValueType::Enum(members) => {
                let text = single(value)?;
                if members.contains(&text) {
                    return Ok(text.into());
                }
                Err(format!("{text:?} is not one of {}", members.join(", ")))
            }
            ValueType::Strings => {
                let Value::Array(items) = value else { return Err("expected a list of strings".to_owned()) };
                if items.iter().all(Value::is_string) {
                    return Ok(value.clone());
                }
                Err("expected nothing but strings in the list".to_owned())
            }
        }
    }
}

fn single(value: &Value) -> Result<String, String> {
    holo_bridge::text(value).ok_or_else(|| {
        let found = if value.is_array() { "a list" } else { "a table" };
        format!("expected a single value, found {found}")
    })
}

impl Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueType::String => f.write_str("string"),
            ValueType::Boolean => f.write_str("boolean"),
            ValueType::Strings => f.write_str("array[string]"),
            ValueType::Enum(members) => write!(f, "enum[{}]", members.join(", ")),
        }
    }
}

impl Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::ReadWrite => "rw",
            Access::Read => "r",
            Access::Write => "w",
        })
    }
}

/// The attribute that determines whether a resource exists.
pub(crate) const ENSURE: &str = "ensure";

/// An attribute that is not in its desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) name: String,
    /// The reported value; `None` if it was not reported.
    pub(crate) is: Option<Value>,
    pub(crate) should: Value,
}

/// Returns the attributes that differ, ordered by name. Write-only attributes, and versions that must be the latest,
/// cannot be compared.
pub(crate) fn differences(metadata: &Metadata, desired: &Values, is: &Values) -> Vec<Difference> {
    let differs = |(name, should): (&String, &Value)| {
        let attribute = metadata.attributes.get(name)?;
        let value = is.get(name);
        let is_as_desired = attribute.access == Access::Write
            || if name == ENSURE {
                satisfies(attribute, should, value)
            } else {
                value.is_some_and(|is| same(is, should))
            };
        (!is_as_desired).then(|| Difference { name: name.clone(), is: value.cloned(), should: should.clone() })
    };
    desired.iter().filter_map(differs).collect()
}

/// Returns true if the latest version is wanted: only the provider can determine whether it is installed.
pub(crate) fn wants_latest(metadata: &Metadata, desired: &Values, is: &Values) -> bool {
    let Some(attribute) = metadata.attributes.get(ENSURE) else { return false };
    desired.get(ENSURE).is_some_and(|should| should == "latest")
        && !compares_exactly(attribute, "latest", is.get(ENSURE))
        && !is.get(ENSURE).is_none_or(is_gone)
}

/// Returns true if the resource must not exist.
pub(crate) fn wants_nothing(desired: &Values) -> bool {
    desired.get(ENSURE).is_some_and(is_gone)
}

/// Returns true if this value of `ensure` means that the resource does not exist.
pub(crate) fn is_gone(ensure: &Value) -> bool {
    ensure == "absent" || ensure == "purged"
}

fn satisfies(attribute: &Attribute, should: &Value, is: Option<&Value>) -> bool {
    let Some(text) = should.as_str() else { return is.is_some_and(|is| same(is, should)) };
    if compares_exactly(attribute, text, is) {
        return is.is_some_and(|is| same(is, should));
    }
    match text {
        "present" | "installed" | "latest" => is.is_some_and(|is| !is_gone(is)),
        "absent" => is.is_some_and(is_gone),
        _ => is.is_some_and(|is| same(is, should)),
    }
}

/// Returns true if both values are members of the attribute's enum. For `present`, providers report versions, even if
/// their type has members.
fn compares_exactly(attribute: &Attribute, should: &str, is: Option<&Value>) -> bool {
    let is_member = |text: &str| attribute.value_type.has_member(text);
    is_member(should) && is.and_then(Value::as_str).is_none_or(is_member)
}

/// Returns true if two values are equal, as text or item by item.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(ones), Value::Array(others)) => {
            ones.len() == others.len() && ones.iter().zip(others).all(|(one, other)| same(one, other))
        }
        _ => match (holo_bridge::text(one), holo_bridge::text(other)) {
            (Some(one), Some(other)) => one == other,
            _ => one == other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_are_read_whatever_their_blanks() {
        assert_eq!(ValueType::parse(" string"), Some(ValueType::String));
        assert_eq!(ValueType::parse("array [ string ]"), Some(ValueType::Strings));
        assert_eq!(
            ValueType::parse("enum[a,  b-c ,true]"),
            Some(ValueType::Enum(vec!["a".into(), "b-c".into(), "true".into()]))
        );
        for text in ["", "enum", "enum[]", "enum[a,]", "enum[a", "array[boolean]", "int"] {
            assert_eq!(ValueType::parse(text), None, "{text}");
        }
    }

    #[test]
    fn values_become_those_of_the_type() {
        let members = ValueType::parse("enum[true, false, mask]").unwrap();
        assert_eq!(members.value(&json!(true)), Ok(json!("true")));
        assert_eq!(members.value(&json!("x")), Err("\"x\" is not one of true, false, mask".to_owned()));
        assert_eq!(ValueType::String.value(&json!(42)), Ok(json!("42")));
        assert_eq!(ValueType::Boolean.value(&json!("false")), Ok(json!(false)));
        assert_eq!(ValueType::Boolean.value(&json!("no")), Err("expected true or false, found \"no\"".to_owned()));
        assert_eq!(ValueType::String.value(&json!(["a"])), Err("expected a single value, found a list".to_owned()));
        assert_eq!(ValueType::Strings.value(&json!(["a"])), Ok(json!(["a"])));
        assert_eq!(ValueType::Strings.value(&json!("a")), Err("expected a list of strings".to_owned()));
        assert_eq!(ValueType::Strings.value(&json!([1])), Err("expected nothing but strings in the list".to_owned()));
    }

    fn metadata() -> Metadata {
        let text = "provider: { type: thing, invoke: json, suitable: true, attributes: { name: , ensure: , state: { type: 'enum[present, absent]' }, \
                text: , flag: { type: boolean }, list: { type: 'array[string]' }, secret: { kind: w } } }";
        Metadata::parse("x", "x.yaml", text.as_bytes()).unwrap()
    }

    fn values(value: &Value) -> Values {
        value.as_object().unwrap().clone().into_iter().collect()
    }

    fn names(desired: &Value, is: &Value) -> Vec<String> {
        let found = differences(&metadata(), &values(desired), &values(is));
        found.into_iter().map(|difference| difference.name).collect()
    }

    #[test]
    fn values_are_compared_as_text_and_lists_in_order() {
        assert_eq!(names(&json!({"text": "42", "flag": true}), &json!({"text": 42, "flag": "true"})), [""; 0]);
        assert_eq!(names(&json!({"flag": true}), &json!({"flag": false})), ["flag"]);
        assert_eq!(names(&json!({"list": ["a", "b"]}), &json!({"list": ["b", "a"]})), ["list"]);
        assert_eq!(names(&json!({"text": "a"}), &json!({})), ["text"]);
        assert_eq!(names(&json!({"secret": "a"}), &json!({})), [""; 0]);
    }

    #[test]
    fn a_version_is_present() {
        for is in ["1.2", "installed", "present"] {
            assert_eq!(names(&json!({"ensure": "present"}), &json!({"ensure": is})), [""; 0], "{is}");
            assert_eq!(names(&json!({"ensure": "absent"}), &json!({"ensure": is})), ["ensure"], "{is}");
        }
        for is in ["absent", "purged"] {
            assert_eq!(names(&json!({"ensure": "installed"}), &json!({"ensure": is})), ["ensure"], "{is}");
        }
        assert_eq!(names(&json!({"ensure": "present"}), &json!({})), ["ensure"]);
        assert_eq!(names(&json!({"ensure": "absent"}), &json!({"ensure": "purged"})), [""; 0]);
        assert_eq!(names(&json!({"ensure": "purged"}), &json!({"ensure": "absent"})), ["ensure"]);
        assert_eq!(names(&json!({"ensure": "1.3"}), &json!({"ensure": "1.2"})), ["ensure"]);
    }

    #[test]
    fn members_of_an_enum_are_compared_exactly() {
        let attribute = metadata().attributes["state"].clone();
        assert!(satisfies(&attribute, &json!("present"), Some(&json!("present"))));
        assert!(!satisfies(&attribute, &json!("present"), Some(&json!("absent"))));
        assert!(!satisfies(&attribute, &json!("present"), None));
        assert!(satisfies(&attribute, &json!("present"), Some(&json!("1.2"))), "a version is no member");
    }

    #[test]
    fn the_latest_is_known_to_nobody() {
        let latest = |is: &Value| wants_latest(&metadata(), &values(&json!({"ensure": "latest"})), &values(is));
        assert!(latest(&json!({"ensure": "1.2"})));
        assert!(!latest(&json!({"ensure": "absent"})), "that differs");
        assert_eq!(names(&json!({"ensure": "latest"}), &json!({"ensure": "absent"})), ["ensure"]);
    }
}
