//! The dispatcher of holo, a configuration manager. It asks plugins for their entities, and has the plugins apply them
//! in order.
//!
//! It knows entities by their IDs only; everything else about them is up to the plugins. Data goes one way, each step a
//! value that is handed to the next:
//!
//! ```text
//! arguments → configuration → plugins → resources → entities → plan → selection → work → events → output
//!     cli     └────────────────── discovery ─────────────────┘ └───── plan ─────┘ apply      report
//! ```

pub mod apply;
pub mod cli;
mod commands;
pub mod diff;
pub mod discovery;
pub mod entities;
pub mod error;
pub mod generations;
pub mod graph;
pub mod history;
pub mod host;
pub mod plan;
pub mod plugin;
pub mod report;

use cli::Arguments;
use host::settings::Settings;
use report::{Event, Report, Reporter};
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
            error::exit::DONE
        }
        Arguments::Manual(page, text) => {
            if report.is_seen_by_person() {
                commands::open_manual(page);
            }
            report.event(Event::Text(text.as_bytes()));
            error::exit::DONE
        }
        Arguments::Nothing(text) => {
            commands::greet(&Settings::from_environment(), &mut report);
            report.event(Event::Usage(&text));
            error::exit::USAGE
        }
        Arguments::Unusable(text) => {
            report.event(Event::Usage(&text));
            error::exit::USAGE
        }
    };
    ExitCode::from(report.finish(code))
}
