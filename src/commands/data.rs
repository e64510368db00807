//! `holo data`

use super::{Context, values};
use crate::cli::Data;
use crate::error::{FatalError, exit};
use crate::report::{Event, Severity};
use holo_facts::{Origin, Standing, key};
use serde_json::{Map, Value, json};

pub(super) fn run(arguments: &Data, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let knowledge = settings.knowledge();
    let data = knowledge.data();
    values::warn(&knowledge, *reporter);
    interrupt.check()?;
    let data = data.map_err(|fault| {
        reporter.event(Event::Aside(Severity::Error, &fault.to_string()));
        FatalError::Reported
    })?;
    let key = arguments.key.as_deref();
    let found = key.map_or(Ok(Some(data.value())), |key| data.lookup(key)).and_then(|found| {
        let Some(found) = found else { return Ok(None) };
        Ok(Some(match (arguments.explain, arguments.json) {
            (false, false) => values::plain(key, found),
            (false, true) => values::json(found),
            (true, false) => data.explain(key)?.iter().map(explain).collect(),
            (true, true) => {
                values::json(&Value::Object(data.explain(key)?.iter().map(explain_in_json).collect::<Map<_, _>>()))
            }
        }))
    });
    let complaint = match found {
        Ok(Some(text)) => {
            reporter.event(Event::Text(text.as_bytes()));
            return Ok(exit::DONE);
        }
        Ok(None) => format!("there is no data at {}", key::shown(key.unwrap_or_default())),
        Err(error) => error.to_string(),
    };
    reporter.event(Event::Aside(Severity::Error, &complaint));
    Ok(exit::FAILED)
}

/// Formats a value, its location, and the values that it takes precedence over.
fn explain(origin: &Origin<'_>) -> String {
    let mut text = values::lines(&origin.key, origin.value);
    for standing in &origin.from {
        text += &format!("    from {standing}\n");
    }
    for (standing, value) in &origin.over {
        text += &format!("    over {standing}: {}\n", values::on_one_line(value));
    }
    text
}

fn explain_in_json(origin: &Origin<'_>) -> (String, Value) {
    let location = |standing: &Standing<'_>| {
        let file = ("file".to_owned(), json!(standing.file.to_string_lossy()));
        [file].into_iter().chain(standing.line.map(|line| ("line".to_owned(), json!(line))))
    };
    let from: Vec<Value> = origin.from.iter().map(|standing| location(standing).collect()).collect();
    let overridden = |(standing, value): &(Standing<'_>, &Value)| {
        location(standing).chain([("value".to_owned(), (*value).clone())]).collect()
    };
    let over: Vec<Value> = origin.over.iter().map(overridden).collect();
    (origin.key.clone(), json!({ "value": origin.value, "from": from, "over": over }))
}
