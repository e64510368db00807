//! Judges a plugin's answers about one entity.

use super::finding::Rule;
use super::harness::Harness;
use super::heard::{Heard, plain, quoted};
use crate::diff::{self, Modes};
use bstr::ByteSlice;
use holo_protocol::{API_VERSION_4, Label, Message};

/// The size of output, in bytes, above which no user would read it.
const MUCH_OUTPUT: usize = 1 << 16;

pub(super) fn judge_output(harness: &mut Harness<'_, '_>, subject: &str, heard: &Heard) {
    for (name, text) in [("output", &heard.stdout), ("error", &heard.stderr)] {
        let ends = text.is_empty() || text.ends_with(b"\n");
        let problem = format!("the last line on standard {name} has no newline");
        harness.warn_unless(Rule::Version3, subject, ends, problem);
        let problem = format!("prints {} bytes on standard {name}, which a person is to read", text.len());
        harness.warn_unless(Rule::Version3, subject, text.len() < MUCH_OUTPUT, problem);
    }
}

/// Expects that a second apply has no work to do.
pub(super) fn judge_second_apply(
    harness: &mut Harness<'_, '_>,
    subject: &str,
    heard: &Heard,
    messages: &[Message],
    refused: bool,
) {
    // A refusal is repeated each time.
    if refused && messages.iter().any(Message::is_refusal) {
        return;
    }
    let is_unchanged = messages.iter().any(Message::is_nothing_to_do);
    harness.fail_unless(Rule::Apply, subject, is_unchanged, "the second apply did not say \"not changed\"");
    let text = [&heard.stdout[..], &heard.stderr].concat();
    let problem = format!("the second apply printed {}, so that users see the entity each time", quoted(&text));
    harness.warn_unless(Rule::Apply, subject, text.is_empty(), problem);
}

pub(super) fn judge_last_check(harness: &mut Harness<'_, '_>, subject: &str, messages: &[Message], refused: bool) {
    let is_consistent = |message: &Message| match message {
        Message::NotChanged | Message::Skipped(_) | Message::Unknown => true,
        message => refused && message.is_refusal(),
    };
    // A check may send values in any case.
    let messages: Vec<&Message> = messages.iter().filter(|message| !matches!(message, Message::Send(_))).collect();
    let text = "the entity was applied, but the check did not say \"not changed\"";
    harness.fail_unless(Rule::Check, subject, messages.iter().all(|message| is_consistent(message)), text);
    let text = "the check says nothing, which is taken for \"unknown\"; after an apply, \"not changed\" is expected";
    harness.warn_unless(Rule::Check, subject, !messages.is_empty(), text);
}

/// Expects that an apply does what the check has announced.
pub(super) fn compare_with_check(
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

/// Judges the two paths of a difference, if there is one, and their optional labels.
pub(super) fn judge_paths(harness: &mut Harness<'_, '_>, subject: &str, said: &[u8], may_be_directories: bool) {
    let parts: Vec<&[u8]> =
        said.split_inclusive(|&byte| byte == 0).filter_map(|part| part.strip_suffix(b"\0")).collect();
    let has_labels = harness.manner.api_version >= API_VERSION_4 && parts.len() > 2;
    let (paths, labels) = if has_labels { parts.split_at(2) } else { (&parts[..], &[][..]) };
    let (labels, modes) = match labels {
        [from, to, b"modes"] => (&[*from, *to][..], Modes::Exact),
        labels => (labels, Modes::Git),
    };
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
    let is_directory =
        |path: &&[u8]| path.as_bstr().to_path_lossy().symlink_metadata().is_ok_and(|found| found.is_dir());
    for path in paths.iter().filter(|path| !(may_be_directories && is_directory(path))) {
        let loaded = diff::load(&path.as_bstr().to_path_lossy(), &root, modes);
        let why = loaded.as_ref().err().map(|error| match error {
            diff::LoadError::WrongFileType { .. } => "a regular file or a symlink is expected".to_owned(),
            diff::LoadError::Io { error, .. } => holo_protocol::words::reason(error),
        });
        let text = format!("names {}, which cannot be shown: {}", plain(path), why.unwrap_or_default());
        harness.fail_unless(Rule::Diff, subject, loaded.is_ok(), text);
    }
}
