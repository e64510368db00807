//! Judges candidates, adoptions and origins of lines: the answers are well-formed, and the operations change no files.

use super::finding::Rule;
use super::harness::Harness;
use super::heard::{Heard, quoted};
use crate::error::FatalError;
use bstr::{BString, ByteSlice};
use holo_protocol::session::Operation;
use holo_protocol::{AdoptMessage, Candidate, CandidateKind, Health, Span};
use std::path::Path;

/// An ID that no plugin should recognise.
const UNKNOWN: &str = "plugin-check:no such entity";
/// The maximum number of candidates that are adopted.
const MAX_ADOPTED: usize = 10;

/// Requests candidates and adopts them, if the plugin supports it.
pub(super) fn judge_adoption(harness: &mut Harness<'_, '_>) -> Result<(), FatalError> {
    if !harness.manner.supports(Operation::Adopt) {
        return Ok(());
    }
    let subject = harness.subject("adopt", &[]);
    let before = harness.scratch.snapshot();
    let heard = harness.ask(Operation::Adopt, &subject)?;
    harness.unchanged_since(Rule::Adopt, &subject, &before, true, "has changed");
    if !ended_well(harness, Rule::Adopt, &subject, &heard) {
        return Ok(());
    }
    let mut candidates = Vec::new();
    for line in heard.messages.split_str("\n").filter(|line| !line.is_empty()) {
        let candidate = Candidate::parse(line);
        let text = format!("says {}, where an ID, a tab and a reason are expected", quoted(line));
        harness.fail_unless(Rule::Adopt, &subject, candidate.is_some(), text);
        let is_adopted = |candidate: &Candidate| !matches!(candidate.kind, CandidateKind::Excluded { .. });
        candidates.extend(candidate.filter(is_adopted).map(|candidate| candidate.id));
    }
    for id in candidates.iter().take(MAX_ADOPTED) {
        adopt(harness, id)?;
    }
    unknown(harness)
}

fn adopt(harness: &mut Harness<'_, '_>, id: &BString) -> Result<(), FatalError> {
    let subject = harness.subject("adopt", std::slice::from_ref(id));
    let directory = harness.scratch.fresh_directory()?;
    let before = harness.scratch.snapshot();
    let heard = harness.adopt(id, &directory)?;
    harness.unchanged_since(Rule::Adopt, &subject, &before, true, "has changed");
    if !ended_well(harness, Rule::Adopt, &subject, &heard) {
        return Ok(());
    }
    let said = messages(harness, &subject, &heard);
    let has_files = std::fs::read_dir(&directory).is_ok_and(|mut entries| entries.next().is_some());
    let text = "says nothing of it: a definition, a file or a message is expected";
    harness.fail_unless(Rule::Adopt, &subject, said || has_files || !heard.stdout.trim().is_empty(), text);
    let definition = heard.stdout.to_str_lossy();
    let parsed = definition.parse::<toml::Table>();
    let text = parsed.as_ref().err().map(|error| format!("prints a definition that is not TOML: {}", error.message()));
    harness.fail_unless(Rule::Adopt, &subject, text.is_none(), text.unwrap_or_default());
    Ok(())
}

/// Expects the plugin to answer `unknown` for an ID that it cannot recognise.
fn unknown(harness: &mut Harness<'_, '_>) -> Result<(), FatalError> {
    let id = BString::from(UNKNOWN);
    let subject = harness.subject("adopt", std::slice::from_ref(&id));
    let directory = harness.scratch.fresh_directory()?;
    let heard = harness.adopt(&id, &directory)?;
    let is_unknown = heard.messages.lines().any(|line| AdoptMessage::parse(line) == Some(AdoptMessage::Unknown));
    let holds = heard.ended_well() == Some(true) && is_unknown;
    let text = "does not say \"unknown\", so that no other plugin would be asked";
    harness.fail_unless(Rule::Adopt, &subject, holds, text);
    Ok(())
}

/// Judges the messages on file descriptor 3. Returns true if there are any.
fn messages(harness: &mut Harness<'_, '_>, subject: &str, heard: &Heard) -> bool {
    let lines = heard.messages.lines().filter(|line| !line.is_empty());
    let odd = lines.clone().find(|line| AdoptMessage::parse(line).is_none());
    let text = odd.map(|line| format!("says {}, which means nothing here", quoted(line)));
    harness.fail_unless(Rule::Adopt, subject, odd.is_none(), text.unwrap_or_default());
    let conflicts = lines.clone().filter_map(AdoptMessage::parse).filter_map(|message| match message {
        AdoptMessage::Conflict(path) => Some(path),
        _ => None,
    });
    for path in conflicts.collect::<Vec<_>>() {
        let text = format!("names {}, which is not a file", path.display());
        harness.fail_unless(Rule::Adopt, subject, Path::new(&path).is_file(), text);
    }
    lines.count() > 0
}

/// Requests the origins of the lines of each entity's file, if the plugin supports it.
pub(super) fn judge_blame(harness: &mut Harness<'_, '_>, living: &[&BString]) -> Result<(), FatalError> {
    if !harness.manner.supports(Operation::Blame) {
        return Ok(());
    }
    for &id in living {
        let ids = std::slice::from_ref(id);
        let subject = harness.subject("blame", ids);
        let before = harness.scratch.snapshot();
        let heard = harness.work(Operation::Blame, ids)?.pop().unwrap_or_default();
        harness.unchanged_since(Rule::Blame, &subject, &before, true, "has changed");
        if !ended_well(harness, Rule::Blame, &subject, &heard) {
            continue;
        }
        // In a session, it is the text of the entity.
        let said = if harness.manner.session { &heard.stdout } else { &heard.messages };
        for line in said.split_str("\n").filter(|line| !line.is_empty()) {
            let text = format!("says {}, where an origin, a tab and a number from 1 on are expected", quoted(line));
            harness.fail_unless(Rule::Blame, &subject, Span::parse(line).is_some(), text);
        }
    }
    Ok(())
}

/// Runs the health checks of the entities, if the plugin supports them.
pub(super) fn judge_health(harness: &mut Harness<'_, '_>, living: &[&BString]) -> Result<(), FatalError> {
    if !harness.manner.supports(Operation::Health) || living.is_empty() {
        return Ok(());
    }
    let ids: Vec<BString> = living.iter().map(|id| (*id).clone()).collect();
    let subject = harness.subject("health", &[]);
    let before = harness.scratch.snapshot();
    let heard = harness.health(&ids, &subject)?;
    harness.unchanged_since(Rule::Health, &subject, &before, true, "has changed");
    if !ended_well(harness, Rule::Health, &subject, &heard) {
        return Ok(());
    }
    for line in heard.messages.lines() {
        let health = Health::parse(line);
        let problem = health.as_ref().err().map(ToString::to_string).unwrap_or_default();
        harness.fail_unless(Rule::Health, &subject, health.is_ok(), problem);
        let is_meant = health.is_ok_and(|health| ids.contains(&health.id));
        let text = format!("says {}, which is about none of the entities", quoted(line));
        harness.fail_unless(Rule::Health, &subject, is_meant, text);
    }
    Ok(())
}

fn ended_well(harness: &mut Harness<'_, '_>, rule: Rule, subject: &str, heard: &Heard) -> bool {
    let Some(ended_well) = heard.ended_well() else { return false };
    let text = format!("{}, where exit status 0 is expected", heard.failure());
    harness.fail_unless(rule, subject, ended_well, text)
}
