//! The convention `simple`: assignments as arguments, which a shell script evaluates, and lines `KEY: VALUE` as the
//! answer.

use super::json::change_of;
use crate::attribute::{Access, Values};
use crate::convention::{Call, CallError, Caller, Change, Outcome, Reading, Request, Update};
use crate::metadata::Metadata;
use serde_json::Value;
use std::collections::BTreeMap;

/// Up to this number, resources are looked up one by one; more are listed at once.
const MANY: usize = 16;

/// Reads these resources: one by one if the provider refuses to list them.
pub(crate) fn get(names: &[&str], call: &mut Caller<'_>) -> Result<BTreeMap<String, Reading>, CallError> {
    let mut readings = match if names.len() > MANY { list(call) } else { Ok(BTreeMap::new()) } {
        Err(CallError::Refused(_)) => BTreeMap::new(),
        listed => listed?,
    };
    for &name in names {
        if !readings.contains_key(name) {
            let reading = match find(name, call) {
                Err(CallError::Refused(reason)) => Reading::Failed(reason),
                found => found?,
            };
            readings.insert(name.to_owned(), reading);
        }
    }
    Ok(readings)
}

/// Reads all resources.
pub(crate) fn list(call: &mut Caller<'_>) -> Result<BTreeMap<String, Reading>, CallError> {
    let answer = ask(vec!["ral_action=list".to_owned()], call)?;
    if let Some(error) = answer.error {
        return Err(CallError::Refused(error));
    }
    Ok(answer.resources.into_iter().map(|resource| (resource.name, Reading::Known(resource.values))).collect())
}

fn find(name: &str, call: &mut Caller<'_>) -> Result<Reading, CallError> {
    let argument = match assignment("name", &Value::from(name)) {
        Ok(argument) => argument,
        Err(problem) => return Ok(Reading::Failed(problem)),
    };
    let answer = ask(vec![argument, "ral_action=find".to_owned()], call)?;
    if answer.is_unknown {
        return Ok(Reading::Unknown);
    }
    if let Some(error) = answer.error {
        return Ok(Reading::Failed(error));
    }
    let found = answer.resources.into_iter().find(|resource| resource.name == name);
    Ok(found.map_or(Reading::Unknown, |resource| Reading::Known(resource.values)))
}

/// Updates resources sequentially.
pub(crate) fn set(metadata: &Metadata, requests: &[Request<'_>], call: &mut Caller<'_>) -> Update {
    let outcome = |request: &Request<'_>, call: &mut Caller<'_>| {
        let outcome = set_one(metadata, request, call);
        (request.name.to_owned(), outcome.unwrap_or_else(|error| Outcome::Failed(error.to_string())))
    };
    Update { outcomes: requests.iter().map(|request| outcome(request, call)).collect(), others: Vec::new() }
}

fn set_one(metadata: &Metadata, request: &Request<'_>, call: &mut Caller<'_>) -> Result<Outcome, CallError> {
    let is_written = |name: &str| metadata.attributes.get(name).is_some_and(|known| known.access == Access::Write);
    let differs = |name: &str| request.differences.iter().any(|difference| difference.name == name);
    // Without differences, only attributes that cannot be compared are to be set, such as the latest version.
    let is_forced = request.differences.is_empty();
    let wanted = request
        .should
        .iter()
        .filter(|(name, _)| differs(name) || is_written(name) || (is_forced && *name == crate::compare::ENSURE));
    let mut arguments = vec![assignment("name", &Value::from(request.name)).map_err(CallError::Answer)?];
    for (name, value) in wanted {
        arguments.push(assignment(name, value).map_err(CallError::Answer)?);
    }
    arguments.push("ral_action=update".to_owned());
    let answer = ask(arguments, call)?;
    if let Some(error) = answer.error {
        return Ok(Outcome::Failed(error));
    }
    if answer.is_unknown {
        return Ok(Outcome::Failed("there is no such resource".to_owned()));
    }
    let mut resources = answer.resources.into_iter();
    let changes = match resources.next() {
        Some(resource) if resource.name != request.name => {
            return Ok(Outcome::Failed(format!("it answered about {:?} instead", resource.name)));
        }
        Some(resource) => resource.changes,
        None => Vec::new(),
    };
    if changes.is_empty() && answer.derives {
        return Ok(Outcome::Changed(request.differences.iter().map(change_of).collect()));
    }
    Ok(Outcome::Changed(changes))
}

/// Returns an argument that a shell evaluates as an assignment.
fn assignment(name: &str, value: &Value) -> Result<String, String> {
    let Some(text) = holo_bridge::text(value) else {
        return Err(format!("{name}: a list cannot be given to a provider that is called by the simple convention"));
    };
    if text.contains(['\n', '\0']) {
        return Err(format!("{name}: a newline cannot be given to a provider that is called by the simple convention"));
    }
    Ok(format!("{name}='{}'", text.replace('\'', r"'\''")))
}

/// Returns the error in an answer.
pub(crate) fn error_in(stdout: &[u8]) -> Option<String> {
    parse(&String::from_utf8_lossy(stdout)).ok()?.error
}

/// A parsed answer.
#[derive(Debug, Default)]
struct Answer {
    resources: Vec<Described>,
    derives: bool,
    is_unknown: bool,
    error: Option<String>,
}

/// A resource in an answer.
#[derive(Debug)]
struct Described {
    name: String,
    values: Values,
    changes: Vec<Change>,
}

fn ask(arguments: Vec<String>, call: &mut Caller<'_>) -> Result<Answer, CallError> {
    let stdout = call(&Call { arguments, input: None })?;
    let text = String::from_utf8(stdout).map_err(|_| CallError::Answer("its answer is not UTF-8".to_owned()))?;
    parse(&text).map_err(CallError::Answer)
}

fn parse(text: &str) -> Result<Answer, String> {
    let mut lines = text.lines();
    match lines.next().map(str::trim) {
        Some("# simple") => {}
        Some(other) => return Err(format!("its answer begins with {other:?}, not with \"# simple\"")),
        None => return Err("it does not answer".to_owned()),
    }
    let mut answer = Answer::default();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() {
            continue;
        }
        let (key, value) = line.split_once(':').ok_or_else(|| format!("{line:?} is not KEY: VALUE"))?;
        let (key, value) = (key.trim(), value.trim());
        match key {
            "name" => {
                answer.resources.push(Described { name: value.to_owned(), values: Values::new(), changes: Vec::new() });
            }
            "ral_was" => answer.note_change(value)?,
            "ral_derive" => answer.derives = value == "true",
            "ral_unknown" => answer.is_unknown = value == "true",
            // Even without ral_eom, this is an error of the provider.
            "ral_error" => answer.error = Some(error_text(value, &mut lines)),
            "ral_eom" => {}
            _ => {
                let resource = answer.resources.last_mut().ok_or_else(|| format!("{line:?} stands before a name"))?;
                resource.values.insert(key.to_owned(), Value::from(value));
                resource.changes.push(Change { name: key.to_owned(), was: String::new(), is: value.to_owned() });
            }
        }
    }
    for resource in &mut answer.resources {
        resource.changes.retain(|change| !change.was.is_empty());
    }
    Ok(answer)
}

impl Answer {
    /// Records the previous value of the attribute on the line before.
    fn note_change(&mut self, was: &str) -> Result<(), String> {
        let last = self.resources.last_mut().and_then(|resource| resource.changes.last_mut());
        let last = last.ok_or_else(|| "ral_was stands before an attribute".to_owned())?;
        last.was = if was.is_empty() { "none".to_owned() } else { was.to_owned() };
        Ok(())
    }
}

fn error_text<'t>(first: &'t str, lines: &mut std::str::Lines<'t>) -> String {
    let more = lines.by_ref().take_while(|line| !line.trim().starts_with("ral_eom"));
    let all = [first].into_iter().chain(more.map(str::trim)).filter(|line| !line.is_empty());
    all.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
