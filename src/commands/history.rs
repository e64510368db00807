//! `holo history`: lists runs, finds those that changed an entity or a path, and shows one.

pub(super) mod edited;
pub(super) mod lines;

use super::Context;
use crate::cli::{History as Arguments, HistoryShow, HistoryVerb};
use crate::entities::Subject;
use crate::error::{FatalError, exit};
use crate::history::{EntityRecord, History, Run, RunState, Runs};
use crate::host::settings::RunId;
use crate::report::table::{Cell, Description, Table};
use crate::report::{Event, Remarks, Reporter, Severity};
use bstr::{BString, ByteSlice};
use holo_events::Line;
use holo_protocol::{Edges, Text};

pub(super) fn run(arguments: &Arguments, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, reporter, .. } = context;
    if let Some(HistoryVerb::Edited(arguments)) = &arguments.verb {
        return edited::run(arguments, settings, *reporter);
    }
    let history = open(settings, *reporter)?;
    if let Some(HistoryVerb::Show(arguments)) = &arguments.verb {
        return Ok(run_show(arguments, &history, *reporter));
    }
    let sought = arguments.subjects.iter().map(|given| Sought::new(Subject::new(given, &settings.root)));
    let sought: Vec<Sought> = sought.collect();
    let most = if arguments.number == 0 { usize::MAX } else { arguments.number };
    let mut runs = if sought.is_empty() { history.runs() } else { runs(&history, &sought) };
    let since = arguments.since;
    // Runs are sorted by time, unless the clock was set back.
    let mut wanted =
        runs.by_ref().take_while(|run| since.is_none_or(|since| lines::began(run).is_none_or(|time| time >= since)));
    if sought.is_empty() {
        let is_wanted = |run: &Run| !arguments.failed || is_bad(run);
        let runs: Vec<Run> = wanted.by_ref().filter(is_wanted).take(most).collect();
        show_runs(&runs, *reporter);
    } else {
        let is_wanted = |record: &EntityRecord| !arguments.failed || record.result.is_bad();
        let found = wanted.by_ref().flat_map(|run| records(&run, &sought)).filter(is_wanted);
        let records: Vec<EntityRecord> = found.take(most).collect();
        show_records(&records, *reporter);
    }
    drop(wanted);
    if runs.damaged > 0 {
        let text = "older records cannot be read; `holo state check` examines them";
        reporter.event(Event::Aside(Severity::Warning, text));
    }
    Ok(exit::DONE)
}

/// Opens the records of a root.
pub(super) fn open(
    settings: &crate::host::settings::Settings,
    reporter: &mut dyn Reporter,
) -> Result<History, FatalError> {
    History::open(&settings.root).map_err(|error| {
        let is_denied = error.is_denied();
        reporter.error(error.to_string());
        if is_denied {
            reporter.advise("records contain file contents, so only root can read them");
        }
        FatalError::Reported
    })
}

fn is_bad(run: &Run) -> bool {
    matches!(run.state(), RunState::Ended(result) if result.is_bad())
}

fn show_runs(runs: &[Run], reporter: &mut dyn Reporter) {
    let rows: Vec<Vec<Cell>> = runs
        .iter()
        .map(|run| {
            let duration = run.ended.as_ref().and_then(|ended| ended.duration);
            vec![
                (&run.id).into(),
                Cell::time(lines::began(run)),
                lines::result(run).into(),
                Cell::duration(duration),
                (&lines::counts(run)).into(),
                (&lines::who(run)).into(),
                (&lines::command(run)).into(),
            ]
        })
        .collect();
    reporter.event(Event::Table(&Table {
        columns: &["RUN", "TIME", "RESULT", "TOOK", "ENTITIES", "WHO", "COMMAND"],
        rows: &rows,
    }));
    runs.iter().for_each(|run| reporter.event(Event::Line(&Line::Run(Box::new(lines::run(run))))));
}

fn show_records(records: &[EntityRecord], reporter: &mut dyn Reporter) {
    let rows: Vec<Vec<Cell>> = records
        .iter()
        .map(|record| {
            vec![
                (&record.run).into(),
                Cell::Time(record.time),
                record.result.name().into(),
                Cell::Duration(record.duration),
                (&record.id.0).into(),
                (&record.what()).into(),
            ]
        })
        .collect();
    reporter.event(Event::Table(&Table { columns: &["RUN", "TIME", "RESULT", "TOOK", "ENTITY", "WHAT"], rows: &rows }));
    records
        .iter()
        .for_each(|record| reporter.event(Event::Line(&Line::Record(Box::new(lines::record(record, false))))));
}

/// The subject of a search in the records.
pub(super) struct Sought {
    subject: Subject,
    /// The longest part of its name that appears unescaped in JSON.
    needle: BString,
}

impl Sought {
    pub(super) fn new(subject: Subject) -> Sought {
        // JSON may escape other characters.
        let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        let given = &subject.given;
        let name = given.rsplit_once_str("/").map_or(&given[..], |(_, name)| name);
        let plain = name.split(|byte| !is_plain(byte)).max_by_key(|part| part.len()).unwrap_or_default();
        Sought { needle: plain.into(), subject }
    }

    /// Returns true if a record matches.
    fn is_of(&self, record: &EntityRecord) -> bool {
        let is_diff_of = |name: &BString| name.strip_prefix(b"b").is_some_and(|path| path == self.subject.path);
        self.subject.is_of(record.id.as_bstr(), &Edges::NONE)
            || record.plugin.as_bytes() == self.subject.given
            || record.diffs.iter().any(|diff| is_diff_of(&diff.to.0))
    }
}

/// Returns the runs that may have records about one of the subjects, newest first.
pub(super) fn runs<'a>(history: &'a History, sought: &[Sought]) -> Runs<'a> {
    history.runs_with(sought.iter().map(|sought| sought.needle.clone()))
}

/// Returns a run's records about any of the subjects, last one first.
pub(super) fn records(run: &Run, sought: &[Sought]) -> Vec<EntityRecord> {
    let is_wanted = |record: &EntityRecord| sought.iter().any(|sought| sought.is_of(record));
    let mut records: Vec<EntityRecord> = run.entities().filter(is_wanted).collect();
    records.reverse();
    records
}

/// Shows a run and its records.
fn run_show(arguments: &HistoryShow, history: &History, reporter: &mut dyn Reporter) -> u8 {
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
