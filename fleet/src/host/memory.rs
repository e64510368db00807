//! What a host remembers over restarts.

use crate::config::Root;
use crate::disk::replace;
use crate::error::FleetError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

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
