//! `holo history show`

use super::lines;
use crate::cli::HistoryShow;
use crate::error::exit;
use crate::history::{EntityRecord, History, Run};
use crate::host::run_id::RunId;
use crate::report::table::{Cell, Description};
use crate::report::{Event, Remarks, Reporter, Severity};
use holo_events::Line;
use holo_protocol::Text;

/// Shows a run and its records.
pub(super) fn run(arguments: &HistoryShow, history: &History, reporter: &mut dyn Reporter) -> u8 {
    let run = match &arguments.run {
        Some(id) => history.find(id).map_err(|ids| not_found(id, &ids)),
        None => history.runs().next().ok_or_else(|| "there are no recorded runs".to_owned()),
    };
    match run {
        Ok(run) => {
            show(&run, arguments.diff, reporter);
            exit::DONE
        }
        Err(error) => {
            reporter.event(Event::Aside(Severity::Error, &error));
            exit::FAILED
        }
    }
}

fn not_found(id: &str, ids: &[RunId]) -> String {
    const SHOWN: usize = 5;
    if ids.is_empty() {
        return format!("there is no recorded run {id}");
    }
    let shown: Vec<&str> = ids.iter().take(SHOWN).map(RunId::as_str).collect();
    let more = if ids.len() > SHOWN { " and others" } else { "" };
    format!("{id} may be {}{more}", shown.join(", "))
}

fn show(run: &Run, with_diffs: bool, reporter: &mut dyn Reporter) {
    let mut shown: Vec<(&str, Cell)> = vec![("result", lines::result(run).into())];
    if let Some(began) = &run.began {
        shown.push(("began", Cell::Time(began.time)));
    }
    if let Some(ended) = &run.ended {
        shown.extend(ended.duration.map(|duration| ("took", Cell::Duration(duration))));
        shown.extend(ended.error.as_ref().map(|Text(error)| ("error", error.into())));
        shown.extend(ended.exit_code.map(|code| ("exit status", (&code).into())));
    }
    shown.push(("command", (&lines::command(run)).into()));
    shown.push(("who", (&lines::who(run)).into()));
    if let Some(who) = run.began.as_ref().map(|began| &began.who) {
        shown.extend(who.terminal.as_ref().map(|Text(terminal)| ("terminal", terminal.into())));
    }
    let counts = lines::counts(run);
    if !counts.is_empty() {
        shown.push(("entities", (&counts).into()));
    }
    reporter.event(Event::Description(&Description { heading: &format!("Run {}", run.id), lines: &shown }));
    reporter.event(Event::Line(&Line::Run(Box::new(lines::run(run)))));
    for record in run.entities() {
        if !reporter.is_read() {
            break;
        }
        show_entity(&record, with_diffs, reporter);
    }
}

fn show_entity(record: &EntityRecord, with_diffs: bool, reporter: &mut dyn Reporter) {
    let mut shown: Vec<(&str, Cell)> = vec![("result", record.result.name().into())];
    shown.push(("took", Cell::Duration(record.duration)));
    shown.extend(record.changes.iter().map(|Text(change)| ("change", change.into())));
    shown.extend(record.refused.iter().map(|refusal| ("refused", (&refusal.words()).into())));
    shown.extend(record.reason.as_ref().map(|Text(reason)| ("reason", reason.into())));
    shown.extend(record.refreshed_by.iter().map(|Text(id)| ("refreshed by", id.into())));
    if let Some(Text(output)) = &record.output {
        shown.extend(output.to_string().lines().map(|line| ("output", line.into())));
    }
    reporter.event(Event::Description(&Description { heading: &record.id.0.to_string(), lines: &shown }));
    for diff in record.diffs.iter().filter(|_| with_diffs) {
        reporter.event(Event::Diff(&diff.text.0));
        if diff.cut > 0 {
            reporter.warning(format!("{} bytes of this difference were not kept", diff.cut));
            reporter.end_paragraph();
        }
    }
    reporter.event(Event::Line(&Line::Record(Box::new(lines::record(record, with_diffs)))));
}
