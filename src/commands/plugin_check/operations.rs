//! Runs the operations on entities in the order of several consecutive runs.

use super::finding::Rule;
use super::harness::Harness;
use super::heard::{CallError, Heard};
use super::judgement::{compare_with_check, judge_last_check, judge_output, judge_paths, judge_second_apply};
use super::{described, info, messages, report};
use crate::error::FatalError;
use bstr::{BString, ByteSlice};
use holo_protocol::session::Operation;
use holo_protocol::{API_VERSION_4, Message};
use std::collections::{HashMap, HashSet};

/// The maximum number of entities tested. A plugin that handles these correctly is likely to handle the rest too.
const MAX_ENTITIES: usize = 20;

/// The results so far.
#[derive(Default)]
struct Known {
    /// The messages of the checks before the first apply.
    checked: HashMap<BString, Vec<Message>>,
    /// Entities that the plugin refuses without `--force`, or only pretends to change; a later operation may find them
    /// missing.
    refused: HashSet<BString>,
    /// Entities that are applied every time by design.
    always: HashSet<BString>,
    /// Entities that cannot be worked on; repeating the attempt would only take time.
    given_up: HashSet<BString>,
}

/// The stage of the test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No entity has been applied.
    Before,
    /// The entities are being applied for the first time.
    First,
    /// All entities have been applied.
    Applied,
}

/// Runs all operations in the order in which users would.
pub(super) fn all(harness: &mut Harness<'_, '_>) -> Result<(), FatalError> {
    let Some(report::Reported { sets, always }) = report::first_scan(harness)? else { return Ok(()) };
    let sets = first_entities(harness, sets);
    info::judge(harness)?;
    described::judge_adoption(harness)?;
    unknown_entity(harness, sets.first().and_then(|set| set.first()))?;
    if sets.is_empty() {
        return Ok(());
    }
    let mut known = Known { always, ..Known::default() };
    let stages = [
        (Stage::Before, &[Operation::Check, Operation::Diff, Operation::Preview][..]),
        (Stage::First, &[Operation::Apply]),
        (Stage::Applied, &[Operation::Apply]),
        (Stage::Applied, &[Operation::Check, Operation::Diff, Operation::Preview]),
        (Stage::Applied, &[Operation::ForceApply]),
        (Stage::Applied, &[Operation::Apply]),
    ];
    for (stage, operations) in stages {
        let Some(there) = report::later_scan(harness)? else { return Ok(()) };
        for &operation in operations {
            let is_known = match operation {
                // In version 3, a diff takes the place of a check.
                Operation::Check => harness.manner.api_version >= API_VERSION_4,
                Operation::Preview => harness.manner.supports(Operation::Preview),
                _ => true,
            };
            if is_known {
                operate(harness, &sets, &there, &mut known, (stage, operation))?;
            }
        }
    }
    described::judge_adoption(harness)?;
    let Some(there) = report::later_scan(harness)? else { return Ok(()) };
    let living: Vec<&BString> = sets.iter().flatten().filter(|id| there.contains(*id)).collect();
    described::judge_blame(harness, &living)?;
    described::judge_health(harness, &living)?;
    info::judge(harness)
}

/// Returns the entities that are tested.
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

/// Expects that the plugin rejects an entity that does not exist.
fn unknown_entity(harness: &mut Harness<'_, '_>, like: Option<&BString>) -> Result<(), FatalError> {
    let kind = like.and_then(|id| id.split_once_str(":")).map_or(harness.id.as_bytes(), |(kind, _)| kind);
    let id = BString::from([kind, b":no-such-entity"].concat());
    let all = [Operation::Check, Operation::Apply, Operation::ForceApply, Operation::Diff, Operation::Forget];
    for operation in all {
        let is_missing = match operation {
            Operation::Check => harness.manner.api_version < API_VERSION_4,
            Operation::Forget => !harness.manner.supports(operation),
            _ => false,
        };
        if is_missing {
            continue;
        }
        let subject = harness.subject(operation.word(), std::slice::from_ref(&id));
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

/// Runs an operation on all entities that still exist.
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
        let subject = harness.subject(operation.word(), &ids);
        match operation {
            Operation::Check => harness.unchanged_since(Rule::Check, &subject, &before, true, "has changed"),
            Operation::Diff | Operation::Preview => {
                harness.unchanged_since(Rule::Diff, &subject, &before, true, "has changed");
            }
            Operation::Apply if ids.iter().all(|id| known.always.contains(id)) => {}
            Operation::Apply if stage == Stage::Applied || said_not_changed(harness, &all) => {
                let what = if stage == Stage::First {
                    "said \"not changed\", but has changed"
                } else {
                    "the second apply has changed"
                };
                harness.unchanged_since(Rule::Apply, &subject, &before, false, what);
            }
            Operation::Scan
            | Operation::Apply
            | Operation::ForceApply
            | Operation::Forget
            | Operation::Doctor
            | Operation::Health
            | Operation::Blame
            | Operation::Adopt => {}
        }
        for (id, heard) in ids.iter().zip(&all) {
            judge(harness, id, heard, known, (stage, operation));
        }
    }
    Ok(())
}

/// Repeats the check directly before the first apply, so that no other operation comes between them.
fn check_again(harness: &mut Harness<'_, '_>, ids: &[BString], known: &mut Known) -> Result<(), FatalError> {
    let all = harness.work(Operation::Check, ids)?;
    for (id, heard) in ids.iter().zip(&all).filter(|(_, heard)| heard.ended_well() == Some(true)) {
        let subject = harness.subject(Operation::Check.word(), std::slice::from_ref(id));
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

/// Returns true if commands were only printed, as plugins do below a root in which they cannot be run.
fn is_pretended(heard: &Heard) -> bool {
    heard.stdout.lines().any(|line| line.starts_with(b"MOCK: "))
}

/// Judges an operation on an entity.
fn judge(
    harness: &mut Harness<'_, '_>,
    id: &BString,
    heard: &Heard,
    known: &mut Known,
    (stage, operation): (Stage, Operation),
) {
    let subject = harness.subject(operation.word(), std::slice::from_ref(id));
    let rule = match operation {
        Operation::Check => Rule::Check,
        Operation::Diff | Operation::Preview => Rule::Diff,
        Operation::ForceApply => Rule::ForceApply,
        Operation::Scan
        | Operation::Apply
        | Operation::Forget
        | Operation::Doctor
        | Operation::Health
        | Operation::Blame
        | Operation::Adopt => Rule::Apply,
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
    if matches!(operation, Operation::Diff | Operation::Preview) {
        judge_paths(harness, &subject, &heard.messages, operation == Operation::Preview);
        return;
    }
    let messages = messages::read(harness, operation, &subject, heard);
    if messages.iter().any(|message| matches!(message, Message::Deferred(_))) {
        // It may be deferred as often as it is applied.
        known.always.insert(id.clone());
    }
    match (operation, stage) {
        (Operation::Check | Operation::Apply, Stage::Applied) if known.always.contains(id) => {}
        (Operation::Check, Stage::Applied) => {
            judge_last_check(harness, &subject, &messages, known.refused.contains(id));
        }
        (Operation::Check, _) => drop(known.checked.insert(id.clone(), messages)),
        (Operation::ForceApply, _) => {
            let refuses = messages.iter().any(Message::is_refusal);
            harness.fail_unless(rule, &subject, !refuses, "refuses, though it is called with force");
            if !is_pretended(heard) {
                known.refused.remove(id);
            }
        }
        (_, Stage::Applied) => judge_second_apply(harness, &subject, heard, &messages, known.refused.contains(id)),
        _ => {
            compare_with_check(harness, &subject, known.checked.get(id), &messages);
            if messages.iter().any(Message::is_refusal) || is_pretended(heard) {
                known.refused.insert(id.clone());
            }
        }
    }
}
