//! Health checks, as they are written.

#[cfg(feature = "schema")]
use super::DurationSchema;
use super::duration;
use crate::command::Command;
use crate::definition::Invalid;
use serde::Deserialize;
use std::fmt::{self, Display};
use std::time::Duration;

/// A check that tells how something is: well, a warning, critical, or unknown.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "Written"))]
#[serde(try_from = "Written")]
pub struct HealthCheck {
    /// The way in which that is found out.
    pub probe: Probe,
    /// The number of tries until it is well; one if nothing is said.
    pub tries: u32,
    /// The time to wait between two tries; a second if nothing is said.
    pub interval: Option<Duration>,
    /// The time limit of one try; ten seconds if nothing is said.
    pub timeout: Option<Duration>,
}

/// The way in which a health check finds out how something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A program tells by its exit status: 0 is well, 1 a warning, 2 critical, anything else unknown.
    Command(Command),
    /// A server answers a request.
    Http {
        /// The URL.
        url: String,
        /// The status that is expected; any from 200 to 399 if nothing is said.
        status: Option<u16>,
        /// A text that the answer holds.
        contains: Option<String>,
    },
    /// A server takes connections at a host and port.
    Tcp(String),
    /// A unit of systemd is active.
    Unit(String),
}

/// A health check, as it is written.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Written {
    /// The program and its arguments.
    #[serde(default)]
    command: Option<Command>,
    /// The URL that a server has to answer, beginning with `http://` or `https://`.
    #[serde(default)]
    http: Option<String>,
    /// The status of the answer; any from 200 to 399 if nothing is said.
    #[serde(default)]
    status: Option<u16>,
    /// A text that the answer holds.
    #[serde(default)]
    contains: Option<String>,
    /// The host and port at which a server takes connections, such as `localhost:5432`.
    #[serde(default)]
    tcp: Option<String>,
    /// The unit of systemd that is active.
    #[serde(default)]
    unit: Option<String>,
    /// The number of tries until it is well; one if nothing is said.
    #[serde(default = "once")]
    tries: u32,
    /// The time to wait between two tries; a second if nothing is said.
    #[serde(default, deserialize_with = "duration")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DurationSchema>"))]
    interval: Option<Duration>,
    /// The time limit of one try; ten seconds if nothing is said.
    #[serde(default, deserialize_with = "duration")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DurationSchema>"))]
    timeout: Option<Duration>,
}

/// The reason why a health check cannot be used.
#[derive(Debug, thiserror::Error)]
enum HealthCheckError {
    #[error("needs one of command, http, tcp and unit")]
    Number,
    #[error("status and contains are for http only")]
    NotHttp,
    #[error("{0:?} is not a URL that begins with http:// or https:// and a host, without user and password")]
    Url(String),
    #[error("{0} is not a status of HTTP, which is from 100 to 599")]
    Status(u16),
    #[error("{0:?} is not a host and a port, such as \"localhost:5432\" or \"[::1]:80\"")]
    Address(String),
    #[error("{0:?} is not the name of a unit")]
    Unit(String),
}

fn once() -> u32 {
    1
}

impl TryFrom<Written> for HealthCheck {
    type Error = HealthCheckError;

    fn try_from(written: Written) -> Result<HealthCheck, HealthCheckError> {
        let Written { command, http, status, contains, tcp, unit, tries, interval, timeout } = written;
        if http.is_none() && (status.is_some() || contains.is_some()) {
            return Err(HealthCheckError::NotHttp);
        }
        let probe = match (command, http, tcp, unit) {
            (Some(command), None, None, None) => Probe::Command(command),
            (None, Some(url), None, None) => match status {
                _ if !is_url(&url) => return Err(HealthCheckError::Url(url)),
                Some(status) if !(100..600).contains(&status) => return Err(HealthCheckError::Status(status)),
                status => Probe::Http { url, status, contains },
            },
            (None, None, Some(address), None) if is_address(&address) => Probe::Tcp(address),
            (None, None, Some(address), None) => return Err(HealthCheckError::Address(address)),
            (None, None, None, Some(unit)) if is_unit(&unit) => Probe::Unit(unit),
            (None, None, None, Some(unit)) => return Err(HealthCheckError::Unit(unit)),
            _ => return Err(HealthCheckError::Number),
        };
        Ok(HealthCheck { probe, tries, interval, timeout })
    }
}

/// Returns true for what may be asked of a server. A secret would be seen wherever the check is shown.
fn is_url(url: &str) -> bool {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")).unwrap_or_default();
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    !host.is_empty() && !host.contains('@') && !url.contains(|letter: char| letter.is_control() || letter == ' ')
}

fn is_address(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let is_host = !host.is_empty() && !host.contains(|letter: char| letter.is_control() || "/ @".contains(letter));
    let has_brackets = host.starts_with('[') && host.ends_with(']');
    is_host && (has_brackets || !host.contains(':')) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_unit(unit: &str) -> bool {
    let is_odd = |letter: char| letter.is_control() || letter.is_whitespace() || letter == '/';
    !unit.is_empty() && !unit.starts_with('-') && !unit.contains(is_odd)
}

impl HealthCheck {
    /// Returns what can be, but is hardly meant.
    pub(super) fn doubt(&self) -> Option<Invalid> {
        match &self.probe {
            Probe::Command(command) => command.doubt("health_check"),
            _ => None,
        }
    }
}

/// The key and its value; a command has words of its own.
impl Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Probe::Command(command) => f.write_str(&command.words().join(" ")),
            Probe::Http { url, .. } => write!(f, "http {}", url.split('?').next().unwrap_or_default()),
            Probe::Tcp(address) => write!(f, "tcp {address}"),
            Probe::Unit(unit) => write!(f, "unit {unit}"),
        }
    }
}
