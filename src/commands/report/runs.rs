//! The most recent runs.

use super::text::safe;
use crate::history::{Counts, History, Run, RunResult, RunState, Who};
use crate::host::root::Root;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use std::time::Duration;

/// The number of runs that are shown.
const SHOWN: usize = 20;

/// A run.
#[derive(Debug, Serialize)]
pub(super) struct RunRow {
    time: String,
    machine_time: String,
    who: String,
    result: &'static str,
    tone: &'static str,
    counts: String,
    duration: String,
}

/// Returns the most recent runs that did or attempted work, and the last one without work, newest first.
pub(super) fn last(root: &Root) -> Vec<RunRow> {
    let Ok(history) = History::open(root) else { return Vec::new() };
    let mut rows: Vec<(String, RunRow)> =
        history.runs().take(SHOWN).map(|run| (run.id.as_str().to_owned(), of_run(&run))).collect();
    if let Some(last) = history.last_unchanged() {
        let row = RunRow {
            time: shown(last.time),
            machine_time: for_machines(last.time),
            who: String::new(),
            result: RunResult::Unchanged.name(),
            tone: "",
            counts: counted(&last.counts),
            duration: seconds(last.duration),
        };
        rows.push((last.run.as_str().to_owned(), row));
    }
    rows.sort_by(|(one, _), (other, _)| other.cmp(one));
    rows.into_iter().map(|(_, row)| row).collect()
}

fn of_run(run: &Run) -> RunRow {
    let (result, tone) = match run.state() {
        RunState::Running => ("at work", ""),
        RunState::Ended(result) => (result.name(), if result.is_bad() { "bad" } else { "" }),
    };
    let time = run.began.as_ref().map(|began| began.time);
    RunRow {
        time: time.map_or_else(|| run.id.as_str().to_owned(), shown),
        machine_time: time.map(for_machines).unwrap_or_default(),
        who: run.began.as_ref().map(|began| by(&began.who)).unwrap_or_default(),
        result,
        tone,
        counts: counted(&run.counts()),
        duration: run.ended.as_ref().and_then(|ended| ended.duration).map(seconds).unwrap_or_default(),
    }
}

/// Returns the user or program that started the run, as far as known.
fn by(who: &Who) -> String {
    match (&who.trigger, &who.sudo_user) {
        (Some(trigger), _) => safe(trigger.as_bstr()),
        (None, Some(user)) => safe(user.as_bstr()),
        (None, None) => match who.login_uid.unwrap_or(who.uid) {
            0 => "root".to_owned(),
            uid => format!("user {uid}"),
        },
    }
}

fn counted(counts: &Counts) -> String {
    let Counts { unchanged, changed, refused, skipped, failed } = *counts;
    let all = [
        (changed, "changed"),
        (failed, "failed"),
        (refused, "refused"),
        (skipped, "skipped"),
        (unchanged, "unchanged"),
    ];
    let there = all.iter().filter(|(count, _)| *count > 0);
    there.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Formats a time for the attribute `datetime`.
pub(super) fn for_machines(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats a time in the time zone of this machine.
pub(super) fn shown(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}
