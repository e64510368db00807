//! `holo generations`

mod diff;

use super::Context;
use crate::cli::{Generations, GenerationsVerb};
use crate::error::{FatalError, exit};
use crate::generations::{Counts, Difference, Generation, How, Pin, Store};
use crate::report::table::{Cell, Table};
use crate::report::{Event, Remarks};
use bstr::ByteSlice;
use holo_events::{GenerationLine, InputChange, InputDifference, Line};

/// The number of differences that are named in a summary.
const NAMED: usize = 3;

pub(super) fn run(arguments: &Generations, context: &mut Context<'_>) -> Result<u8, FatalError> {
    match &arguments.verb {
        Some(GenerationsVerb::Diff(arguments)) => diff::run(arguments, context),
        None => list(context),
    }
}

/// Lists all generations.
fn list(context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, reporter, .. } = context;
    let used = Pin::read(&settings.root).map_err(FatalError::could_not_run)?.map(|pin| pin.generation);
    let listed = Store::new(&settings.root).list().map_err(FatalError::could_not_run)?;
    let (mut generations, mut has_failed) = (Vec::new(), false);
    for (_, listed) in listed {
        match listed {
            Ok(generation) => generations.push(generation),
            Err(error) => {
                reporter.error(error.to_string());
                has_failed = true;
            }
        }
    }
    let row = |generation: &Generation| {
        let state = if used == Some(generation.number) { "used" } else { "" };
        let (number, time) = (Cell::from(&generation.number), Cell::Time(generation.time));
        vec![number, time, Cell::from(&generation.run), Cell::from(state), Cell::from(&summary(generation))]
    };
    let rows: Vec<Vec<Cell>> = generations.iter().map(row).collect();
    reporter
        .event(Event::Table(&Table { columns: &["GENERATION", "TIME", "RUN", "STATE", "DIFFERENCES"], rows: &rows }));
    for generation in &generations {
        reporter.event(Event::Line(&Line::Generation(Box::new(line(generation, used == Some(generation.number))))));
    }
    Ok(if has_failed { exit::FAILED } else { exit::DONE })
}

fn line(generation: &Generation, used: bool) -> GenerationLine<'_> {
    let Generation { number, time, run, files, counts, differences, not_kept, .. } = generation;
    let Counts { added, changed, removed } = counts.unwrap_or_default();
    GenerationLine {
        generation: *number,
        time: time.to_string(),
        run: run.into(),
        used,
        files: *files,
        added,
        changed,
        removed,
        differences: differences.iter().map(difference).collect(),
        not_kept: not_kept.iter().map(|path| (&**path.as_bstr()).into()).collect(),
    }
}

fn difference(Difference { path, how }: &Difference) -> InputDifference<'_> {
    InputDifference { path: (&**path.as_bstr()).into(), how: change(*how) }
}

fn change(how: How) -> InputChange {
    match how {
        How::Added => InputChange::Added,
        How::Changed => InputChange::Changed,
        How::Removed => InputChange::Removed,
    }
}

/// Summarises the differences from the previous generation.
fn summary(Generation { files, counts, differences, .. }: &Generation) -> String {
    let Some(Counts { added, changed, removed }) = counts else { return format!("{files} files") };
    let counted = [(changed, "changed"), (added, "added"), (removed, "removed")];
    let counted = counted.into_iter().filter(|(number, _)| **number > 0);
    let counted: Vec<String> = counted.map(|(number, word)| format!("{number} {word}")).collect();
    let names = differences.iter().take(NAMED).map(|difference| difference.path.as_bstr().to_str_lossy());
    let names: Vec<_> = names.collect();
    let more = if added + changed + removed > names.len() { ", …" } else { "" };
    format!("{}: {}{more}", counted.join(", "), names.join(", "))
}
