//! JSON Schemas of definition files.

use crate::common::CommonKeys;
use crate::declarations::Declaration;
use crate::definition::Definition;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

/// Returns the JSON Schema of definition files with this type's tables.
#[must_use]
pub fn schema<D: Definition + JsonSchema>(title: &str) -> Value {
    file_schema(title, vec![(D::TABLE, table_schema::<D>())])
}

/// Like `schema`, for files that also contain declarations.
#[must_use]
pub fn schema_with<D, M>(title: &str) -> Value
where
    D: Definition + JsonSchema,
    M: Declaration + JsonSchema,
{
    file_schema(title, vec![(M::TABLE, schemars::schema_for!(M).to_value()), (D::TABLE, table_schema::<D>())])
}

/// Returns the schema of a type's tables, including the common keys.
///
/// # Panics
/// If the type has a key with the name of a common one, and has not declared it in [`Definition::STRINGS`].
#[must_use]
pub fn table_schema<D: Definition + JsonSchema>() -> Value {
    let mut whole = schemars::schema_for!(D).to_value();
    let mut common = schemars::schema_for!(CommonKeys).to_value();
    let own = whole.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    for (key, both) in common.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        if let Some(own) = own.get(key) {
            assert!(D::STRINGS.contains(&&**key), "{key} of [[{}]] is a common key, too", D::TABLE);
            *both = json!({ "anyOf": [own, both.take()] });
        }
    }
    add_definitions(&mut whole, "properties", common);
    whole
}

/// Adds this part of a schema, and its definitions, to another one.
fn add_definitions(whole: &mut Value, part: &str, mut other: Value) {
    for part in [part, "$defs"] {
        let Some(Value::Object(added)) = other.get_mut(part).map(Value::take) else {
            continue;
        };
        let known = whole.as_object_mut().map(|whole| whole.entry(part).or_insert_with(|| json!({})));
        if let Some(known) = known.and_then(Value::as_object_mut) {
            known.extend(added);
        }
    }
}

/// Returns the schema of a file with tables of these names.
#[must_use]
pub fn file_schema(title: &str, tables: Vec<(&'static str, Value)>) -> Value {
    let (mut dialect, mut definitions) = (None, None);
    let mut properties = Map::new();
    for (name, mut table) in tables {
        let mut take = |key| table.as_object_mut().and_then(|table| table.remove(key));
        dialect = take("$schema").or(dialect);
        if let Some(Value::Object(more)) = take("$defs") {
            let all: &mut Map<String, Value> = definitions.get_or_insert_default();
            all.extend(more);
        }
        properties.insert(name.to_owned(), json!({ "type": "array", "items": table }));
    }
    json!({
        "$schema": dialect,
        "title": title,
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "$defs": definitions,
    })
}
