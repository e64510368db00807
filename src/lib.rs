//! The dispatcher of holo, a configuration manager. It asks plugins for their entities, and has the plugins apply them
//! in order.
//!
//! It knows entities by their IDs only; everything else about them is up to the plugins. Data goes one way, each step a
//! value that is handed to the next:
//!
//! ```text
//! arguments → configuration → plugins → resources → entities → plan → selection → work → events → output
//!   cli.rs      config.rs     plugin/   generators.rs  scan.rs   plan.rs  select.rs  apply.rs     report/
//!                                       resources.rs
//!               └──────────────── discovery.rs ────────────────┘└────── commands/ ──────┘
//! ```

pub mod apply;
mod assets;
pub mod cache;
pub mod cli;
mod commands;
pub mod concurrently;
pub mod config;
pub mod declarations;
mod descriptors;
pub mod diff;
pub mod discovery;
pub mod entity;
pub mod error;
pub mod exit;
pub mod failures;
pub mod finding;
pub mod generations;
pub mod generators;
pub mod graph;
pub mod history;
pub mod in_order;
pub mod index;
pub mod interrupt;
pub mod inventory;
pub mod limited;
pub mod lock;
mod memory;
pub mod node;
pub mod ownership;
pub mod plan;
pub mod plugin;
pub mod preview;
pub mod references;
pub mod refresh;
pub mod report;
pub mod resources;
pub mod retention;
pub mod root;
pub mod run_id;
pub mod scan;
pub mod select;
pub mod sent;
pub mod settings;
pub mod subject;
pub mod time;
pub mod view;

use cli::Arguments;
use report::{Event, Remarks, Report, Reporter};
use settings::Settings;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command line, and returns the exit code.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = cli::parse(arguments);
    let is_json = matches!(&arguments, Arguments::Verb(verb) if verb.is_json());
    let mut report = if is_json { Report::for_programs() } else { Report::for_people() };
    let code = match arguments {
        Arguments::Verb(verb) => commands::run(verb, Settings::from_environment(), &mut report),
        Arguments::Help(text) => {
            report.event(Event::Text(text.as_bytes()));
            exit::DONE
        }
        Arguments::Unusable { text, hint } => {
            report.event(Event::Usage(&text));
            hint.iter().for_each(|hint| report.advise(hint));
            exit::USAGE
        }
    };
    ExitCode::from(report.finish(code))
}
