//! `holo history`

mod lines;
mod show;
mod subject;

use super::Context;
use crate::cli::{History as Arguments, HistoryVerb};
use crate::error::FatalError;
use crate::exit;
use crate::history::{EntityRecord, History, Run, RunState};
use crate::report::table::{Cell, Table};
use crate::report::{Event, Remarks, Reporter, Severity};
use crate::subject::Subject;
use holo_events::Line;
pub(super) use subject::{Sought, records, runs};

pub(super) fn run(arguments: &Arguments, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, reporter, .. } = context;
    let history = open(settings, *reporter)?;
    if let Some(HistoryVerb::Show(arguments)) = &arguments.verb {
        return Ok(show::run(arguments, &history, *reporter));
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
pub(super) fn open(settings: &crate::settings::Settings, reporter: &mut dyn Reporter) -> Result<History, FatalError> {
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
