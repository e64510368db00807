//! Applying, checking and displaying an archive.

use super::{ArchiveEntity, Desired, difference};
use crate::definition::{Ensure, parent};
use crate::error::ArchiveError;
use crate::listing::Listing;
use crate::record::DownloadRecord;
use crate::removal::Removal;
use crate::store::Store;
use bstr::BString;
use holo_download::Address;
use holo_plugin::{Action, Applied, Asset, Entity, EntityReport, FilePair, Host, Mode, Output, Silence, Verdict};
use std::cell::Cell;
use std::path::{Path, PathBuf};

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
        let store = self.store(host)?;
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

pub(super) fn report(entity: &ArchiveEntity) -> EntityReport {
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
    if let Some(own) = entity.inventory.defined.iter().find(|own| own.id == entity.id) {
        let tree = own.tree.iter().filter(|_| own.ensure == Ensure::Present).map(|tree| ("path-shared", tree));
        for (kind, path) in std::iter::once(("path", &own.path)).chain(tree) {
            edges.owns.extend(path.to_str().map(|path| asset(kind, path)));
        }
    }
    edges.provides.extend(provided.iter().map(|path| asset("path", path)));
    let file = archive.addresses().first().and_then(Address::file);
    let file = file.as_ref().and_then(|file: &PathBuf| file.to_str());
    // It determines the desired state as much as the definition.
    report.sources.extend(entity.local_source.iter().map(|source| holo_change::path_bytes(source)));
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
