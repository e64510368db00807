//! The entity of a repository, and its record.

use crate::provider::{PackageProvider, ProviderError};
use crate::repository::{INDEX, Key, Repository, RepositoryFile, masked};
use holo_change::tracked::{HasTracks, Tracks};
use holo_plugin::{Asset, EntityReport};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// A defined repository, or an orphan.
pub(crate) struct RepositoryEntity {
    pub(crate) id: String,
    /// The definition, or `None` for an orphan.
    pub(crate) definition: Option<Repository>,
    /// The package manager, or the reason why there is none.
    pub(crate) provider: Result<&'static dyn PackageProvider, ProviderError>,
    /// The files of the repository.
    pub(crate) files: Vec<RepositoryFile>,
    /// The files that contain its definition, as shown to the user.
    pub(crate) sources: Vec<PathBuf>,
    /// The stored report, for an orphan.
    pub(crate) orphan: Option<EntityReport>,
    pub(crate) timeout: Option<Duration>,
}

impl RepositoryEntity {
    /// Returns the full report. It is stored for the repository as an orphan.
    pub(super) fn full_report(&self) -> EntityReport {
        if let Some(report) = &self.orphan {
            return report.clone();
        }
        let mut report = EntityReport::new(self.id.as_str());
        if let Some(definition) = &self.definition {
            if definition.is_gone() {
                report.inform("ensure", "absent");
            } else {
                report.inform("from", masked(&definition.uris.join(" ")));
            }
            if let Some(Key::Path(path)) = definition.key() {
                report.edges.needs.push(Asset::new("path", path));
            }
        }
        for file in &self.files {
            report.edges.provides.push(Asset::new("path", file.path.as_str()));
            report.edges.owns.push(Asset::new("path", file.path.as_str()));
            report.edges.watch.push(file.path.as_str().into());
        }
        if let Ok(provider) = &self.provider {
            let paths = provider.repository_needs().iter();
            report.edges.needs.extend(paths.map(|path| Asset::new("path", *path)));
            report.edges.provides.push(Asset::new(INDEX, provider.name()));
        }
        report
    }
}

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
