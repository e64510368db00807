//! Shows the changes noticed by a watch, as lines: `drifted file:/etc/motd (it was written)`.

use super::console::Console;
use super::event::Noticed;
use super::remark::Severity;
use bstr::{BString, ByteSlice, ByteVec};
use holo_protocol::duration;
use holo_protocol::session::Stream;
use std::time::{Duration, Instant};

/// Shows a change to people.
pub(super) fn show(noticed: &Noticed<'_>, wants_hints: bool, console: &mut Console) {
    let (stream, line) = match noticed {
        Noticed::Watching(_) if !wants_hints => return,
        Noticed::Watching(1) => (Stream::Stderr, marked(Severity::Warning, b"Watching 1 entity")),
        Noticed::Watching(entities) => {
            (Stream::Stderr, marked(Severity::Warning, format!("Watching {entities} entities").as_bytes()))
        }
        Noticed::Drifted { id, reason, writer, needs_force } => {
            let writer = writer.as_ref().map(|writer| BString::from(format!("written by {writer}")));
            let force = needs_force.then(|| BString::from("needs --force"));
            let words: Vec<&BString> = reason.iter().chain(&writer).chain(&force).collect();
            (Stream::Stdout, [&b"drifted "[..], id.as_bytes(), &in_brackets(&words)].concat())
        }
        Noticed::Returned(id) => (Stream::Stdout, [&b"returned "[..], id.as_bytes()].concat()),
        Noticed::Repaired { id, changes } => {
            let words: Vec<&BString> = changes.iter().collect();
            (Stream::Stdout, [&b"repaired "[..], id.as_bytes(), &in_brackets(&words)].concat())
        }
        Noticed::Failed { .. } | Noticed::LeftAlone { .. } => {
            (Stream::Stderr, marked(Severity::Error, &error(noticed)))
        }
    };
    console.raw(stream, &[&line[..], b"\n"].concat());
    console.flush();
}

/// Returns the error message, without the entity's ID.
pub(super) fn reason(noticed: &Noticed<'_>) -> BString {
    match noticed {
        Noticed::Failed { reason, .. } => reason.map_or_else(|| "failed".into(), ToOwned::to_owned),
        Noticed::LeftAlone { limit, until, writer, .. } => {
            let times = if limit.times == 1 { "once".to_owned() } else { format!("{} times", limit.times) };
            let other = writer.map_or_else(|| "something else".to_owned(), ToString::to_string);
            // Rounded to minutes.
            let minutes = until.saturating_duration_since(Instant::now()).as_secs().div_ceil(60);
            format!(
                "repaired {times} within {}, and changed again: {other} manages it. \
                 It is left alone for {}, or until its definition changes",
                duration::shown(limit.within),
                duration::shown(Duration::from_secs(minutes * 60))
            )
            .into()
        }
        Noticed::Watching(_) | Noticed::Drifted { .. } | Noticed::Returned(_) | Noticed::Repaired { .. } => {
            BString::default()
        }
    }
}

fn error(noticed: &Noticed<'_>) -> BString {
    let (Noticed::Failed { id, .. } | Noticed::LeftAlone { id, .. }) = noticed else { return BString::default() };
    [id.as_bytes(), b": ", &reason(noticed)].concat().into()
}

fn marked(severity: Severity, text: &[u8]) -> Vec<u8> {
    [severity.mark().as_bytes(), text].concat()
}

fn in_brackets(words: &[&BString]) -> Vec<u8> {
    let mut text = Vec::new();
    for (index, word) in words.iter().enumerate() {
        text.push_str(if index == 0 { " (" } else { ", " });
        text.push_str(word.as_bytes());
    }
    if !words.is_empty() {
        text.push_str(")");
    }
    text
}
