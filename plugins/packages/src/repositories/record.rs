//! The records of repositories.

use holo_change::tracked::{HasTracks, Tracks};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// The name of the package manager.
    pub(crate) provider: String,
    /// True from before a change until the index has been refreshed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_index_due: bool,
    /// The original and the provisioned state of each file.
    pub(crate) tracks: Tracks,
}

impl HasTracks for Record {
    fn tracks(&mut self) -> &mut Tracks {
        &mut self.tracks
    }
}

/// A record of any type that this plugin writes. Only its tracks are read.
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
