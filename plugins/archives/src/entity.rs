//! The entity: an archive that is defined, or an orphan.

mod difference;
mod operations;

use crate::definition::{Archive, Ensure};
use crate::deployment::Deployment;
use crate::error::ArchiveError;
use crate::inventory::{Inventory, PREFIX, canonical};
use crate::listing::Listing;
use crate::record::{ArchiveRecord, DownloadRecord};
use crate::shared::{Shared, WorkPaths};
use crate::store::Store;
use holo_change::Tree;
use holo_change::base_store::{BaseStore, Remembered};
use holo_plugin::{EntityReport, FilePair, Host, Preview};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A download, and the directory to which it is extracted.
#[derive(Debug)]
pub(crate) struct ArchiveEntity {
    pub(crate) id: String,
    pub(crate) desired: Desired,
    pub(crate) inventory: Arc<Inventory>,
    pub(crate) shared: Arc<Shared>,
    /// The local file from which it is copied, if it exists.
    pub(crate) local_source: Option<PathBuf>,
}

/// The desired state of an archive.
#[derive(Debug)]
pub(crate) enum Desired {
    /// The state of the definition, and the time limit of an attempt.
    Defined(Box<Archive>, Option<Duration>),
    /// The original state: the archive is no longer defined.
    Undefined(Box<Remembered<ArchiveRecord>>),
}

impl ArchiveEntity {
    fn store(&self, host: &Host) -> Result<Store, ArchiveError> {
        Ok(Store::open(host, &self.id, &self.inventory, &self.shared)?)
    }

    fn is_forgotten(&self, store: &Store) -> Result<bool, ArchiveError> {
        Ok(store.memory.recall::<ArchiveRecord>(&self.id)?.is_none())
    }

    /// Returns true if an archive that has not been applied yet takes over from this orphan. Then the orphan must wait
    /// for it.
    fn has_successor(&self, store: &Store) -> Result<bool, ArchiveError> {
        let Some(Remembered::<ArchiveRecord> { base: record, .. }) = store.memory.recall(&self.id)? else {
            return Ok(false);
        };
        for successor in self.inventory.defined.iter().filter(|successor| successor.ensure == Ensure::Present) {
            let has_path = record.path.as_deref().is_some_and(|path| Path::new(path) == successor.path);
            if has_path && record.has_download() {
                return Ok(true);
            }
            let Some(tree) =
                successor.tree.as_ref().filter(|tree| record.trees.iter().any(|own| Path::new(own) == *tree))
            else {
                continue;
            };
            if store.trees.manifest(&self.id, tree).exists()? && !store.trees.manifest(&successor.id, tree).exists()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the record of the last download at the path.
    fn download(&self, host: &Host) -> Option<DownloadRecord> {
        let memory = BaseStore::open(host.locations());
        memory.recall::<ArchiveRecord>(&self.id).ok()??.base.download
    }

    /// Returns the canonical paths that it uses, including those of the orphans from which it takes over.
    pub(crate) fn work_paths(&self, host: &Host) -> WorkPaths {
        let mut paths: WorkPaths = self.store(host).map(|store| recorded_paths(&store, &self.id)).unwrap_or_default();
        // If the root cannot be opened, the apply reports the error.
        let Ok(root) = Tree::open(host.root()) else { return paths };
        let (path, tree) = match &self.desired {
            Desired::Defined(archive, _) => (archive.path.as_str(), archive.extract_to.as_deref()),
            Desired::Undefined(_) => (self.path(), None),
        };
        let path = canonical(&root, path, false);
        let tree = tree.map(|tree| canonical(&root, tree, true));
        if matches!(self.desired, Desired::Defined(..)) {
            let predecessors = self.inventory.predecessors(&path, tree.as_deref());
            paths.extend(predecessors.iter().flat_map(|orphan| orphan.base.paths()));
        }
        paths.push(path);
        paths.extend(tree);
        paths
    }

    fn path(&self) -> &str {
        self.id.strip_prefix(PREFIX).unwrap_or_default()
    }

    fn deployment<'a>(
        &'a self,
        (host, store): (&'a Host, &'a Store),
        archive: &'a Archive,
        timeout: Option<Duration>,
        report: &'a EntityReport,
    ) -> Deployment<'a> {
        Deployment { host, store, id: &self.id, archive, timeout, report, changed: RefCell::default() }
    }

    /// Returns a list as two files.
    fn shown(&self, listing: Listing, host: &Host) -> Option<FilePair> {
        let (from, to) = listing.into_texts()?;
        Preview::texts(host, &self.id, &from, &to).ok()
    }
}

fn recorded_paths(store: &Store, id: &str) -> WorkPaths {
    let remembered = store.memory.recall::<ArchiveRecord>(id).ok().flatten();
    remembered.map(|remembered| remembered.base.paths().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_works_on_all_paths_of_its_predecessor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().as_os_str().to_owned();
        let host = Host::from_environment(|_| Some(path.clone())).unwrap();
        let trees = ["/opt/shared", "/opt/other"].map(str::to_owned).to_vec();
        let record = ArchiveRecord { path: Some("/srv/old".to_owned()), trees, ..ArchiveRecord::default() };
        let orphan = Remembered::new(&EntityReport::new("archive:/srv/old"), record);
        let orphans = [(orphan.id.clone(), orphan)].into();
        let inventory = Arc::new(Inventory { orphans, defined: Vec::new() });
        let archive = |path: &str, directory: &str| ArchiveEntity {
            id: format!("{PREFIX}{path}"),
            desired: Desired::Defined(
                Box::new(toml::from_str(&format!("path = {path:?}\nextract_to = {directory:?}")).unwrap()),
                None,
            ),
            inventory: Arc::clone(&inventory),
            shared: Arc::default(),
            local_source: None,
        };
        let mut paths = archive("/srv/new", "/opt/shared").work_paths(&host);
        paths.sort();
        assert_eq!(paths, ["/opt/other", "/opt/shared", "/opt/shared", "/srv/new", "/srv/old"].map(PathBuf::from));
        assert_eq!(archive("/srv/x", "/opt/x").work_paths(&host), ["/srv/x", "/opt/x"].map(PathBuf::from));
    }
}
