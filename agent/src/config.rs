//! The configuration, and where it comes from.

use crate::paths::Paths;
use holo_definitions::{DocumentError, read_document, readers};
use holo_schedule::Schedule;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The configuration of the agent: `/etc/holo/agent.toml`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The time from one whole run to the next.
    #[serde(deserialize_with = "interval")]
    #[cfg_attr(test, schemars(with = "readers::DurationSchema"))]
    pub interval: Duration,
    /// True if `holo watch` is to run between two runs.
    pub watch: bool,
    /// The time from one round of health checks to the next.
    #[serde(deserialize_with = "interval")]
    #[cfg_attr(test, schemars(with = "readers::DurationSchema"))]
    pub health_interval: Duration,
    /// What may be done about what is not as it should be.
    pub mode: Mode,
    /// The time that a run may take.
    #[serde(deserialize_with = "interval")]
    #[cfg_attr(test, schemars(with = "readers::DurationSchema"))]
    pub timeout: Duration,
    /// The times at which something may be changed; always if nothing is said.
    #[serde(deserialize_with = "readers::schedule")]
    #[cfg_attr(test, schemars(with = "readers::ScheduleTable"))]
    pub maintenance: Option<Schedule>,
    /// The address and port at which Prometheus finds the metrics.
    #[serde(deserialize_with = "address")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub metrics: Option<SocketAddr>,
    /// The file that has the metrics, for a collector that reads files.
    #[serde(deserialize_with = "absolute")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub textfile: Option<PathBuf>,
    /// The program that is run; the `holo` beside the agent, or that of `$PATH`, if nothing is said.
    #[serde(deserialize_with = "absolute")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub holo: Option<PathBuf>,
}

/// What may be done about what is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It is applied.
    Enforce,
    /// It is only said.
    Report,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            interval: Duration::from_secs(30 * 60),
            watch: true,
            health_interval: Duration::from_secs(60),
            mode: Mode::Enforce,
            timeout: Duration::from_secs(60 * 60),
            maintenance: None,
            metrics: None,
            textfile: None,
            holo: None,
        }
    }
}

/// A source of the configuration.
pub trait ConfigSource {
    /// Returns what it says now.
    ///
    /// # Errors
    /// If it cannot be used; then what was there before goes on to count.
    fn load(&self) -> Result<Config, DocumentError>;
}

/// The configuration in a file, which may be missing.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    path: PathBuf,
}

impl ConfigFile {
    /// A file at a path.
    pub fn new(path: impl Into<PathBuf>) -> ConfigFile {
        ConfigFile { path: path.into() }
    }

    /// The file of the system.
    #[must_use]
    pub fn of_system(paths: &Paths) -> ConfigFile {
        ConfigFile::new(paths.config())
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl ConfigSource for ConfigFile {
    fn load(&self) -> Result<Config, DocumentError> {
        Ok(read_document(&self.path)?.unwrap_or_default())
    }
}

fn interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    readers::interval(deserializer).map(Option::unwrap_or_default)
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let wrong = || de::Error::custom(format!("{text:?} is not an address and a port, such as \"127.0.0.1:9189\""));
    text.parse().map(Some).map_err(|_| wrong())
}

fn absolute<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    let path = PathBuf::from(String::deserialize(deserializer)?);
    if !path.is_absolute() || path.file_name().is_none() {
        let path = path.display();
        return Err(de::Error::custom(format!("\"{path}\" is not the path of a file that begins with a slash")));
    }
    Ok(Some(path))
}

#[cfg(test)]
mod tests;
