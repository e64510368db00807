//! The entity: an archive that is defined, or an orphan. It is applied, checked and displayed.

mod difference;

use crate::definition::{Archive, Ensure, parent};
use crate::deployment::Deployment;
use crate::error::ArchiveError;
use crate::listing::Listing;
use crate::removal::Removal;
use crate::shared::{Shared, WorkPaths};
use crate::store::PREFIX;
use crate::store::{ArchiveRecord, DownloadRecord, Inventory, Store, canonical};
use bstr::BString;
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::{Tree, path_bytes};
use holo_download::Address;
use holo_plugin::{
    Action, Applied, Asset, Entity, EntityReport, FilePair, ForgetError, Host, Mode, Output, Preview, Silence, Verdict,
    Witness,
};
use std::cell::{Cell, RefCell};
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
    pub(crate) fn store(&self, host: &Host) -> Result<Store, ArchiveError> {
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

    pub(crate) fn deployment<'a>(
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

impl Entity for ArchiveEntity {
    fn report(&self) -> EntityReport {
        report(self)
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        let has_changed = Cell::new(false);
        let applied = self.store(host).and_then(|store| {
            let _locked = self.shared.lock_state(host, || store.tidy())?;
            let applied = self.try_apply(&store, host, mode, output);
            has_changed.set(store.has_changed.get());
            applied
        });
        match applied {
            Ok(changes) if changes.is_empty() => Applied::Unchanged,
            Ok(changes) => Applied::Changed(changes),
            Err(ArchiveError::NeedsForce(to)) => Applied::NeedsForce(to),
            Err(error) => {
                output.error(error.to_string());
                if has_changed.get() { Applied::FAILED } else { Applied::FAILED_UNCHANGED }
            }
        }
    }

    fn forget(&self, host: &Host, output: &mut Output<'_>) -> Result<(), ForgetError> {
        let forgotten = self.store(host).and_then(|store| {
            let _locked = self.shared.lock_state(host, || store.tidy())?;
            let report = self.report();
            let removal = Removal { store: &store, id: &self.id, path: self.path(), report: &report };
            removal.forget(host, output)
        });
        Ok(forgotten?)
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        match self.try_check(host, output) {
            Ok(None) => Verdict::Unknown,
            Ok(Some(changes)) if changes.is_empty() => Verdict::InDesiredState,
            Ok(Some(changes)) => Verdict::WouldChange(changes),
            Err(ArchiveError::NeedsForce(to)) => Verdict::NeedsForce(to),
            Err(error) => {
                output.error(error.to_string());
                Verdict::Failed
            }
        }
    }

    fn send(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        let download = match &self.desired {
            Desired::Defined(archive, _) if archive.ensure == Ensure::Present => self.download(host),
            _ => None,
        };
        let Some(DownloadRecord { sha256, validators, .. }) = download else { return };
        for name in names {
            match name.as_slice() {
                b"sha256" => drop(output.send("sha256", &sha256)),
                b"etag" => drop(validators.etag.as_ref().map(|etag| output.send("etag", etag))),
                _ => {}
            }
        }
    }

    /// The definition may contain the checksum.
    fn foresee(&self, _: &Host, names: &[BString], output: &mut Output<'_>) {
        if let Desired::Defined(archive, _) = &self.desired
            && archive.ensure == Ensure::Present
            && names.iter().any(|name| name == "sha256")
            && let Some(checksum) = archive.checksum()
            && let Some(sha256) = checksum.sha256()
        {
            output.send("sha256", sha256);
        }
    }

    fn witnesses(&self, host: &Host) -> Option<Vec<Witness>> {
        let Desired::Defined(archive, timeout) = &self.desired else { return None };
        if archive.ensure == Ensure::Absent {
            return None;
        }
        let (store, report) = (self.store(host).ok()?, self.report());
        self.deployment((host, &store), archive, *timeout, &report).witnesses().ok()?
    }

    fn parts(&self, host: &Host) -> Vec<BString> {
        let Desired::Defined(archive, timeout) = &self.desired else { return Vec::new() };
        let (Ok(store), report) = (self.store(host), self.report()) else { return Vec::new() };
        self.deployment((host, &store), archive, *timeout, &report)
            .extracted()
            .unwrap_or_default()
            .iter()
            .map(|path| path_bytes(path))
            .collect()
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        difference::find(self, host).ok().flatten()
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        self.shown(self.try_preview(host).ok()?, host)
    }
}

impl ArchiveEntity {
    fn try_apply(
        &self,
        store: &Store,
        host: &Host,
        mode: Mode<'_>,
        output: &mut Output<'_>,
    ) -> Result<Vec<String>, ArchiveError> {
        let report = self.report();
        let removal = Removal { store, id: &self.id, path: self.path(), report: &report };
        let changes = match &self.desired {
            Desired::Undefined(_) => {
                store.wait_for_turn(&self.id);
                // An archive that has taken over all files has also removed the record.
                if self.is_forgotten(store)? || self.has_successor(store)? {
                    return Ok(Vec::new());
                }
                host.keep_change(|| self.shown(removal.preview(true).ok()?, host), output);
                removal.scrub(mode.force, output)?
            }
            Desired::Defined(archive, _) if archive.ensure == Ensure::Absent => {
                store.wait_for_turn(&self.id);
                host.keep_change(|| self.shown(removal.preview(false).ok()?, host), output);
                removal.remove(mode.force, output)?
            }
            Desired::Defined(archive, timeout) => {
                let listed = self.deployment((host, store), archive, *timeout, &report).listed(true, output)?;
                let archive = listed.as_ref().unwrap_or(archive);
                let present = self.deployment((host, store), archive, *timeout, &report);
                let applied = present.apply(mode.force, output);
                let changed = present.changed.into_inner();
                host.keep_change(|| self.shown(changed, host), output);
                if applied.is_ok() {
                    store.checksums.save();
                }
                return applied;
            }
        };
        store.checksums.remove()?;
        Ok(changes)
    }

    fn try_preview(&self, host: &Host) -> Result<Listing, ArchiveError> {
        let store = self.store(host)?;
        let report = self.report();
        let removal = Removal { store: &store, id: &self.id, path: self.path(), report: &report };
        match &self.desired {
            Desired::Undefined(_) if self.has_successor(&store)? => Ok(Listing::default()),
            Desired::Undefined(_) => removal.preview(true),
            Desired::Defined(archive, _) if archive.ensure == Ensure::Absent => removal.preview(false),
            Desired::Defined(archive, timeout) => {
                let deployment = self.deployment((host, &store), archive, *timeout, &report);
                let listed = deployment.listed(archive.online, &mut Output::new(&mut Silence))?;
                self.deployment((host, &store), listed.as_ref().unwrap_or(archive), *timeout, &report).preview()
            }
        }
    }

    fn try_check(&self, host: &Host, output: &mut Output<'_>) -> Result<Option<Vec<String>>, ArchiveError> {
        let is_applied = matches!(&self.desired, Desired::Defined(archive, _) if archive.ensure != Ensure::Absent);
        let store = self.store(host)?.foreseeing(!is_applied);
        let report = self.report();
        let removal = Removal { store: &store, id: &self.id, path: self.path(), report: &report };
        match &self.desired {
            Desired::Undefined(_) if self.has_successor(&store)? => Ok(Some(Vec::new())),
            Desired::Undefined(_) => removal.would_scrub(output).map(Some),
            Desired::Defined(archive, _) if archive.ensure == Ensure::Absent => removal.would_remove(output).map(Some),
            Desired::Defined(archive, timeout) => {
                let listed =
                    self.deployment((host, &store), archive, *timeout, &report).listed(archive.online, output)?;
                let listed = listed.as_ref().unwrap_or(archive);
                let changes = self.deployment((host, &store), listed, *timeout, &report).check(output)?;
                // Only the list shows whether there is a new version.
                let is_unknown = archive.checksum_list().is_some_and(|list| list.file().is_none() && !archive.online);
                Ok(changes.filter(|changes| !changes.is_empty() || !is_unknown))
            }
        }
    }
}

fn report(entity: &ArchiveEntity) -> EntityReport {
    let archive = match &entity.desired {
        Desired::Defined(archive, _) => archive,
        Desired::Undefined(remembered) => {
            let mut report = remembered.orphan_report();
            for tree in &remembered.base.trees {
                let tree = Asset::new("path-shared", tree.as_str());
                if !report.edges.owns.contains(&tree) {
                    report.edges.owns.push(tree);
                }
            }
            return report;
        }
    };
    let mut report = EntityReport::new(entity.id.as_str());
    let edges = &mut report.edges;
    let asset = |kind: &str, value: &str| Asset::new(kind, value);
    let provided: Vec<&str> = std::iter::once(archive.path.as_str()).chain(archive.extract_to.as_deref()).collect();
    if let Some(own) = entity.inventory.definition(&entity.id) {
        let tree = own.tree.iter().filter(|_| own.ensure == Ensure::Present).map(|tree| ("path-shared", tree));
        for (kind, path) in std::iter::once(("path", &own.path)).chain(tree) {
            edges.owns.extend(path.to_str().map(|path| asset(kind, path)));
        }
    }
    edges.provides.extend(provided.iter().map(|path| asset("path", path)));
    let file = archive.addresses().first().and_then(Address::file);
    let file = file.as_ref().and_then(|file: &PathBuf| file.to_str());
    // It determines the desired state as much as the definition.
    report.sources.extend(entity.local_source.iter().map(|source| path_bytes(source)));
    let parents = provided.iter().filter_map(|path| parent(path));
    let needed = parents
        .chain(archive.password_file.as_deref())
        .chain(archive.ca_file.as_deref())
        .chain(archive.keyring.as_deref())
        .chain(file);
    for path in needed {
        // The archive does not depend on its own paths.
        let is_own = provided.iter().any(|own| Path::new(path).starts_with(own));
        let need = asset("path", path);
        if !is_own && !edges.needs.contains(&need) {
            edges.needs.push(need);
        }
    }
    for (kind, name) in [("user", &archive.owner), ("group", &archive.group)] {
        if let Some(name) = name.as_ref().filter(|name| name.parse::<u32>().is_err()) {
            edges.needs.push(asset(kind, name));
        }
    }
    if archive.ensure == Ensure::Absent {
        report.action = Action { verb: "Removing".into(), reason: None };
    } else if let Some(address) = archive.addresses().first() {
        report.inform("download", address.to_string());
    }
    if let Some(directory) = &archive.extract_to {
        report.inform("into", directory.as_str());
    }
    report
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
