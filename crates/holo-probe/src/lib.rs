//! Built-in health checks: a single probe prints one line and returns Nagios's exit status.

mod answer;
mod http;
mod tcp;
mod unit;

use answer::Answer;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Finds out how a server or a unit is, and tells it as plugins of Nagios do
#[derive(Debug, Parser)]
#[command(name = "holo-probe", version, disable_help_subcommand = true)]
struct Cli {
    /// The time limit, in milliseconds
    #[arg(long, value_name = "MILLISECONDS", default_value = "10000")]
    timeout: u64,
    /// What is asked.
    #[command(subcommand)]
    probe: Probe,
}

/// The ways to find out.
#[derive(Debug, Subcommand)]
enum Probe {
    /// A server answers a request
    Http {
        /// The status that is expected; any from 200 to 399 if none is given
        #[arg(long)]
        status: Option<u16>,
        /// A text that the answer has to hold
        #[arg(long, value_name = "TEXT")]
        contains: Option<String>,
        /// The URL
        url: String,
    },
    /// A server takes connections
    Tcp {
        /// The host and the port
        #[arg(value_name = "HOST:PORT")]
        address: String,
    },
    /// A unit of systemd is active
    Unit {
        /// Its name
        name: String,
    },
}

/// Runs the probe on the command line and returns the exit code.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(usage) => {
            let _ = usage.print();
            // Clap's 2 would mean critical.
            return if usage.use_stderr() { ExitCode::from(3) } else { ExitCode::SUCCESS };
        }
    };
    let limit = Duration::from_millis(cli.timeout);
    let deadline = Instant::now() + limit;
    let answer = match &cli.probe {
        Probe::Http { status, contains, url } => http::ask(url, *status, contains.as_deref(), limit),
        Probe::Tcp { address } => tcp::connect(address, deadline),
        Probe::Unit { name } => unit::look(name, limit),
    };
    let Answer { state, text } = answer.unwrap_or_else(|failed| failed);
    // The exit status reports it too.
    let _ = writeln!(std::io::stdout(), "{text}");
    ExitCode::from(state)
}
