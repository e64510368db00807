//! What a host remembers over restarts.

use crate::config::Root;
use crate::error::FleetError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The serials of what was accepted, below which nothing is accepted any more, and which events were sent.
#[derive(Debug)]
pub(super) struct Memory {
    path: PathBuf,
    kept: Kept,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    /// The serials of channels by name.
    channels: BTreeMap<String, u64>,
    /// The serials of data layers by key.
    layers: BTreeMap<String, u64>,
    /// The number of the last event that was sent.
    event: u64,
}

/// Returns the directory for what belongs to the fleet.
pub(crate) fn directory(root: &Root) -> PathBuf {
    root.join("var/lib/holo-fleet")
}

impl Memory {
    /// Reads the file, which need not exist.
    pub(super) fn read(root: &Root) -> Memory {
        let path = directory(root).join("host.json");
        let kept = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Memory { path, kept }
    }

    /// Accepts a record of a channel, unless a later one was accepted before.
    pub(super) fn accept_channel(&mut self, channel: &str, serial: u64) -> Result<(), FleetError> {
        let known = self.kept.channels.get(channel).copied().unwrap_or(0);
        later(known, serial)?;
        self.change(|kept| {
            kept.channels.insert(channel.to_owned(), serial);
        })
    }

    /// Fails if a later record of a layer was accepted before.
    pub(super) fn is_later_layer(&self, layer: &str, serial: u64) -> Result<bool, FleetError> {
        let known = self.kept.layers.get(layer).copied().unwrap_or(0);
        later(known, serial)?;
        Ok(serial > known)
    }

    /// Notes that a record of a layer was accepted.
    pub(super) fn accept_layer(&mut self, layer: &str, serial: u64) -> Result<(), FleetError> {
        self.change(|kept| {
            kept.layers.insert(layer.to_owned(), serial);
        })
    }

    /// Returns the number of the last event that was sent.
    pub(super) fn last_event(&self) -> u64 {
        self.kept.event
    }

    pub(super) fn set_last_event(&mut self, event: u64) -> Result<(), FleetError> {
        self.change(|kept| kept.event = event)
    }

    fn change(&mut self, change: impl FnOnce(&mut Kept)) -> Result<(), FleetError> {
        let mut kept = self.kept.clone();
        change(&mut kept);
        if kept != self.kept {
            let text = serde_json::to_vec(&kept).map_err(|error| FleetError::about(self.path.display(), error))?;
            replace(&self.path, &text, 0o600)?;
            self.kept = kept;
        }
        Ok(())
    }
}

fn later(known: u64, serial: u64) -> Result<(), FleetError> {
    if serial >= known {
        return Ok(());
    }
    Err(FleetError(format!("the server has record {serial}, which is older than {known}, so that it is refused")))
}

/// Replaces a file atomically and durably, with this mode. Its directory is created, private if the file is.
pub(super) fn replace(path: &Path, content: &[u8], mode: u32) -> Result<(), FleetError> {
    let write = || -> std::io::Result<()> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        fs::DirBuilder::new().recursive(true).mode(mode | (mode & 0o444) >> 2).create(directory)?;
        let mut file = tempfile::Builder::new().prefix(".holo-fleet.").tempfile_in(directory)?;
        file.write_all(content)?;
        file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        fs::File::open(directory)?.sync_all()
    };
    write().map_err(|error| FleetError::about(path.display(), error))
}
