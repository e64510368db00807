//! The convention `json`: an object on standard input, and one on standard output.

use crate::compare::Difference;
use crate::convention::{Call, CallError, Caller, Change, Outcome, Reading, Request, Update};
use crate::metadata::Metadata;
use holo_bridge::shown::compact;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Reads these resources; without names, the provider may list all. If the provider refuses them, they are read one by
/// one, so that only those fail that it refuses.
pub(crate) fn get(names: &[&str], call: &mut Caller<'_>) -> Result<BTreeMap<String, Reading>, CallError> {
    match get_at_once(names, call) {
        Err(CallError::Refused(_)) if names.len() > 1 => {}
        answer => return answer,
    }
    let mut readings = BTreeMap::new();
    for &name in names {
        match get_at_once(&[name], call) {
            Ok(answer) => readings.extend(answer),
            Err(CallError::Refused(reason)) => drop(readings.insert(name.to_owned(), Reading::Failed(reason))),
            Err(error) => return Err(error),
        }
    }
    Ok(readings)
}

fn get_at_once(names: &[&str], call: &mut Caller<'_>) -> Result<BTreeMap<String, Reading>, CallError> {
    let answer = ask("get", &json!({ "names": names }), call)?;
    let resources = answer.get("resources").and_then(Value::as_array);
    let resources = resources.ok_or_else(|| malformed("get", "there are no resources in its answer"))?;
    resources.iter().map(reading).collect()
}

fn reading(resource: &Value) -> Result<(String, Reading), CallError> {
    let fields = resource.as_object().ok_or_else(|| malformed("get", &format!("{resource} is not a resource")))?;
    let name = fields.get("name").and_then(Value::as_str);
    let name = name.ok_or_else(|| malformed("get", &format!("{resource} has no name")))?;
    let reading = match fields.get("error").filter(|error| !error.is_null()) {
        Some(error) if error.get("kind").is_some_and(|kind| kind == "unknown") => Reading::Unknown,
        Some(error) => Reading::Failed(message(error)),
        None => {
            let reported = fields.iter().filter(|(key, value)| *key != "name" && !value.is_null());
            Reading::Known(reported.map(|(key, value)| (key.clone(), value.clone())).collect())
        }
    };
    Ok((name.to_owned(), reading))
}

/// Updates resources with a single call.
pub(crate) fn set(metadata: &Metadata, requests: &[Request<'_>], call: &mut Caller<'_>) -> Result<Update, CallError> {
    let update = |request: &Request<'_>| json!({ "name": request.name, "is": request.is, "should": request.should });
    let updates: Vec<Value> = requests.iter().map(update).collect();
    let answer = ask("set", &json!({ "ral": { "noop": false }, "updates": updates }), call)?;
    let empty = Vec::new();
    let changes = match answer.get("changes") {
        None | Some(Value::Null) => &empty,
        Some(changes) => changes.as_array().ok_or_else(|| malformed("set", "its changes are not a list"))?,
    };
    let mut update = Update::default();
    for entry in changes {
        let name = entry.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| malformed("set", &format!("{entry} has no name")))?;
        let outcome = outcome(entry);
        if requests.iter().any(|request| request.name == name) {
            merge(&mut update.outcomes, name, outcome);
        } else if let Outcome::Changed(changes) = outcome {
            let (kind, changes) = (&metadata.kind, shown(&changes));
            update.others.push(format!("[{}] also changed {kind} {name}: {changes}", metadata.qualified_name()));
        }
    }
    let derives = answer.get("derive").is_some_and(|derive| derive == true || derive == "true");
    for request in requests.iter().filter(|_| derives) {
        let derived = || Outcome::Changed(request.differences.iter().map(change_of).collect());
        update.outcomes.entry(request.name.to_owned()).or_insert_with(derived);
    }
    Ok(update)
}

/// Merges two entries about the same resource.
fn merge(outcomes: &mut BTreeMap<String, Outcome>, name: &str, outcome: Outcome) {
    match (outcomes.get_mut(name), outcome) {
        (Some(Outcome::Changed(known)), Outcome::Changed(more)) => known.extend(more),
        (Some(Outcome::Failed(_)), Outcome::Changed(_)) => {}
        (_, outcome) => {
            outcomes.insert(name.to_owned(), outcome);
        }
    }
}

fn outcome(entry: &Value) -> Outcome {
    let fields: &Map<String, Value> = match entry.as_object() {
        Some(fields) => fields,
        None => return Outcome::Failed(format!("{entry} is not a change")),
    };
    if let Some(error) = fields.get("error").filter(|error| !error.is_null()) {
        return Outcome::Failed(message(error));
    }
    let mut changes = Vec::new();
    for (name, values) in fields.iter().filter(|(key, _)| !["name", "error"].contains(&key.as_str())) {
        let (Some(is), Some(was)) = (values.get("is"), values.get("was")) else {
            return Outcome::Failed(format!("the change of {name} does not say what it is and was: {values}"));
        };
        changes.push(Change { name: name.clone(), was: compact(was), is: compact(is) });
    }
    Outcome::Changed(changes)
}

/// Converts a difference into a change.
pub(crate) fn change_of(difference: &Difference) -> Change {
    let was = difference.is.as_ref().map_or_else(|| "none".to_owned(), compact);
    Change { name: difference.name.clone(), was, is: compact(&difference.should) }
}

/// Describes changes.
pub(crate) fn shown(changes: &[Change]) -> String {
    let words: Vec<String> = changes.iter().map(|Change { name, was, is }| format!("{name}: {was} -> {is}")).collect();
    words.join(", ")
}

fn ask(action: &str, request: &Value, call: &mut Caller<'_>) -> Result<Value, CallError> {
    let stdout =
        call(&Call { arguments: vec![format!("ral_action={action}")], input: Some(request.to_string().into()) })?;
    let answer: Value = serde_json::from_slice(&stdout)
        .map_err(|error| malformed(action, &format!("its answer is not JSON: {error}")))?;
    match answer.get("error") {
        Some(error) if !error.is_null() => Err(CallError::Refused(message(error))),
        _ if answer.is_object() => Ok(answer),
        _ => Err(malformed(action, "its answer is not an object")),
    }
}

/// Returns the error in an answer, which counts whatever the exit status is.
pub(crate) fn error_in(stdout: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(stdout).ok()?;
    answer.get("error").filter(|error| !error.is_null()).map(message)
}

fn malformed(action: &str, problem: &str) -> CallError {
    CallError::Answer(format!("{action}: {problem}"))
}

/// Returns the message of an error.
fn message(error: &Value) -> String {
    let text = match error.get("message") {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => error.to_string(),
    };
    match error.get("kind").and_then(Value::as_str) {
        Some("forbidden") => format!("not permitted: {text}"),
        Some("unknown") => format!("there is no such resource: {text}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests;
