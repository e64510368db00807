//! Judges the messages on file descriptor 3, which must be consistent with one another, and the copies of replaced
//! contents that they name.

use super::finding::Rule;
use super::harness::Harness;
use super::heard::{Heard, listed, plain, quoted};
use bstr::ByteSlice;
use holo_protocol::session::Operation;
use holo_protocol::{Kept, Message, Replaced};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns the messages of an operation, after reporting anything odd about them.
pub(super) fn read(harness: &mut Harness<'_, '_>, operation: Operation, subject: &str, heard: &Heard) -> Vec<Message> {
    let version = harness.manner.api_version;
    let rule = if operation == Operation::Check { Rule::Check } else { Rule::Apply };
    let lines: Vec<&[u8]> = heard.messages.split_str("\n").filter(|line| !line.is_empty()).collect();
    let unknown: Vec<String> =
        lines.iter().filter(|line| Message::parse(line, version).is_none()).map(|line| quoted(line)).collect();
    let text = format!("says {} on file descriptor 3, which is no message of version {version}", listed(&unknown));
    harness.warn_unless(rule, subject, unknown.is_empty(), text);
    let messages: Vec<Message> = lines.iter().filter_map(|line| Message::parse(line, version)).collect();
    let malformed: Vec<String> = messages
        .iter()
        .filter(|message| matches!(message, Message::Malformed(_)))
        .map(|message| quoted(&message.to_line()))
        .collect();
    let text = format!("says {}, where \"send: KEY=VALUE\" or \"keep: KEY=VALUE\" is expected", listed(&malformed));
    harness.fail_unless(Rule::MoreMessages, subject, malformed.is_empty(), text);
    judge_replaced(harness, subject, &messages);
    let misplaced: Vec<String> =
        messages.iter().filter(|message| !has_meaning(operation, message)).map(|m| quoted(&m.to_line())).collect();
    let text = format!("says {}, which has no meaning there", listed(&misplaced));
    harness.warn_unless(
        if operation == Operation::Check { rule } else { Rule::MoreMessages },
        subject,
        misplaced.is_empty(),
        text,
    );
    let contradiction = contradiction(&messages);
    let text = contradiction
        .map(|(one, other)| format!("says {} as well as {}", quoted(&one.to_line()), quoted(&other.to_line())));
    harness.fail_unless(rule, subject, text.is_none(), text.unwrap_or_default());
    messages
}

fn has_meaning(operation: Operation, message: &Message) -> bool {
    match message {
        // That `--force` is never refused is checked elsewhere.
        Message::NotChanged
        | Message::RequiresForceToOverwrite
        | Message::RequiresForceToRestore
        | Message::RequiresForce(_)
        | Message::Skipped(_)
        | Message::Progress(_)
        // A value may be sent in any case.
        | Message::Send(_)
        | Message::Witness(_)
        | Message::Part(_)
        // Malformed messages are reported elsewhere.
        | Message::Malformed(_) => true,
        Message::Changed(_)
        | Message::ChangedQuietly(_)
        | Message::Deferred(_)
        | Message::Keep(_)
        | Message::Replaced(_) => matches!(operation, Operation::Apply | Operation::ForceApply),
        Message::WouldChange(_) | Message::Unknown => operation == Operation::Check,
    }
}

/// Finds two messages that contradict each other.
fn contradiction(messages: &[Message]) -> Option<(&Message, &Message)> {
    let excludes = |one: &Message, other: &Message| match one {
        Message::NotChanged | Message::Skipped(_) | Message::Deferred(_) | Message::Unknown => {
            one != other
                && !matches!(
                    other,
                    Message::Malformed(_)
                        | Message::Progress(_)
                        | Message::Keep(_)
                        | Message::Replaced(_)
                        | Message::Witness(_)
                        | Message::Part(_)
                )
                // The state of a skipped entity is unknown, so it must not send values.
                && (!matches!(other, Message::Send(_)) || matches!(one, Message::Skipped(_)))
        }
        Message::RequiresForceToOverwrite => *other == Message::RequiresForceToRestore,
        _ => false,
    };
    messages.iter().find_map(|one| Some((one, messages.iter().find(|other| excludes(one, other))?)))
}

/// Judges the messages about replaced files.
pub(super) fn judge_replaced(harness: &mut Harness<'_, '_>, subject: &str, messages: &[Message]) {
    for message in messages {
        if let Message::Replaced(text) = message {
            let problem = problem(text, &harness.scratch.directories().cache);
            let problem = problem.map(|problem| format!("says {}, {problem}", quoted(&message.to_line())));
            harness.fail_unless(Rule::MoreMessages, subject, problem.is_none(), problem.unwrap_or_default());
        }
    }
}

/// Returns the reason for which such a message is useless, if any.
fn problem(text: &[u8], cache: &Path) -> Option<String> {
    match Replaced::parse(text) {
        None => Some("where \"replaced: COPY PATH\" is expected".to_owned()),
        // A missing file stands for "no file".
        Some(Replaced::Shown { from, to, .. }) => [&from, &to].into_iter().find_map(|file| elsewhere(file, cache)),
        Some(Replaced::File { path, .. }) if !path.is_absolute() => {
            Some("whose path should begin with a slash, as it counts from the root of the system".to_owned())
        }
        Some(Replaced::File { copy, .. }) => {
            let end = match &copy {
                Kept::Part { start, length, .. } => start.saturating_add(*length as u64),
                Kept::Nothing | Kept::File(_) => 0,
            };
            let file = copy.file()?;
            elsewhere(file, cache).or_else(|| missing(file, end))
        }
    }
}

fn elsewhere(file: &Path, cache: &Path) -> Option<String> {
    (!file.starts_with(cache)).then(|| format!("where {} is not below HOLO_CACHE_DIR", named(file)))
}

/// Returns the reason for which a file cannot be read up to this offset, if any.
fn missing(file: &Path, end: u64) -> Option<String> {
    match fs::symlink_metadata(file) {
        Err(error) => Some(format!("where {} cannot be read: {}", named(file), holo_protocol::words::reason(&error))),
        Ok(found) if found.len() < end => Some(format!("where {} has {} bytes only", named(file), found.len())),
        Ok(_) => None,
    }
}

fn named(file: &Path) -> String {
    plain(file.as_os_str().as_bytes().as_bstr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictory_messages_are_found() {
        let found = |lines: &[&str]| {
            let messages: Vec<Message> = lines.iter().map(|line| Message::parse(line.as_bytes(), 4).unwrap()).collect();
            contradiction(&messages).is_some()
        };
        assert!(!found(&[]));
        assert!(!found(&["not changed", "not changed"]));
        assert!(!found(&["would change: a", "would change: b", "requires --force to overwrite"]));
        assert!(!found(&["requires --force: a", "requires --force to overwrite"]));
        assert!(!found(&["changed: a", "send: a=1", "send: b=2"]));
        assert!(!found(&["not changed", "keep: a=1"]));
        assert!(!found(&["not changed", "send: a=1"]));
        assert!(!found(&["unknown", "send: a=1"]));
        assert!(found(&["skipped: a", "not changed"]));
        assert!(found(&["skipped: a", "send: a=1"]));
        assert!(found(&["changed: a", "not changed"]));
        assert!(found(&["deferred: a", "changed: b"]));
        assert!(found(&["requires --force to restore", "requires --force to overwrite"]));
        assert!(found(&["would change: a", "unknown"]));
    }
}
