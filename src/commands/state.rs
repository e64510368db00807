//! `holo state`

use super::{Context, apply};
use crate::cli::{State, StateVerb};
use crate::error::{FatalError, IoError, exit};
use crate::report::table::{Cell, Table};
use crate::report::{Event, Reporter, Severity};
use holo_state::{Database, Repaired};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

pub(super) fn run(arguments: &State, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, reporter, .. } = context;
    let path = settings.root.state_database();
    match &arguments.verb {
        None | Some(StateVerb::Show) => show(&Database::snapshot(path), *reporter),
        Some(StateVerb::Check) => check(&Database::snapshot(path), *reporter),
        Some(StateVerb::Export) => export(&Database::snapshot(path), *reporter),
        Some(StateVerb::Import { file }) => {
            let _lock = apply::acquire(&settings.root.lock(), *reporter)?;
            import(&Database::new(path), file, *reporter)
        }
        Some(StateVerb::Repair) => {
            let _lock = apply::acquire(&settings.root.lock(), *reporter)?;
            repair(&Database::new(path), settings.run.as_str(), *reporter)
        }
    }
}

fn show(database: &Database, reporter: &mut dyn Reporter) -> Result<u8, FatalError> {
    let tables = database.tables().map_err(FatalError::could_not_run)?;
    let rows: Vec<Vec<Cell>> = tables.iter().map(|table| vec![(&table.name).into(), (&table.rows).into()]).collect();
    reporter.event(Event::Table(&Table { columns: &["TABLE", "ROWS"], rows: &rows }));
    Ok(exit::DONE)
}

fn check(database: &Database, reporter: &mut dyn Reporter) -> Result<u8, FatalError> {
    let found = database.integrity().map_err(FatalError::could_not_run)?;
    for problem in &found {
        reporter.event(Event::Aside(Severity::Error, &format!("{}: {problem}", database.path().display())));
    }
    if found.is_empty() {
        return Ok(exit::DONE);
    }
    reporter.event(Event::Aside(Severity::Warning, "`holo state repair` saves every row that can still be read"));
    Ok(exit::FAILED)
}

fn export(database: &Database, reporter: &mut dyn Reporter) -> Result<u8, FatalError> {
    let mut lines = Vec::new();
    database.export(&mut lines).map_err(FatalError::could_not_run)?.map_err(FatalError::could_not_run)?;
    reporter.event(Event::Text(&lines));
    Ok(exit::DONE)
}

fn import(database: &Database, file: &Path, reporter: &mut dyn Reporter) -> Result<u8, FatalError> {
    let imported = if file == Path::new("-") {
        database.import(&mut io::stdin().lock())
    } else {
        let opened = File::open(file).map_err(|error| FatalError::could_not_run(IoError::new("open", file, error)))?;
        database.import(&mut BufReader::new(opened))
    };
    let rows = imported.map_err(FatalError::could_not_run)?;
    reporter
        .event(Event::Aside(Severity::Warning, &format!("imported {rows} rows into {}", database.path().display())));
    Ok(exit::DONE)
}

fn repair(database: &Database, run: &str, reporter: &mut dyn Reporter) -> Result<u8, FatalError> {
    let mut warn = |text: String| reporter.event(Event::Aside(Severity::Warning, &text));
    if database.integrity().map_err(FatalError::could_not_run)?.is_empty() {
        warn(format!("{} is not damaged", database.path().display()));
        return Ok(exit::DONE);
    }
    let Repaired { damaged, saved, incomplete } =
        database.repair(&format!(".damaged-{run}")).map_err(FatalError::could_not_run)?;
    let rows: u64 = saved.iter().map(|table| table.rows).sum();
    warn(format!("saved {rows} rows; the damaged database is kept as {}", damaged.display()));
    for table in incomplete {
        warn(format!("rows of the table {table} may be lost"));
    }
    Ok(exit::DONE)
}
