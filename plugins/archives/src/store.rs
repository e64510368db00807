//! The files in which the records of archives are.

use crate::checksum::sha256;
use crate::checksum_cache::ChecksumCache;
use crate::error::ArchiveError;
use crate::inventory::{Inventory, PREFIX};
use crate::record::ArchiveRecord;
use crate::shared::{Shared, are_nested};
use holo_change::Tree;
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::claims::{self, Claim};
use holo_change::error::PathError;
use holo_change::manifest::Manifest;
use holo_change::manifest::ManifestEntry;
use holo_change::tree_store::{PathOwners, TreeOwner, TreeStore};
use holo_plugin::{Host, Output, Sink, Stream};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

pub(crate) struct Store {
    /// The directories that archives were extracted to, and the bases of what is in them and of downloads.
    pub(crate) trees: TreeStore,
    pub(crate) memory: BaseStore,
    pub(crate) checksums: Rc<ChecksumCache>,
    pub(crate) inventory: Arc<Inventory>,
    pub(crate) shared: Arc<Shared>,
    /// True if anything outside of the state directory has been changed.
    pub(crate) has_changed: Rc<Cell<bool>>,
    host: Host,
}

/// The folder of the caches of digests.
const CHECKSUMS: &str = "known";

impl Store {
    /// Opens the store for an archive.
    pub(crate) fn open(
        host: &Host,
        id: &str,
        inventory: &Arc<Inventory>,
        shared: &Arc<Shared>,
    ) -> Result<Store, PathError> {
        let name: String = sha256(format!("{id}\0").as_bytes()).chars().take(32).collect();
        let cache = Tree::open(host.state_dir())?.place(&Path::new(CHECKSUMS).join(name));
        let checksums = Rc::new(ChecksumCache::open(cache, !host.verifies()));
        let digests = Rc::clone(&checksums);
        Ok(Store {
            trees: TreeStore::open(host.locations(), digests, &shared.directories)?,
            memory: BaseStore::open(host.locations())?,
            checksums,
            inventory: Arc::clone(inventory),
            shared: Arc::clone(shared),
            has_changed: Rc::default(),
            host: host.clone(),
        })
    }

    /// Waits until no archive before this one works on the same paths. What those have removed and made again is opened anew.
    pub(crate) fn wait_for_turn(&self, id: &str) {
        self.shared.queue.wait(id);
        self.trees.forget_directories();
        self.memory.forget_directories();
    }

    /// Removes what killed processes have not completed.
    pub(crate) fn tidy(&self) -> Result<(), PathError> {
        self.memory.tidy()?;
        self.trees.tidy()
    }

    /// Returns the paths in an area that all archives but one have brought.
    pub(crate) fn owners_below(&self, id: &str, area: &Path) -> Result<PathOwners, ArchiveError> {
        Ok(PathOwners::read(&self.trees, id, &self.other_owners(id)?, area)?)
    }

    /// Returns the paths in the directory of an archive, except those that it was itself extracted to this directory. If it was extracted to
    /// another directory before, which contains this one or is in it, those paths count as an orphan's.
    pub(crate) fn read_owners_in_tree(&self, id: &str, tree: &Path) -> Result<PathOwners, ArchiveError> {
        let mut owners = self.other_owners(id)?;
        if let Some(own) = self.memory.recall::<ArchiveRecord>(id)? {
            let mut own = own.base.to_owner(id, true);
            own.file = None;
            own.trees.retain(|other| other != tree);
            owners.push(own);
        }
        Ok(PathOwners::read(&self.trees, id, &owners, tree)?)
    }

    pub(crate) fn owners_in_tree(&self, id: &str, tree: &Path) -> Result<Rc<PathOwners>, ArchiveError> {
        self.read_owners_in_tree(id, tree).map(Rc::new)
    }

    fn other_owners(&self, id: &str) -> Result<Vec<TreeOwner>, ArchiveError> {
        let others = self.others(id)?;
        Ok(others.iter().map(|other| other.base.to_owner(&other.id, self.inventory.is_orphan(&other.id))).collect())
    }

    /// Returns the records of other archives.
    ///
    /// # Errors
    /// If one cannot be read: it may be about the same paths.
    pub(crate) fn others(&self, id: &str) -> Result<Vec<Remembered<ArchiveRecord>>, ArchiveError> {
        let mut problems = Problems::default();
        let all = self.memory.all::<ArchiveRecord>(&mut Output::new(&mut problems))?;
        match problems.0.first() {
            Some(problem) => Err(ArchiveError::UnreadableRecord(problem.clone())),
            None => Ok(all.into_values().filter(|other| other.id != id).collect()),
        }
    }

    /// Returns the claims of other plugins on single paths, and on directories that others may put something into.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        let mut claims = claims::all(self.host.locations());
        claims.retain(|claim| !claim.id.starts_with(PREFIX) && !claim.is_tree);
        claims
    }

    /// Removes directories that archives have made, are empty, and that no archive needs. The record is that of the archive with this ID; none
    /// if it is about to be forgotten. If `is_going_on`, the archive needs the directories on the way to its paths.
    pub(crate) fn remove_directories(
        &self,
        id: &str,
        record: Option<&ArchiveRecord>,
        is_going_on: bool,
    ) -> Result<(), ArchiveError> {
        let _locked = self.trees.lock_directories();
        let mut own = self.trees.own_directories()?;
        if own.iter().next().is_none() {
            return Ok(());
        }
        let others = self.others(id)?;
        let all = || others.iter().map(|other| (&*other.id, &other.base)).chain(record.map(|record| (id, record)));
        let roots: Vec<(&str, &str)> =
            all().flat_map(|(id, record)| record.trees.iter().map(move |tree| (id, tree.as_str()))).collect();
        let used = all().filter(|(_, record)| !record.is_empty());
        let paths: Vec<(&str, &str)> =
            used.filter_map(|(id, record)| Some((id, record.path.as_deref()?))).chain(roots.iter().copied()).collect();
        let is_needed = |of: &str| is_going_on || of != id;
        let is_on_the_way =
            |directory: &Path| paths.iter().any(|(of, path)| is_needed(of) && Path::new(path).starts_with(directory));
        let mut unneeded: BTreeSet<PathBuf> = own.iter().filter(|directory| !is_on_the_way(directory)).collect();
        for (id, tree) in roots {
            if unneeded.iter().any(|directory| directory.starts_with(tree)) {
                let manifest = Manifest::load(&self.trees.manifest(id, Path::new(tree)))?.unwrap_or_default();
                for (path, _) in
                    manifest.entries.iter().filter(|(_, states)| states.iter().any(ManifestEntry::is_directory))
                {
                    unneeded.remove(&Path::new(tree).join(path));
                }
            }
        }
        own.remove_empty(|path| self.trees.root().place(path), Some(&unneeded))?;
        // A directory that users have put something into is theirs once no archive has a path near it.
        own.keep_only(|directory| paths.iter().any(|(_, path)| are_nested(Path::new(path), directory)))?;
        Ok(own.tidy()?)
    }
}

/// Collects error messages.
#[derive(Default)]
struct Problems(Vec<String>);

impl Sink for Problems {
    fn write(&mut self, _: Stream, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        self.0.push(text.trim_start_matches("!! ").trim_end().to_owned());
    }
}
