//! The records of repositories.

use holo_change::tracked::{HasTracks, Tracks};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The record of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// The name of its package manager.
    pub(crate) provider: String,
    /// True from before a change until the index has been fetched after it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_index_due: bool,
    /// What was there before, and what was made.
    pub(crate) tracks: Tracks,
}

impl HasTracks for Record {
    fn tracks(&mut self) -> &mut Tracks {
        &mut self.tracks
    }
}

/// A record of any type that the plugin has, of which only the tracks matter.
#[derive(Clone, Debug, Default)]
pub(super) struct AnyRecord(Tracks);

impl HasTracks for AnyRecord {
    fn tracks(&mut self) -> &mut Tracks {
        &mut self.0
    }
}

impl<'de> Deserialize<'de> for AnyRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AnyRecord, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        let tracks = value.get_mut("tracks").map(Value::take);
        let tracks =
            tracks.map(|tracks| serde_json::from_value(tracks).map_err(serde::de::Error::custom)).transpose()?;
        Ok(AnyRecord(tracks.unwrap_or_default()))
    }
}
