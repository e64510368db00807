//! The schema of the lines, generated from their types.

use super::{Action, Controls, Edges, Line, Outcome, Refusal, Stream, Tally, Text, VERSION, Writer};
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

/// Adds the version that [`Line::to_bytes`] adds.
pub(super) fn with_version(schema: &mut Schema) {
    let version = json!({"version": {"const": VERSION, "description": "The version of the lines."}});
    schema.insert("properties".into(), version);
    schema.insert("required".into(), json!(["version"]));
}

/// Makes optional fields non-null: they are omitted instead.
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

/// Parses a line and checks that it is the same when written again.
#[track_caller]
fn reads_back(line: &Line<'_>) {
    let bytes = line.to_bytes();
    let read = Line::parse(&bytes).unwrap();
    assert_eq!(read.to_bytes(), bytes, "{line:?}");
}

#[test]
fn lines_are_read_as_they_were_written() {
    let id = Text::from("file:/etc/m\"otd");
    let not_text = Text::from(b"\xff\n".as_slice());
    reads_back(&Line::Begin { id: id.clone(), action: Action { verb: "Working on".into(), reason: None } });
    reads_back(&Line::Output { id: None, stream: Stream::Stderr, text: not_text.clone() });
    reads_back(&Line::End {
        id: id.clone(),
        plugin: "files".into(),
        result: Outcome::Failed,
        duration: 0.25,
        changed: vec![not_text],
        would_change: Vec::new(),
        refused: vec![Refusal::Overwrite, Refusal::Other { reason: "too new".into() }],
        sent: Vec::new(),
        kept: vec!["version=1".into()],
        unknown: true,
        reason: Some("it is".into()),
    });
    let writer = Some(Writer { pid: 7, command: Some("puppet".into()) });
    reads_back(&Line::Drifted { id: id.clone(), reason: None, writer, needs_force: false, edited: false });
    reads_back(&Line::Drifted { id, reason: None, writer: None, needs_force: true, edited: true });
    reads_back(&Line::Entity {
        id: "a:b".into(),
        plugin: "a\\b".into(),
        action: Action { verb: "x".into(), reason: Some("y".into()) },
        sources: Vec::new(),
        information: Vec::new(),
        edges: Box::new(Edges { requires: vec!["c:d".into()], ..Edges::default() }),
        controls: Some(Box::new(Controls { noop: true, limit: Some("3/10m".to_owned()), ..Controls::default() })),
    });
    reads_back(&Line::Why(Box::default()));
    let tally = Some(Tally { failed: 1, ..Tally::default() });
    reads_back(&Line::Summary {
        run: Some("1".into()),
        time: None,
        duration: None,
        tally,
        refreshes_due: 2,
        generation: Some(3),
        busy: None,
        exit_code: 1,
        error: None,
    });
}

#[test]
fn later_events_and_fields_are_passed_over_and_other_versions_are_refused() {
    let later = br#"{"version":1,"event":"returned","id":"a","colour":"red"}"#;
    assert!(matches!(Line::parse(later).unwrap(), Line::Returned { .. }));
    assert!(matches!(Line::parse(br#"{"version":1,"event":"sung","by":[1]}"#).unwrap(), Line::Unknown));
    for (line, says) in [
        (r#"{"version":2,"event":"returned","id":"a"}"#, "only version 1 is known"),
        (r#"{"version":1,"event":"returned"}"#, "missing field `id`"),
        ("Working on file:/etc/motd", "not a line of holo --json"),
        (r#"{"event":"returned","id":"a"}"#, "missing field `version`"),
    ] {
        let error = Line::parse(line.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
