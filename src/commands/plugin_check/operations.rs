//! The operations on entities, as several runs one after the other would ask for them.

use super::finding::Rule;
use super::harness::Harness;
use super::heard::{CallError, Heard, plain, quoted, word};
use super::{messages, report};
use crate::diff;
use crate::error::FatalError;
use bstr::{BString, ByteSlice};
use holo_protocol::session::Operation;
use holo_protocol::{API_VERSION_4, Label, Message};
use std::collections::{HashMap, HashSet};

/// The number of entities that are tried. A plugin that treats so many well treats the others well too.
const MAX_ENTITIES: usize = 20;
/// The number of bytes of output beyond which it is not for people to read.
const MUCH_OUTPUT: usize = 1 << 16;

/// The results about the entities so far.
#[derive(Default)]
struct Known {
    /// The messages of the checks before anything was applied.
    checked: HashMap<BString, Vec<Message>>,
    /// Those that the plugin leaves as they are for want of `--force`.
    refused: HashSet<BString>,
    /// Those that are done at every apply by their nature.
    always: HashSet<BString>,
    /// Those that cannot be worked on; asking again would only take time.
    given_up: HashSet<BString>,
}

/// The stage of the trial.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing has been applied.
    Before,
    /// The entities are being applied for the first time.
    First,
    /// All have been applied.
    Applied,
}

/// Puts the plugin through all operations, in the order in which its users would.
pub(super) fn all(harness: &mut Harness<'_, '_>) -> Result<(), FatalError> {
    let Some(report::Reported { sets, always }) = report::first_scan(harness)? else { return Ok(()) };
    let sets = first_entities(harness, sets);
    unknown_entity(harness, sets.first().and_then(|set| set.first()))?;
    if sets.is_empty() {
        return Ok(());
    }
    let mut known = Known { always, ..Known::default() };
    let stages = [
        (Stage::Before, &[Operation::Check, Operation::Diff][..]),
        (Stage::First, &[Operation::Apply]),
        (Stage::Applied, &[Operation::Apply]),
        (Stage::Applied, &[Operation::Check, Operation::Diff]),
        (Stage::Applied, &[Operation::ForceApply]),
        (Stage::Applied, &[Operation::Apply]),
    ];
    for (stage, operations) in stages {
        let Some(there) = report::later_scan(harness)? else { return Ok(()) };
        for &operation in operations {
            // A diff tells in version 3 what a check could tell.
            if operation != Operation::Check || harness.manner.api_version >= API_VERSION_4 {
                operate(harness, &sets, &there, &mut known, (stage, operation))?;
            }
        }
    }
    Ok(())
}

/// Returns as many entities as are tried.
fn first_entities(harness: &mut Harness<'_, '_>, sets: Vec<Vec<BString>>) -> Vec<Vec<BString>> {
    let count: usize = sets.iter().map(Vec::len).sum();
    if count > MAX_ENTITIES {
        harness.findings.note(format!("there are {count} entities, of which only the first {MAX_ENTITIES} are tried"));
    } else if count == 0 {
        harness.findings.note("there are no entities to try; see --resources".to_owned());
    }
    let mut left = MAX_ENTITIES;
    let mut first = Vec::new();
    for mut set in sets {
        set.truncate(left);
        left -= set.len();
        if harness.manner.session {
            first.push(set);
        } else {
            first.extend(set.into_iter().map(|id| vec![id]));
        }
    }
    first.retain(|set| !set.is_empty());
    first
}

/// Expects that an entity that does not exist is not taken for one that does.
fn unknown_entity(harness: &mut Harness<'_, '_>, like: Option<&BString>) -> Result<(), FatalError> {
    let kind = like.and_then(|id| id.split_once_str(":")).map_or(harness.id.as_bytes(), |(kind, _)| kind);
    let id = BString::from([kind, b":no-such-entity"].concat());
    for operation in [Operation::Check, Operation::Apply, Operation::ForceApply, Operation::Diff] {
        if operation == Operation::Check && harness.manner.api_version < API_VERSION_4 {
            continue;
        }
        let subject = harness.subject(word(operation), std::slice::from_ref(&id));
        let before = harness.scratch.snapshot();
        let heard = harness.work(operation, std::slice::from_ref(&id))?.pop().unwrap_or_default();
        harness.unchanged_since(
            Rule::Version3,
            &subject,
            &before,
            true,
            "there is no such entity, but this has changed",
        );
        let Some(ended_well) = heard.ended_well() else { continue };
        let expected = if harness.manner.session { "result \"failed\"" } else { "exit status 1" };
        let text = format!("there is no such entity, so {expected} is expected, but it succeeds");
        if harness.fail_unless(Rule::Version3, &subject, !ended_well, text) {
            let has_said = !heard.stderr.is_empty() || !heard.stdout.is_empty();
            harness.fail_unless(
                Rule::Version3,
                &subject,
                has_said,
                "it failed without saying that there is no such entity",
            );
        }
    }
    Ok(())
}

/// Has one operation done on all entities that are still there.
fn operate(
    harness: &mut Harness<'_, '_>,
    sets: &[Vec<BString>],
    there: &HashSet<BString>,
    known: &mut Known,
    (stage, operation): (Stage, Operation),
) -> Result<(), FatalError> {
    for set in sets {
        let still = |id: &&BString| there.contains(*id) && !known.given_up.contains(*id);
        let ids: Vec<BString> = set.iter().filter(still).cloned().collect();
        if ids.is_empty() {
            continue;
        }
        if (stage, operation) == (Stage::First, Operation::Apply) && harness.manner.api_version >= API_VERSION_4 {
            check_again(harness, &ids, known)?;
        }
        let before = harness.scratch.snapshot();
        let all = harness.work(operation, &ids)?;
        let subject = harness.subject(word(operation), &ids);
        match operation {
            Operation::Check => harness.unchanged_since(Rule::Check, &subject, &before, true, "has changed"),
            Operation::Diff => harness.unchanged_since(Rule::Diff, &subject, &before, true, "has changed"),
            Operation::Apply if ids.iter().all(|id| known.always.contains(id)) => {}
            Operation::Apply if stage == Stage::Applied || said_not_changed(harness, &all) => {
                let what = if stage == Stage::First {
                    "said \"not changed\", but has changed"
                } else {
                    "the second apply has changed"
                };
                harness.unchanged_since(Rule::Apply, &subject, &before, false, what);
            }
            Operation::Scan | Operation::Apply | Operation::ForceApply => {}
        }
        for (id, heard) in ids.iter().zip(&all) {
            judge(harness, id, heard, known, (stage, operation));
        }
    }
    Ok(())
}

/// Takes what a check says directly before the first apply: nothing but that apply comes between them.
fn check_again(harness: &mut Harness<'_, '_>, ids: &[BString], known: &mut Known) -> Result<(), FatalError> {
    let all = harness.work(Operation::Check, ids)?;
    for (id, heard) in ids.iter().zip(&all).filter(|(_, heard)| heard.ended_well() == Some(true)) {
        let subject = harness.subject(word(Operation::Check), std::slice::from_ref(id));
        let messages = messages::read(harness, Operation::Check, &subject, heard);
        known.checked.insert(id.clone(), messages);
    }
    Ok(())
}

fn said_not_changed(harness: &Harness<'_, '_>, all: &[Heard]) -> bool {
    let version = harness.manner.api_version;
    let is_said = |heard: &Heard| {
        heard.error.is_none()
            && heard
                .messages
                .split_str("\n")
                .any(|line| Message::parse(line, version).is_some_and(|message| message.is_nothing_to_do()))
    };
    all.iter().all(is_said)
}

/// Judges an operation on an entity.
fn judge(
    harness: &mut Harness<'_, '_>,
    id: &BString,
    heard: &Heard,
    known: &mut Known,
    (stage, operation): (Stage, Operation),
) {
    let subject = harness.subject(word(operation), std::slice::from_ref(id));
    let rule = match operation {
        Operation::Check => Rule::Check,
        Operation::Diff => Rule::Diff,
        Operation::ForceApply => Rule::ForceApply,
        Operation::Scan | Operation::Apply => Rule::Apply,
    };
    judge_output(harness, &subject, heard);
    let Some(ended_well) = heard.ended_well() else {
        if heard.error == Some(CallError::Told) {
            known.given_up.insert(id.clone());
        }
        return;
    };
    let expected = if harness.manner.session { "it is expected to be done" } else { "exit status 0 is expected" };
    if !harness.fail_unless(rule, &subject, ended_well, format!("{}, where {expected}", heard.failure())) {
        return;
    }
    if operation == Operation::Diff {
        judge_paths(harness, &subject, &heard.messages);
        return;
    }
    let messages = messages::read(harness, operation, &subject, heard);
    match (operation, stage) {
        (Operation::Check | Operation::Apply, Stage::Applied) if known.always.contains(id) => {}
        (Operation::Check, Stage::Applied) => {
            judge_last_check(harness, &subject, &messages, known.refused.contains(id));
        }
        (Operation::Check, _) => drop(known.checked.insert(id.clone(), messages)),
        (Operation::ForceApply, _) => {
            let refuses = messages.iter().any(Message::is_refusal);
            harness.fail_unless(rule, &subject, !refuses, "refuses, though it is called with force");
            known.refused.remove(id);
        }
        (_, Stage::Applied) => judge_second_apply(harness, &subject, heard, &messages, known.refused.contains(id)),
        _ => {
            compare_with_check(harness, &subject, known.checked.get(id), &messages);
            if messages.iter().any(Message::is_refusal) {
                known.refused.insert(id.clone());
            }
        }
    }
}

fn judge_output(harness: &mut Harness<'_, '_>, subject: &str, heard: &Heard) {
    for (name, text) in [("output", &heard.stdout), ("error", &heard.stderr)] {
        let ends = text.is_empty() || text.ends_with(b"\n");
        let problem = format!("the last line on standard {name} has no newline");
        harness.warn_unless(Rule::Version3, subject, ends, problem);
        let problem = format!("prints {} bytes on standard {name}, which a person is to read", text.len());
        harness.warn_unless(Rule::Version3, subject, text.len() < MUCH_OUTPUT, problem);
    }
}

/// Expects that an entity that was just applied needs no more work.
fn judge_second_apply(
    harness: &mut Harness<'_, '_>,
    subject: &str,
    heard: &Heard,
    messages: &[Message],
    refused: bool,
) {
    // A refusal of the first time is repeated.
    if refused && messages.iter().any(Message::is_refusal) {
        return;
    }
    let is_unchanged = messages.iter().any(Message::is_nothing_to_do);
    harness.fail_unless(Rule::Apply, subject, is_unchanged, "the second apply did not say \"not changed\"");
    let text = [&heard.stdout[..], &heard.stderr].concat();
    let problem = format!("the second apply printed {}, so that users see the entity each time", quoted(&text));
    harness.warn_unless(Rule::Apply, subject, text.is_empty(), problem);
}

fn judge_last_check(harness: &mut Harness<'_, '_>, subject: &str, messages: &[Message], refused: bool) {
    let is_consistent = |message: &Message| match message {
        Message::NotChanged | Message::Skipped(_) | Message::Unknown => true,
        message => refused && message.is_refusal(),
    };
    let text = "the entity was applied, but the check did not say \"not changed\"";
    harness.fail_unless(Rule::Check, subject, messages.iter().all(is_consistent), text);
    let text = "the check says nothing, which is taken for \"unknown\"; after an apply, \"not changed\" is expected";
    harness.warn_unless(Rule::Check, subject, !messages.is_empty(), text);
}

/// Expects that an apply does as the check has announced.
fn compare_with_check(
    harness: &mut Harness<'_, '_>,
    subject: &str,
    checked: Option<&Vec<Message>>,
    applied: &[Message],
) {
    let Some(checked) = checked else { return };
    let is_unchanged = applied.iter().any(Message::is_nothing_to_do);
    let promised = checked.iter().any(Message::is_nothing_to_do);
    let text = "the check said \"not changed\", but the apply did not";
    harness.fail_unless(Rule::Check, subject, is_unchanged || !promised, text);
    let announced = checked.iter().find(|message| matches!(message, Message::WouldChange(_)));
    let text = announced
        .map(|message| format!("the check said {}, but the apply \"not changed\"", quoted(&message.to_line())));
    harness.fail_unless(Rule::Check, subject, text.is_none() || !is_unchanged, text.unwrap_or_default());
}

/// Judges the two paths of a difference, if there is one, and their labels, if they have any.
fn judge_paths(harness: &mut Harness<'_, '_>, subject: &str, said: &[u8]) {
    let parts: Vec<&[u8]> =
        said.split_inclusive(|&byte| byte == 0).filter_map(|part| part.strip_suffix(b"\0")).collect();
    let has_labels = harness.manner.api_version >= API_VERSION_4 && parts.len() > 2;
    let (paths, labels) = if has_labels { parts.split_at(2) } else { (&parts[..], &[][..]) };
    let ends = said.is_empty() || said.ends_with(b"\0");
    let text = format!("says {} on file descriptor 3, where each path is to be followed by a NUL byte", quoted(said));
    let is_whole = harness.fail_unless(Rule::Diff, subject, ends, text);
    let text = format!(
        "names {} {}, where two are expected, or none",
        paths.len(),
        if paths.len() == 1 { "path" } else { "paths" }
    );
    harness.fail_unless(Rule::Diff, subject, [0, 2].contains(&paths.len()) || !is_whole, text);
    let text = format!(
        "says {} {} after the two paths, where two are expected, or none",
        labels.len(),
        if labels.len() == 1 { "label" } else { "labels" }
    );
    harness.fail_unless(Rule::Diff, subject, [0, 2].contains(&labels.len()) || !is_whole, text);
    for label in labels {
        let text = format!(
            "says the label {}, where at most {} bytes without control characters are expected",
            quoted(label),
            Label::MAX_BYTES
        );
        harness.fail_unless(Rule::Diff, subject, Label::is_sound(label), text);
    }
    let root = harness.scratch.directories().root.clone();
    for path in paths {
        let loaded = diff::load(&path.as_bstr().to_path_lossy(), &root);
        let why = loaded.as_ref().err().map(|error| match error {
            diff::LoadError::WrongFileType { .. } => "a regular file or a symlink is expected".to_owned(),
            diff::LoadError::Io { error, .. } => holo_protocol::words::reason(error),
        });
        let text = format!("names {}, which cannot be shown: {}", plain(path), why.unwrap_or_default());
        harness.fail_unless(Rule::Diff, subject, loaded.is_ok(), text);
    }
}
