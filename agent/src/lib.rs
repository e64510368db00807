//! The agent: keeps a machine in its desired state by running `holo` and reading its `--json`.
//!
//! A single thread runs the loop of [`daemon`]; each running `holo` has a thread that blocks until there is output.
//!
//! ```text
//! agent.toml → Config ┐                    ┌→ Status → socket
//! time, signals ──────┼→ Agenda → children ┼→ Metrics → HTTP, textfile
//!                     └────────────────────┴→ Events → Spool
//! ```

pub mod agenda;
pub mod child;
mod commands;
pub mod config;
mod control;
pub mod daemon;
pub mod event;
pub mod metrics;
pub mod report;
pub mod request;
mod service;
pub mod spool;

use clap::Parser;
use holo_process::{Stream, streams};
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command line and returns the exit code.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match commands::Cli::try_parse_from(arguments) {
        Ok(cli) => commands::run(&cli),
        Err(usage) => {
            let stream = if usage.use_stderr() { Stream::Stderr } else { Stream::Stdout };
            let _ = streams::write(stream, usage.to_string().as_bytes());
            ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2))
        }
    }
}
