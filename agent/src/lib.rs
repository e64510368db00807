//! The agent: it keeps one machine as it should be, by running `holo` and reading its `--json`.
//!
//! Everything happens on one thread, in the loop of [`daemon`]; each running `holo` has a thread that sleeps until it says something.
//!
//! ```text
//! agent.toml → Config ┐                    ┌→ Status → socket
//! time, signals ──────┼→ Agenda → children ┼→ Metrics → HTTP, textfile
//!                     └────────────────────┴→ Events → Spool
//! ```

pub mod agenda;
pub mod child;
mod cli;
mod clock;
mod commands;
pub mod config;
mod control;
pub mod daemon;
pub mod event;
mod health;
mod http;
mod journal;
pub mod metrics;
pub mod paths;
mod report;
mod service;
pub mod spool;
pub mod status;
mod written;

use clap::Parser;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Does what the command line says, and gives the exit code.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match cli::Cli::try_parse_from(arguments) {
        Ok(cli) => commands::run(&cli),
        Err(usage) => {
            let _ = usage.print();
            let _ = std::io::stdout().flush();
            ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2))
        }
    }
}
