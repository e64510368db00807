//! Comparison of actual and desired states of resources.

use crate::attribute::{Access, Attribute, Values};
use crate::metadata::Metadata;
use serde_json::Value;

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
