//! Formats records.

use crate::history::{Counts, EntityRecord, RefusalRecord, Run, RunState};
use holo_events::{self as line, DiffLine, RecordLine, Refusal, RunLine};
use holo_protocol::Text;
use jiff::Timestamp;
use std::path::Path;

/// Returns the start time of a run.
pub(in crate::commands) fn began(run: &Run) -> Option<Timestamp> {
    run.began.as_ref().map(|began| began.time)
}

pub(in crate::commands) fn result(run: &Run) -> &'static str {
    match run.state() {
        RunState::Running => "running",
        RunState::Ended(result) => result.name(),
    }
}

/// Returns the number of entities for each noteworthy result: `3 changed, 1 failed`.
pub(in crate::commands) fn counts(run: &Run) -> String {
    let Counts { changed, pending, refused, skipped, failed, .. } = run.counts();
    let counts =
        [(changed, "changed"), (pending, "pending"), (refused, "refused"), (skipped, "skipped"), (failed, "failed")];
    let shown = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    shown.collect::<Vec<_>>().join(", ")
}

/// Returns the user or the trigger that started the run.
pub(super) fn who(run: &Run) -> String {
    let Some(who) = run.began.as_ref().map(|began| &began.who) else { return String::new() };
    match (&who.trigger, &who.sudo_user) {
        (Some(trigger), _) => trigger.0.to_string(),
        (None, Some(user)) => user.0.to_string(),
        (None, None) => format!("uid {}", who.login_uid.unwrap_or(who.uid)),
    }
}

/// Returns the command line, with the program's path reduced to its name.
pub(super) fn command(run: &Run) -> String {
    let words = run.began.iter().flat_map(|began| &began.command).map(|Text(word)| word.to_string());
    let words = words.enumerate().map(|(index, word)| match Path::new(&word).file_name() {
        Some(name) if index == 0 => name.to_string_lossy().into_owned(),
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the JSON line of a run.
pub(in crate::commands) fn run(run: &Run) -> RunLine<'_> {
    let (began, ended) = (run.began.as_ref(), run.ended.as_ref());
    let who = began.map(|began| &began.who);
    RunLine {
        run: run.id.as_str().into(),
        result: result(run).into(),
        time: began.map(|began| began.time.to_string()),
        duration: ended.and_then(|ended| ended.duration).map(line::seconds),
        exit_code: ended.and_then(|ended| ended.exit_code),
        tally: run.counts().into(),
        holo: began.map(|began| began.holo.as_str().into()),
        command: began.iter().flat_map(|began| &began.command).map(as_text).collect(),
        uid: who.map(|who| who.uid),
        sudo_user: who.and_then(|who| who.sudo_user.as_ref()).map(as_text),
        login_uid: who.and_then(|who| who.login_uid),
        terminal: who.and_then(|who| who.terminal.as_ref()).map(as_text),
        trigger: who.and_then(|who| who.trigger.as_ref()).map(as_text),
        error: ended.and_then(|ended| ended.error.as_ref()).map(as_text),
    }
}

/// Returns the JSON line of a record about an entity.
pub(super) fn record(record: &EntityRecord, with_diffs: bool) -> RecordLine<'_> {
    let diffs = record.diffs.iter().filter(|_| with_diffs);
    RecordLine {
        run: record.run.as_str().into(),
        id: as_text(&record.id),
        plugin: (&record.plugin).into(),
        time: record.time.to_string(),
        duration: line::seconds(record.duration),
        result: record.result.name().into(),
        changed: record.changes.iter().map(as_text).collect(),
        refused: record.refused.iter().map(line_of_refusal).collect(),
        reason: record.reason.as_ref().map(as_text),
        output: record.output.as_ref().map(as_text),
        refreshed_by: record.refreshed_by.iter().map(as_text).collect(),
        diffs: diffs
            .map(|diff| DiffLine {
                from: as_text(&diff.from),
                to: as_text(&diff.to),
                text: as_text(&diff.text),
                binary: diff.binary,
                cut: diff.cut,
            })
            .collect(),
    }
}

fn line_of_refusal(refusal: &RefusalRecord) -> Refusal<'_> {
    match refusal {
        RefusalRecord::Overwrite => Refusal::Overwrite,
        RefusalRecord::Restore => Refusal::Restore,
        RefusalRecord::Other { reason } => Refusal::Other { reason: as_text(reason) },
    }
}

fn as_text(Text(bytes): &Text) -> line::Text<'_> {
    bytes.into()
}
