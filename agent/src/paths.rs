//! The paths of the agent below the root of its system.

use std::env;
use std::path::{Path, PathBuf};

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
