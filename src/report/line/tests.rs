//! The schema of the lines, which is that of their types.

use super::{Line, Text, VERSION};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};
use std::borrow::Cow;

impl JsonSchema for Text<'_> {
    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Bytes: a string where they are UTF-8, which nearly all are, otherwise an array of their values.",
            "oneOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 255}}
            ]
        })
    }
}

/// Adds what [`Line::to_bytes`] adds.
pub(super) fn with_version(schema: &mut Schema) {
    let version = json!({"version": {"const": VERSION, "description": "The version of the lines."}});
    schema.insert("properties".into(), version);
    schema.insert("required".into(), json!(["version"]));
}

/// Has optional fields be left out: they are never null.
fn never_null(schema: &mut Schema) {
    let Some(Value::Array(mut choices)) = schema.remove("anyOf") else { return };
    choices.retain(|choice| *choice != json!({"type": "null"}));
    assert_eq!(choices.len(), 1, "a choice between more than one: {choices:?}");
    schema.ensure_object().append(choices[0].as_object_mut().unwrap());
}

#[test]
fn the_schema_is_that_of_the_types() {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(RecursiveTransform(never_null));
    let generated = settings.into_generator().into_root_schema_for::<Line<'static>>();
    holo_testing::schema_is_kept("holo-output.schema.json", &generated);
}
