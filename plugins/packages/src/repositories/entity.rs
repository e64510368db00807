//! The entity of a repository.

use crate::provider::{PackageProvider, ProviderError};
use crate::repository::{INDEX, Key, Repository, RepositoryFile, masked};
use holo_plugin::{Asset, EntityReport};
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
