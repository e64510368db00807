//! The configuration of operators, and the section `[fleet]` of a host's `agent.toml`.

use crate::names::{Host, Label};
use holo_definitions::DocumentError;
use holo_system::{Trust, TrustError};
use serde::Deserialize;
use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// A file is invalid or unreadable.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// There is no configuration.
    #[error("no server is configured: write url = \"tls://…\" to {}, or set HOLO_FLEET_URL", .0.display())]
    NoServer(PathBuf),
    /// A host is not part of a fleet.
    #[error("{}: there is no section [fleet]", .0.display())]
    NoSection(PathBuf),
    /// Other users can read a secret.
    #[error("{}: other users can read it (mode {mode:04o}); run: chmod 600 {}", path.display(), path.display())]
    Exposed {
        /// The file with the secret.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Other users can modify a file that decides what runs.
    #[error("{}: {source}", path.display())]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: TrustError,
    },
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// Something is needed and not configured.
    #[error("{path}: {key} is missing: {purpose}", path = path.display())]
    Missing {
        /// The configuration file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// What it is for.
        purpose: &'static str,
    },
}

/// One address or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Addresses {
    One(String),
    Several(Vec<String>),
}

/// The way to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The addresses of the servers.
    pub(crate) urls: Vec<String>,
    /// An nkey seed or a `.creds` file.
    pub(crate) credentials: Option<PathBuf>,
    /// The certificates of the authorities to trust.
    pub(crate) ca: Option<PathBuf>,
}

/// The configuration of an operator.
#[derive(Clone, Debug)]
pub(crate) struct Operator {
    pub(crate) link: Link,
    pub(crate) signing_key: Option<PathBuf>,
    /// Where the configuration was looked for.
    pub(crate) path: PathBuf,
}

/// The configuration of an operator: `~/.config/holo/fleet.toml`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
struct OperatorFile {
    /// The address of the server, such as `tls://nats.example.org:4222`, or a list of addresses of a cluster.
    url: Option<Addresses>,
    /// A file with an nkey seed, such as `holo-fleet accounts` writes, or a `.creds` file. Only its owner may read it.
    credentials: Option<PathBuf>,
    /// A file with certificates of authorities to trust, in addition to those of the system.
    ca: Option<PathBuf>,
    /// The SSH key that signs bundles, channels and data.
    signing_key: Option<PathBuf>,
}

/// What `holo-fleet run` may ask a host for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operation {
    /// A prediction.
    Check,
    /// The differences.
    Diff,
    /// A run.
    Apply,
}

/// The section `[fleet]` of `agent.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Section {
    url: Option<Addresses>,
    credentials: Option<PathBuf>,
    ca: Option<PathBuf>,
    host: Option<String>,
    channel: Option<Label>,
    roles: Vec<Label>,
    allow: Vec<Operation>,
    allow_unsigned: bool,
    report_facts: Vec<String>,
}

impl Default for Section {
    fn default() -> Section {
        Section {
            url: None,
            credentials: None,
            ca: None,
            host: None,
            channel: None,
            roles: Vec::new(),
            allow: vec![Operation::Check, Operation::Diff],
            allow_unsigned: false,
            report_facts: Vec::new(),
        }
    }
}

/// A host of a fleet.
#[derive(Clone, Debug)]
pub(crate) struct HostConfig {
    pub(crate) link: Link,
    pub(crate) host: Host,
    pub(crate) channel: Option<Label>,
    /// The least specific one first.
    pub(crate) roles: Vec<Label>,
    pub(crate) allow: Vec<Operation>,
    /// True if bundles, channels and data need no signature.
    pub(crate) allow_unsigned: bool,
    pub(crate) report_facts: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AgentFile {
    fleet: Option<Section>,
}

/// A directory below which all paths of the configuration are.
#[derive(Clone, Debug)]
pub(crate) struct Root(PathBuf);

impl Root {
    /// Returns the directory in `$HOLO_ROOT_DIR`, or `/`.
    #[must_use]
    pub(crate) fn from_environment() -> Root {
        let given = env::var_os("HOLO_ROOT_DIR").filter(|root| !root.is_empty());
        Root(given.map_or_else(|| PathBuf::from("/"), PathBuf::from))
    }

    /// Returns the directory.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the place of an absolute path.
    #[must_use]
    pub(crate) fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns the place of a path that may begin with `~/`.
    fn resolve(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), env::var_os("HOME")) {
            (Ok(rest), Some(home)) => self.join(Path::new(&home).join(rest)),
            _ => self.join(path),
        }
    }

    fn link(&self, url: Option<Addresses>, credentials: Option<PathBuf>, ca: Option<PathBuf>) -> Link {
        let urls = match url {
            Some(Addresses::One(url)) => vec![url],
            Some(Addresses::Several(urls)) => urls,
            None => Vec::new(),
        };
        Link { urls, credentials: credentials.map(|path| self.resolve(&path)), ca: ca.map(|path| self.resolve(&path)) }
    }
}

impl Operator {
    /// Reads the configuration from a file, by default the user's, or the system's if the user has none.
    ///
    /// The variables `HOLO_FLEET_URL` and `HOLO_FLEET_CREDENTIALS` win.
    ///
    /// # Errors
    /// If the file that is used is invalid.
    pub(crate) fn read(root: &Root, given: Option<&Path>) -> Result<Operator, ConfigError> {
        let path = given.map_or_else(|| root.operator_config(), Path::to_owned);
        let read = holo_definitions::read_document::<OperatorFile>(&path)?;
        if let (None, Some(path)) = (&read, given) {
            let source = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(ConfigError::Unreadable { path: path.to_owned(), source });
        }
        let file = read.unwrap_or_default();
        let mut link = root.link(file.url, file.credentials, file.ca);
        if let Some(url) = variable("HOLO_FLEET_URL") {
            link.urls = url.split(',').map(str::to_owned).collect();
        }
        if let Some(credentials) = variable("HOLO_FLEET_CREDENTIALS") {
            link.credentials = Some(root.resolve(Path::new(&credentials)));
        }
        Ok(Operator { link, signing_key: file.signing_key.map(|key| root.resolve(&key)), path })
    }

    /// Returns the key that signs, from an option or the configuration.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn signing_key(&self, given: Option<&Path>) -> Result<PathBuf, ConfigError> {
        let key = given.map(Path::to_owned).or_else(|| self.signing_key.clone());
        let purpose = "what hosts run is signed with this SSH key";
        key.ok_or_else(|| ConfigError::Missing { path: self.path.clone(), key: "signing_key", purpose })
    }
}

impl Root {
    fn operator_config(&self) -> PathBuf {
        let home = variable("XDG_CONFIG_HOME").map(PathBuf::from);
        let home = home.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".config")));
        let of_user = home.map(|home| self.join(home.join("holo/fleet.toml")));
        of_user.filter(|path| path.exists()).unwrap_or_else(|| self.join("etc/holo/fleet.toml"))
    }

    /// Returns the configuration of the agent.
    #[must_use]
    pub(crate) fn agent_config(&self) -> PathBuf {
        self.join("etc/holo/agent.toml")
    }

    /// Returns the public keys whose signatures are accepted.
    #[must_use]
    pub(crate) fn allowed_signers(&self) -> PathBuf {
        self.join("etc/holo/allowed_signers")
    }
}

impl HostConfig {
    /// Reads the section `[fleet]` of `agent.toml`.
    ///
    /// # Errors
    /// If it is missing or invalid, or if other users can change it.
    pub(crate) fn read(root: &Root) -> Result<HostConfig, ConfigError> {
        let path = root.agent_config();
        trust(&path)?;
        let file = holo_definitions::read_document::<AgentFile>(&path)?.unwrap_or_default();
        let section = file.fleet.ok_or_else(|| ConfigError::NoSection(path.clone()))?;
        let link = root.link(section.url, section.credentials, section.ca);
        if link.urls.is_empty() {
            let purpose = "the address of the NATS server, such as \"tls://nats.example.org:4222\"";
            return Err(ConfigError::Missing { path, key: "fleet.url", purpose });
        }
        let host = section.host.unwrap_or_else(host_name);
        let host = Host::new(&host).map_err(|reason| ConfigError::Unreadable {
            path: path.clone(),
            source: std::io::Error::other(format!("fleet.host: {reason}")),
        })?;
        Ok(HostConfig {
            link,
            host,
            channel: section.channel,
            roles: section.roles,
            allow: section.allow,
            allow_unsigned: section.allow_unsigned,
            report_facts: section.report_facts,
        })
    }
}

impl Link {
    /// Returns the credentials, which no other user may read.
    ///
    /// # Errors
    /// If they cannot be read, or if other users can.
    pub(crate) fn read_credentials(&self) -> Result<Option<String>, ConfigError> {
        let Some(path) = &self.credentials else { return Ok(None) };
        let unreadable = |source| ConfigError::Unreadable { path: path.clone(), source };
        let mode = fs::metadata(path).map_err(unreadable)?.mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(ConfigError::Exposed { path: path.clone(), mode });
        }
        fs::read_to_string(path).map(Some).map_err(unreadable)
    }
}

/// Fails if other users can modify a file.
pub(crate) fn trust(path: &Path) -> Result<(), ConfigError> {
    let untrusted = |violation| ConfigError::Untrusted { path: path.to_owned(), source: TrustError::from(violation) };
    Trust::new(Path::new("/")).violation(path).map_or(Ok(()), |violation| Err(untrusted(violation)))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_is_that_of_the_types() {
        holo_testing::schema_is_kept("holo-fleet-operator.schema.json", &schemars::schema_for!(OperatorFile));
    }
}
