//! The configuration and its sources, and the paths of the agent below the root of its system.

#[cfg(test)]
mod tests;

use holo_definitions::{DocumentError, read_document, readers};
use holo_schedule::Schedule;
use holo_system::{Trust, TrustError};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer};
use std::env;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The configuration of the agent: `/etc/holo/agent.toml`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The interval between complete runs.
    #[serde(deserialize_with = "interval")]
    #[cfg_attr(test, schemars(with = "readers::DurationSchema"))]
    pub interval: Duration,
    /// True to run `holo watch` between runs.
    pub watch: bool,
    /// The interval between rounds of health checks.
    #[serde(deserialize_with = "interval")]
    #[cfg_attr(test, schemars(with = "readers::DurationSchema"))]
    pub health_interval: Duration,
    /// Whether deviations are repaired or only reported.
    pub mode: Mode,
    /// The timeout for a run.
    #[serde(deserialize_with = "interval")]
    #[cfg_attr(test, schemars(with = "readers::DurationSchema"))]
    pub timeout: Duration,
    /// The times at which changes are permitted; any time by default.
    #[serde(deserialize_with = "readers::schedule")]
    #[cfg_attr(test, schemars(with = "readers::ScheduleTable"))]
    pub maintenance: Option<Schedule>,
    /// Defaults for entities whose definitions say nothing else.
    pub defaults: Defaults,
    /// The address and port on which metrics are served to Prometheus.
    #[serde(deserialize_with = "address")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub metrics: Option<SocketAddr>,
    /// The file to which metrics are written, for a textfile collector.
    #[serde(deserialize_with = "absolute")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub textfile: Option<PathBuf>,
    /// The fleet that the machine belongs to, as `holo-fleet` reads it.
    #[cfg_attr(test, schemars(with = "Option<serde_json::Map<String, serde_json::Value>>"))]
    pub fleet: Option<serde_json::Map<String, serde_json::Value>>,
    /// The program to run; by default the `holo` in the agent's directory, or in `$PATH`.
    #[serde(deserialize_with = "absolute")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub holo: Option<PathBuf>,
}

/// The treatment of deviations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Repair them.
    Enforce,
    /// Only report them.
    Report,
}

/// Defaults for entities whose definitions say nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Defaults {
    /// What happens to an entity that a person has changed.
    pub on_edit: OnEdit,
}

/// What happens to an entity that a person has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnEdit {
    /// It is reported, and left alone.
    #[default]
    Refuse,
    /// What was edited is kept, and then overwritten.
    Overwrite,
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
            defaults: Defaults::default(),
            metrics: None,
            textfile: None,
            fleet: None,
            holo: None,
        }
    }
}

/// A source of the configuration.
pub trait ConfigSource {
    /// Loads the configuration.
    ///
    /// # Errors
    /// If it is invalid; then the previous one stays in use.
    fn load(&self) -> Result<Config, DocumentError>;
}

/// A configuration file, which need not exist.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    path: PathBuf,
}

impl ConfigFile {
    /// Returns the file at a path.
    pub fn new(path: impl Into<PathBuf>) -> ConfigFile {
        ConfigFile { path: path.into() }
    }

    /// Returns the system's file.
    #[must_use]
    pub fn of_system(paths: &Paths) -> ConfigFile {
        ConfigFile::new(paths.config())
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fails if other users may modify a file that decides what the agent runs.
    fn refuse_untrusted(&self, path: &Path) -> Result<(), DocumentError> {
        let refuse = |violation| {
            let source = io::Error::other(TrustError::from(violation));
            Err(DocumentError::Unreadable { path: self.path.clone(), source })
        };
        Trust::new(Path::new("/")).violation(path).map_or(Ok(()), refuse)
    }
}

impl ConfigSource for ConfigFile {
    fn load(&self) -> Result<Config, DocumentError> {
        self.refuse_untrusted(&self.path)?;
        let config: Config = read_document(&self.path)?.unwrap_or_default();
        config.holo.as_deref().map_or(Ok(()), |program| self.refuse_untrusted(program))?;
        Ok(config)
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

/// The paths of the agent.
#[derive(Clone, Debug)]
pub struct Paths {
    root: PathBuf,
}

impl Paths {
    /// Returns the paths below a root.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Paths {
        Paths { root: root.into() }
    }

    /// Returns the paths below `$HOLO_ROOT_DIR`.
    #[must_use]
    pub fn from_environment() -> Paths {
        let given = env::var_os("HOLO_ROOT_DIR").filter(|root| !root.is_empty());
        Paths::new(given.map_or_else(|| PathBuf::from("/"), PathBuf::from))
    }

    /// Returns the configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.root.join("etc/holo/agent.toml")
    }

    /// Returns the directory for persistent state.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.root.join("var/lib/holo-agent")
    }

    /// Returns the file for events.
    #[must_use]
    pub fn spool(&self) -> PathBuf {
        self.state().join("events.jsonl")
    }

    /// Returns the file for pending events, which is in memory.
    #[must_use]
    pub fn refuge(&self) -> PathBuf {
        self.runtime().join("events.jsonl")
    }

    /// Returns the file for the last runs.
    #[must_use]
    pub fn last(&self) -> PathBuf {
        self.state().join("last.json")
    }

    /// Returns the directory of the socket.
    #[must_use]
    pub fn runtime(&self) -> PathBuf {
        self.root.join("run/holo-agent")
    }

    /// Returns the socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.runtime().join("control.sock")
    }

    /// Returns the file with the machine ID.
    #[must_use]
    pub fn machine_id(&self) -> PathBuf {
        self.root.join("etc/machine-id")
    }

    /// Returns the root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}
