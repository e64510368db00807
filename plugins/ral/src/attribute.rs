//! Types and values of attributes.

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
}
