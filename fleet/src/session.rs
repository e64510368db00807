//! The connection of a command, and its output.

use crate::Cli;
use crate::config::{Operator, Root};
use crate::connection::connect;
use crate::error::FleetError;
use crate::signing::Signers;
use crate::store::Store;
use holo_process::{Stream, streams};
use serde::Serialize;
use std::error::Error;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

/// What a command of an operator works with.
pub(crate) struct Session {
    pub(crate) operator: Operator,
    pub(crate) store: Store,
    pub(crate) output: Output,
    root: Root,
}

impl Session {
    /// Runs a command that talks to the server.
    pub(crate) fn run<F>(cli: &Cli, root: &Root, work: F) -> Result<ExitCode, Box<dyn Error>>
    where
        F: AsyncFnOnce(&Session) -> Result<ExitCode, FleetError>,
    {
        let operator = Operator::read(root, cli.config.as_deref())?;
        if operator.link.urls.is_empty() {
            return Err(crate::config::ConfigError::NoServer(operator.path).into());
        }
        runtime()?.block_on(async {
            let (client, mut refusals) = connect(&operator.link).await?;
            let session = Session { operator, store: Store::new(client), output: cli.output(), root: root.clone() };
            let done = tokio::select! {
                done = work(&session) => done,
                Some(refused) = refusals.recv() => Err(refused),
            };
            // What was published without an answer is on its way.
            let _ = session.store.client.flush().await;
            Ok(done?)
        })
    }

    /// Returns the key that signs.
    pub(crate) fn signing_key(&self) -> Result<PathBuf, FleetError> {
        Ok(self.operator.signing_key(None)?)
    }

    /// Returns the keys whose signatures are accepted. This machine need not have a list.
    pub(crate) fn signers(&self) -> Signers {
        Signers::new(self.root.allowed_signers())
    }

    /// Returns the name of the operator, who may have become root with `sudo`.
    pub(crate) fn operator_name(&self) -> String {
        let named =
            |name: &str| std::env::var(name).ok().filter(|name| !name.is_empty() && !name.contains(char::is_control));
        ["SUDO_USER", "USER", "LOGNAME"].into_iter().find_map(named).unwrap_or_else(|| "root".to_owned())
    }
}

/// Returns the runtime of a program.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, FleetError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| FleetError(error.to_string()))
}

/// How a command shows its result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// True for lines of JSON instead of text.
    pub(crate) json: bool,
}

impl Output {
    /// Shows a result, as JSON or as text.
    pub(crate) fn show(self, result: &impl Serialize, text: impl Display) -> Result<(), FleetError> {
        if self.json { print_json(result) } else { print(text) }
    }

    /// Shows a result as JSON. People need no text for it.
    pub(crate) fn show_json(self, result: &impl Serialize) -> Result<(), FleetError> {
        if self.json { print_json(result) } else { Ok(()) }
    }

    /// Shows each result as JSON, or as cells of a table, which is replaced by `none` if it is empty.
    pub(crate) fn list<T: Serialize>(
        self,
        results: &[T],
        none: &str,
        cells: impl Fn(&T) -> Vec<String>,
    ) -> Result<(), FleetError> {
        if self.json {
            return results.iter().try_for_each(print_json);
        }
        if results.is_empty() && !none.is_empty() {
            print(none)?;
        }
        print_columns(&results.iter().map(cells).collect::<Vec<_>>())
    }
}

/// Writes a line to standard output.
pub(crate) fn print(line: impl Display) -> Result<(), FleetError> {
    streams::write(Stream::Stdout, format!("{line}\n").as_bytes()).map_err(|error| FleetError::about("output", error))
}

/// Writes a value as a line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), FleetError> {
    print(serde_json::to_string(value).map_err(|error| FleetError::about("output", error))?)
}

/// Writes lines of columns that are as wide as they must be.
fn print_columns(lines: &[Vec<String>]) -> Result<(), FleetError> {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        print(cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// Formats a time in the system's time zone.
pub(crate) fn local(time: jiff::Timestamp) -> String {
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}
