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

/// Checks a server or unit, with the output and exit status of a Nagios plugin
#[derive(Debug, Parser)]
#[command(name = "holo-probe", version, disable_help_subcommand = true)]
struct Cli {
    /// The timeout in milliseconds
    #[arg(long, value_name = "MILLISECONDS", default_value = "10000")]
    timeout: u64,
    /// The probe to run.
    #[command(subcommand)]
    probe: Probe,
}

/// The kinds of probes.
#[derive(Debug, Subcommand)]
enum Probe {
    /// Check that a server responds to a request
    Http {
        /// The expected status [default: any from 200 to 399]
        #[arg(long)]
        status: Option<u16>,
        /// A text that the response must contain
        #[arg(long, value_name = "TEXT")]
        contains: Option<String>,
        /// The URL to request
        url: String,
    },
    /// Check that a server accepts connections
    Tcp {
        /// The host and port to connect to
        #[arg(value_name = "HOST:PORT")]
        address: String,
    },
    /// Check that a systemd unit is active
    Unit {
        /// The name of the unit
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
