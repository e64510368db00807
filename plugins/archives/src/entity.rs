//! An archive: its path, what its definition says, and what is remembered of it.

use crate::absent;
use crate::definition::{Archive, Ensure, parent};
use crate::error::ArchiveError;
use crate::present::Present;
use crate::record::Record;
use crate::scene::{Areas, PREFIX, Scene, Shared, canonical};
use crate::store::Store;
use holo_change::Tree;
use holo_change::base_store::Remembered;
use holo_plugin::{Applied, Entity, EntityReport, FilePair, Host, Mode, Output, Verdict};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A download, and what was extracted from it.
#[derive(Debug)]
pub(crate) struct ArchiveEntity {
    pub(crate) id: String,
    pub(crate) defined: Defined,
    pub(crate) scene: Arc<Scene>,
    pub(crate) shared: Arc<Shared>,
}

/// What it shall be.
#[derive(Debug)]
pub(crate) enum Defined {
    /// As the definition says; how long an attempt may take.
    As(Box<Archive>, Option<Duration>),
    /// As it was before us: nothing defines it any more.
    Nowhere(Box<Remembered<Record>>),
}

impl ArchiveEntity {
    fn store(&self, host: &Host) -> Result<Store, ArchiveError> {
        Ok(Store::open(host, &self.id, &self.scene, &self.shared)?)
    }

    fn is_done_with(&self, store: &Store) -> Result<bool, ArchiveError> {
        Ok(store.memory.recall::<Record>(&self.id)?.is_none())
    }

    /// Whether another archive takes over from this one, when it is applied: then nothing is done here until it has.
    fn has_heir(&self, store: &Store) -> Result<bool, ArchiveError> {
        let Some(Remembered::<Record> { base: record, .. }) = store.memory.recall(&self.id)? else { return Ok(false) };
        for heir in self.scene.defined.iter().filter(|heir| heir.ensure == Ensure::Present) {
            let has_path = record.path.as_deref().is_some_and(|path| Path::new(path) == heir.path);
            if has_path && record.fetched().next().is_some() {
                return Ok(true);
            }
            let Some(tree) = heir.tree.as_ref().filter(|tree| record.trees.iter().any(|own| Path::new(own) == *tree))
            else {
                continue;
            };
            if store.manifest(&self.id, tree).exists()? && !store.manifest(&heir.id, tree).exists()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The canonical paths that it works on.
    pub(crate) fn areas(&self, host: &Host) -> Areas {
        let (own, tree) = match &self.defined {
            Defined::As(archive, _) => (archive.path.as_str(), archive.extract_to.as_deref()),
            Defined::Nowhere(_) => (self.path(), None),
        };
        let remembered = self.store(host).ok().and_then(|store| store.memory.recall::<Record>(&self.id).ok().flatten());
        let trees = remembered.into_iter().flat_map(|remembered| remembered.base.trees).map(PathBuf::from);
        match Tree::open(host.root()) {
            Ok(root) => {
                let tree = tree.map(|tree| canonical(&root, tree, true));
                std::iter::once(canonical(&root, own, false)).chain(tree).chain(trees).collect()
            }
            // It will be said why it cannot be opened.
            Err(_) => trees.collect(),
        }
    }

    fn path(&self) -> &str {
        self.id.strip_prefix(PREFIX).unwrap_or_default()
    }

    fn try_apply(
        &self,
        store: &Store,
        host: &Host,
        mode: Mode<'_>,
        output: &mut Output<'_>,
    ) -> Result<Vec<String>, ArchiveError> {
        let report = self.report();
        let removal = absent::Removal { store, id: &self.id, path: self.path(), report: &report };
        let changes = match &self.defined {
            Defined::Nowhere(_) => {
                self.shared.turns.wait(&self.id);
                // Whoever took everything over has also made it forgotten.
                if self.is_done_with(store)? || self.has_heir(store)? {
                    return Ok(Vec::new());
                }
                removal.scrub(mode.force, output)?
            }
            Defined::As(archive, _) if archive.ensure == Ensure::Absent => {
                self.shared.turns.wait(&self.id);
                removal.remove(mode.force, output)?
            }
            Defined::As(archive, timeout) => {
                let present = Present { host, store, id: &self.id, archive, timeout: *timeout, report: &report };
                let changes = present.apply(mode.force, output)?;
                store.known.keep();
                return Ok(changes);
            }
        };
        store.known.forget()?;
        Ok(changes)
    }

    fn try_check(&self, host: &Host, output: &mut Output<'_>) -> Result<Option<Vec<String>>, ArchiveError> {
        let store = self.store(host)?;
        let report = self.report();
        let removal = absent::Removal { store: &store, id: &self.id, path: self.path(), report: &report };
        match &self.defined {
            Defined::Nowhere(_) if self.has_heir(&store)? => Ok(Some(Vec::new())),
            Defined::Nowhere(_) => removal.would_scrub(output).map(Some),
            Defined::As(archive, _) if archive.ensure == Ensure::Absent => removal.would_remove(output).map(Some),
            Defined::As(archive, timeout) => {
                Present { host, store: &store, id: &self.id, archive, timeout: *timeout, report: &report }.check(output)
            }
        }
    }
}

impl Entity for ArchiveEntity {
    fn report(&self) -> EntityReport {
        let archive = match &self.defined {
            Defined::As(archive, _) => archive,
            Defined::Nowhere(remembered) => return remembered.orphan_report(),
        };
        let mut report = EntityReport::new(self.id.as_str());
        let edges = &mut report.edges;
        let asset = |kind: &str, value: &str| holo_plugin::Asset::new(kind, value);
        let provided: Vec<&str> = std::iter::once(archive.path.as_str()).chain(archive.extract_to.as_deref()).collect();
        if let Some(own) = self.scene.defined.iter().find(|own| own.id == self.id).and_then(|own| own.path.to_str()) {
            edges.owns.push(asset("path", own));
        }
        edges.provides.extend(provided.iter().map(|path| asset("path", path)));
        let file = archive.addresses().first().and_then(crate::address::Address::file);
        let file = file.as_ref().and_then(|file: &PathBuf| file.to_str());
        let parents = provided.iter().filter_map(|path| parent(path));
        let needed = parents.chain(archive.password_file.as_deref()).chain(file);
        for path in needed {
            // What it makes itself it does not wait for.
            let is_own = provided.iter().any(|own| crate::address::is_below(path, own));
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
            report.action = holo_plugin::Action { verb: "Removing".into(), reason: None };
        } else if let Some(address) = archive.addresses().first() {
            report.inform("download", address.to_string());
        }
        if let Some(directory) = &archive.extract_to {
            report.inform("into", directory.as_str());
        }
        report
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        let store = self.shared.hold(host).map_err(ArchiveError::from).and_then(|()| self.store(host));
        let has_changed = || store.as_ref().is_ok_and(|store| store.has_changed.get());
        let applied = match &store {
            Ok(store) => self.try_apply(store, host, mode, output),
            Err(ArchiveError::Failed(problem)) => Err(ArchiveError::Failed(problem.clone())),
            Err(ArchiveError::NeedsForce(to)) => Err(ArchiveError::NeedsForce(to.clone())),
        };
        match applied {
            Ok(changes) if changes.is_empty() => Applied::Unchanged,
            Ok(changes) => Applied::Changed(changes),
            Err(ArchiveError::NeedsForce(to)) => Applied::NeedsForce(to),
            Err(ArchiveError::Failed(problem)) => {
                output.error(problem);
                if has_changed() { Applied::FAILED } else { Applied::FAILED_UNCHANGED }
            }
        }
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        match self.try_check(host, output) {
            Ok(None) => Verdict::Unknown,
            Ok(Some(changes)) if changes.is_empty() => Verdict::InDesiredState,
            Ok(Some(changes)) => Verdict::WouldChange(changes),
            Err(ArchiveError::NeedsForce(to)) => Verdict::NeedsForce(to),
            Err(ArchiveError::Failed(problem)) => {
                output.error(problem);
                Verdict::Failed
            }
        }
    }

    fn diff(&self, _: &Host) -> Option<FilePair> {
        None
    }
}

/// An archive as one of a set: the next that works on the same paths may begin when this one has ended, all its attempts included.
pub(crate) struct InTurn<'a, E> {
    pub(crate) id: &'a str,
    pub(crate) entity: &'a E,
    pub(crate) shared: &'a Shared,
}

impl<E: Entity> Entity for InTurn<'_, E> {
    fn report(&self) -> EntityReport {
        self.entity.report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        /// Even a panic lets the next one begin.
        struct End<'a>(&'a Shared, &'a str);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.turns.end(self.1);
            }
        }
        let _end = End(self.shared, self.id);
        self.entity.apply(host, mode, output)
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        self.entity.diff(host)
    }
}
