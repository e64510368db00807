//! Built-in health checks: a single probe prints one line and returns Nagios's exit status.

use clap::{Parser, Subcommand};
use holo_process::{Program, Stream, streams};
use std::ffi::OsString;
use std::io::Read;
use std::net::{TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use ureq::http::StatusCode;
use ureq::{Agent, Error};

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
            let stream = if usage.use_stderr() { Stream::Stderr } else { Stream::Stdout };
            let _ = streams::write(stream, usage.to_string().as_bytes());
            // Clap's 2 would mean critical.
            return if usage.use_stderr() { ExitCode::from(3) } else { ExitCode::SUCCESS };
        }
    };
    let limit = Duration::from_millis(cli.timeout);
    let deadline = Instant::now() + limit;
    let answer = match &cli.probe {
        Probe::Http { status, contains, url } => ask_http(url, *status, contains.as_deref(), limit),
        Probe::Tcp { address } => connect_tcp(address, deadline),
        Probe::Unit { name } => look_at_unit(name, limit),
    };
    let Answer { state, text } = answer.unwrap_or_else(|failed| failed);
    // The exit status reports it too.
    let _ = streams::write(Stream::Stdout, format!("{text}\n").as_bytes());
    ExitCode::from(state)
}

/// The result of a probe: Nagios's exit status and a message of one line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) state: u8,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn ok(text: impl Into<String>) -> Answer {
        Answer { state: 0, text: text.into() }
    }

    pub(crate) fn warning(text: impl Into<String>) -> Answer {
        Answer { state: 1, text: text.into() }
    }

    pub(crate) fn critical(text: impl Into<String>) -> Answer {
        Answer { state: 2, text: text.into() }
    }

    /// The state could not be determined.
    pub(crate) fn unknown(text: impl Into<String>) -> Answer {
        Answer { state: 3, text: text.into() }
    }
}

/// Connects to any address of a host and closes the connection.
fn connect_tcp(address: &str, deadline: Instant) -> Result<Answer, Answer> {
    let host = address.rsplit_once(':').map(|(host, _)| host);
    let addresses = address.to_socket_addrs().map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => Answer::unknown(format!("{address} is not a host and a port")),
        _ => Answer::critical(format!("{} is not known: {error}", host.unwrap_or(address))),
    })?;
    let mut failed = Answer::critical(format!("{address} has no address"));
    for address in addresses {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Answer::critical("no response in time"));
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(_) => return Ok(Answer::ok(format!("{address} takes connections"))),
            Err(error) => failed = Answer::critical(format!("{address}: {error}")),
        }
    }
    Err(failed)
}

/// Asks systemd for the state of a unit.
fn look_at_unit(name: &str, limit: Duration) -> Result<Answer, Answer> {
    let mut systemctl = Program::new("systemctl");
    systemctl.args(["is-active", "--", name]).timeout(limit);
    let said = systemctl.output().map_err(|error| Answer::unknown(error.to_string()))?;
    let state = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    match state.as_str() {
        "active" => Ok(Answer::ok(format!("{name} is active"))),
        "activating" | "reloading" | "refreshing" => Err(Answer::warning(format!("{name} is {state}"))),
        "" => {
            let reason = String::from_utf8_lossy(&said.stderr).trim().to_owned();
            Err(Answer::unknown(if reason.is_empty() { "systemctl printed no output".to_owned() } else { reason }))
        }
        _ => Err(Answer::critical(format!("{name} is {state}"))),
    }
}

/// The number of bytes of a response that are searched for a text.
const MAX_BODY: u64 = 1 << 20;

/// Sends a single request. Redirects are not followed: they are a valid response.
fn ask_http(url: &str, status: Option<u16>, contains: Option<&str>, limit: Duration) -> Result<Answer, Answer> {
    let mut config = Agent::config_builder()
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(concat!("holo-probe/", env!("CARGO_PKG_VERSION")))
        .timeout_global(Some(limit))
        // Probes are for this machine or its local network.
        .proxy(None);
    if url.starts_with("https:") {
        config = config.tls_config(holo_download::system_tls().map_err(|error| Answer::unknown(error.to_string()))?);
    }
    let response = config.build().new_agent().get(url).call().map_err(|error| http_failure(&error, limit))?;
    let found = response.status();
    match status {
        Some(expected) if found != expected => {
            return Err(Answer::critical(format!("the server reports {found}, where {expected} is expected")));
        }
        None if !(200..400).contains(&found.as_u16()) => {
            return Err(Answer::critical(format!("the server reports {found}")));
        }
        _ => {}
    }
    let Some(text) = contains else { return Ok(good(found)) };
    let mut body = Vec::new();
    let read = response.into_body().into_reader().take(MAX_BODY).read_to_end(&mut body);
    let is_there = body.windows(text.len().max(1)).any(|piece| piece == text.as_bytes()) || text.is_empty();
    match read {
        _ if is_there => Ok(good(found)),
        Err(error) => Err(Answer::critical(format!("the answer breaks off: {error}"))),
        Ok(_) => Err(Answer::critical(format!("the answer does not contain {text:?}"))),
    }
}

fn good(status: StatusCode) -> Answer {
    Answer::ok(format!("the server reports {status}"))
}

fn http_failure(error: &Error, limit: Duration) -> Answer {
    match error {
        Error::Timeout(_) => Answer::critical(format!("no answer within {limit:?}")),
        Error::BadUri(_) | Error::Http(_) => Answer::unknown(error.to_string()),
        Error::HostNotFound => Answer::critical("the host is not known"),
        Error::Io(error) => Answer::critical(error.to_string()),
        error => Answer::critical(error.to_string()),
    }
}
