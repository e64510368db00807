//! A repository as an entity.

use crate::provider::{PackageProvider, ProviderError};
use crate::repository::{INDEX, Key, Repository, RepositoryFile, masked};
use holo_plugin::{Asset, EntityReport};
use std::path::PathBuf;
use std::time::Duration;

/// A repository that is defined, or was.
pub(crate) struct RepositoryEntity {
    pub(crate) id: String,
    /// The definition; `None` for an orphan.
    pub(crate) definition: Option<Repository>,
    /// Its package manager, or the reason why it has none.
    pub(crate) provider: Result<&'static dyn PackageProvider, ProviderError>,
    /// The files that it is made of.
    pub(crate) files: Vec<RepositoryFile>,
    /// The files that define it, as the user knows them.
    pub(crate) sources: Vec<PathBuf>,
    /// The report from when it was defined, for an orphan.
    pub(crate) orphan: Option<EntityReport>,
    pub(crate) timeout: Option<Duration>,
}

impl RepositoryEntity {
    /// Returns the report to keep for when nothing defines it any more.
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
