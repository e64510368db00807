//! Health checks in definitions.

use super::positive_duration;
use crate::command::Command;
use crate::definition::Invalid;
use serde::{Deserialize, Deserializer, de};
use std::fmt::{self, Display};
use std::time::Duration;

#[cfg(feature = "schema")]
use super::DurationSchema;

/// A check that reports whether an entity is healthy: ok, warning, critical or unknown.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "Written"))]
#[serde(try_from = "Written")]
pub struct HealthCheck {
    /// The kind of check.
    pub probe: Probe,
    /// The maximum number of attempts; one by default.
    pub tries: u32,
    /// The delay between two attempts; one second by default.
    pub interval: Option<Duration>,
    /// The timeout for one attempt; ten seconds by default.
    pub timeout: Option<Duration>,
}

/// The kind of a health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A program whose exit status is the result: 0 for ok, 1 for a warning, 2 for critical, anything else for unknown.
    Command(Command),
    /// An HTTP request.
    Http {
        /// The URL.
        url: String,
        /// The expected status; any from 200 to 399 by default.
        status: Option<u16>,
        /// A text that the response must contain.
        contains: Option<String>,
    },
    /// A host and port at which a server must accept connections.
    Tcp(String),
    /// A systemd unit that must be active.
    Unit(String),
}

/// A health check.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Written {
    /// The program and its arguments.
    #[serde(default)]
    command: Option<Command>,
    /// The URL to request, which must start with `http://` or `https://`.
    #[serde(default)]
    http: Option<String>,
    /// The expected HTTP status; any from 200 to 399 by default.
    #[serde(default)]
    status: Option<u16>,
    /// A text that the response must contain.
    #[serde(default)]
    contains: Option<String>,
    /// The host and port at which a server must accept connections, such as `localhost:5432`.
    #[serde(default)]
    tcp: Option<String>,
    /// The systemd unit that must be active.
    #[serde(default)]
    unit: Option<String>,
    /// The maximum number of attempts; one by default.
    #[serde(default = "once", deserialize_with = "tries")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    tries: u32,
    /// The delay between two attempts; one second by default.
    #[serde(default, deserialize_with = "positive_duration")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DurationSchema>"))]
    interval: Option<Duration>,
    /// The timeout for one attempt; ten seconds by default.
    #[serde(default, deserialize_with = "positive_duration")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DurationSchema>"))]
    timeout: Option<Duration>,
}

/// The reason why a health check is invalid.
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

/// Deserializes a number of attempts, of which at least one is needed.
fn tries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        0 => Err(de::Error::custom("must be at least 1; remove the check if it should not run")),
        tries => Ok(tries),
    }
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

/// Returns true if a URL may be requested. URLs with secrets are refused, as they would be shown together with the
/// check.
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
    /// Returns a warning if the check is valid, but probably not intended.
    pub(super) fn doubt(&self) -> Option<Invalid> {
        match &self.probe {
            Probe::Command(command) => command.doubt("health_check"),
            _ => None,
        }
    }
}

/// Shows the key and its value; for a command, only its words.
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
