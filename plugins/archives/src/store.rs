//! The records of archives, the stores that contain them, and the inventory of all defined archives.

use crate::definition::Ensure;
use crate::error::ArchiveError;
use crate::shared::{Shared, SharedBySet};
use holo_change::Tree;
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::claims::{self, Claims};
use holo_change::error::PathError;
use holo_change::tree_store::{Drift, OwnedTree, PathOwners, TreeOwner, TreeStore};
use holo_download::{ChecksumCache, Validators, sha256};
use holo_plugin::definitions::Globs;
use holo_plugin::{Host, Output, Shown, Sink, Stream};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) struct Store {
    /// The target directories of archives, and the bases of extracted files and of downloads.
    pub(crate) trees: TreeStore,
    pub(crate) memory: BaseStore,
    pub(crate) checksums: Rc<ChecksumCache>,
    pub(crate) inventory: Arc<Inventory>,
    pub(crate) shared: Arc<Shared>,
    by_set: Arc<SharedBySet>,
    /// True if any file outside of the state directory was changed.
    pub(crate) has_changed: Rc<Cell<bool>>,
    host: Host,
}

/// The prefix of the plugin's IDs.
pub(crate) const PREFIX: &str = "archive:";

/// The directory of the digest caches.
const CHECKSUMS: &str = "known";

impl Store {
    /// Keeps files that a user has changed, before they are overwritten by force.
    pub(crate) fn keep_edited(
        &self,
        id: &str,
        paths: impl IntoIterator<Item = PathBuf>,
        output: &mut Output<'_>,
    ) -> Result<(), ArchiveError> {
        for path in paths {
            let place = self.trees.root().place(&path);
            self.host.keep_replaced(&path, || Shown::found(&place), output);
            self.host.save_edited(id, (&path, &place), false, output)?;
        }
        Ok(())
    }

    /// Opens the stores for an archive.
    pub(crate) fn open(
        host: &Host,
        id: &str,
        inventory: &Arc<Inventory>,
        shared: &Arc<Shared>,
    ) -> Result<Store, PathError> {
        let cache = checksums_location(id);
        let state = Tree::open(host.state_dir())?;
        let checksums = Rc::new(ChecksumCache::open(state.place(&cache), !host.verifies()));
        let (digests, by_set) = (Rc::clone(&checksums), shared.by_set());
        Ok(Store {
            trees: TreeStore::open(host.locations(), digests, &shared.directories, &by_set.trees)?,
            memory: BaseStore::open(host.locations()),
            checksums,
            inventory: Arc::clone(inventory),
            shared: Arc::clone(shared),
            by_set,
            has_changed: Rc::default(),
            host: host.clone(),
        })
    }

    /// Makes a store for a check, which knows the overlays that the same run adds and removes before.
    pub(crate) fn foreseeing(self, is_scrubbed: bool) -> Store {
        Store { trees: self.trees.foreseeing(is_scrubbed), ..self }
    }

    /// Waits until no preceding archive uses the same paths. Cached directories, which those may have removed and
    /// created again, are dropped.
    pub(crate) fn wait_for_turn(&self, id: &str) {
        self.shared.queue.wait(id);
        self.trees.forget_directories();
    }

    /// Removes incomplete files of killed processes.
    pub(crate) fn tidy(&self) -> Result<(), PathError> {
        self.trees.tidy()
    }

    /// Removes the record of an archive without files.
    pub(crate) fn forget(&self, id: &str) -> Result<(), PathError> {
        holo_download::remove_cache(&self.trees.state(&checksums_location(id)))?;
        self.memory.forget(id)?;
        self.trees.forget_paths(id)
    }

    /// Writes the record of an archive.
    pub(crate) fn keep(&self, remembered: &Remembered<ArchiveRecord>) -> Result<(), PathError> {
        self.memory.keep(remembered)?;
        self.trees.note_paths(&remembered.id, remembered.base.paths())
    }

    /// Returns the paths in an area that belong to other archives.
    pub(crate) fn owners_below(&self, id: &str, area: &Path) -> Result<PathOwners, ArchiveError> {
        Ok(PathOwners::read(&self.trees, id, &self.other_owners(id, area)?, area)?)
    }

    /// Returns the paths in the directory of an archive, except those that the archive itself has extracted to this
    /// directory. If it was extracted before to another directory, which contains this one or is below it, those paths
    /// count as an orphan's.
    pub(crate) fn read_owners_in_tree(&self, id: &str, tree: &Path) -> Result<PathOwners, ArchiveError> {
        let mut owners = self.other_owners(id, tree)?;
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

    fn other_owners(&self, id: &str, area: &Path) -> Result<Vec<TreeOwner>, ArchiveError> {
        self.require_readable_records()?;
        let mut near = self.trees.users_near(area)?;
        near.remove(id);
        let mut owners = Vec::new();
        for other in near {
            let record = self.memory.recall::<ArchiveRecord>(&other)?;
            owners.extend(record.map(|record| record.base.to_owner(&other, self.inventory.is_orphan(&other))));
        }
        Ok(owners)
    }

    /// Fails if a record cannot be read, because it may be for the same paths.
    fn require_readable_records(&self) -> Result<(), ArchiveError> {
        let known = &self.by_set.unreadable;
        if known.get().is_none() {
            let mut problems = Problems::default();
            self.memory.all::<ArchiveRecord>(&mut Output::new(&mut problems))?;
            let _ = known.set(problems.0.into_iter().next());
        }
        match known.get().cloned().flatten() {
            Some(problem) => Err(ArchiveError::UnreadableRecord(problem)),
            None => Ok(()),
        }
    }

    /// Returns the claims of entities of other plugins.
    pub(crate) fn claims(&self) -> &Arc<Claims> {
        self.by_set.claims.get_or_init(|| {
            let all = claims::all(self.host.locations()).into_iter();
            Arc::new(all.filter(|claim| !claim.id.starts_with(PREFIX)).collect())
        })
    }

    /// Removes empty directories that were created by archives, and that no archive needs. `record` is that of the
    /// archive with this ID; `None` if it is about to be removed. If `is_going_on` is set, the archive needs the
    /// parents of its paths.
    pub(crate) fn remove_directories(
        &self,
        id: &str,
        record: Option<&ArchiveRecord>,
        is_going_on: bool,
    ) -> Result<(), ArchiveError> {
        let _locked = self.trees.lock_directories();
        let mut made = self.trees.made_directories()?;
        if made.iter().next().is_none() {
            return Ok(());
        }
        self.require_readable_records()?;
        // The target directory, and the directory of the download.
        let needs = |record: &ArchiveRecord, directory: &Path| {
            let folder = record.path.as_deref().and_then(|path| Path::new(path).parent());
            let mut needed = record.trees.iter().map(Path::new).chain(folder);
            !record.is_empty() && needed.any(|path| path.starts_with(directory))
        };
        let is_needed = |directory: &Path| {
            let needs_it = |other: &str| {
                let other = if other == id { None } else { self.memory.recall::<ArchiveRecord>(other)? };
                Ok(other.is_some_and(|other| needs(&other.base, directory)))
            };
            let own = record.filter(|_| is_going_on);
            Ok(own.is_some_and(|own| needs(own, directory)) || self.trees.is_used_below(directory, needs_it)?)
        };
        // The first archive of a set also removes what earlier runs have left.
        let candidates: BTreeSet<PathBuf> = if self.by_set.has_swept.swap(true, Ordering::Relaxed) {
            self.trees.paths_of(id)?.iter().flat_map(|path| made.near(path)).collect()
        } else {
            made.iter().collect()
        };
        let mut unneeded = BTreeSet::new();
        for directory in candidates {
            let is_needed: Result<bool, PathError> = is_needed(&directory);
            if !is_needed? {
                unneeded.insert(directory);
            }
        }
        Ok(made.remove_empty(|path| self.trees.root().place(path), Some(&unneeded))?)
    }
}

/// Returns the path of an archive's digest cache in the state directory.
fn checksums_location(id: &str) -> PathBuf {
    let name: String = sha256(format!("{id}\0").as_bytes()).chars().take(32).collect();
    Path::new(CHECKSUMS).join(name)
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

/// The record of an archive, which is on disk before the first change. Bases are stored separately.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArchiveRecord {
    /// The current or last download at the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) download: Option<DownloadRecord>,
    /// The download that is about to be moved to the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) incoming: Option<DownloadRecord>,
    /// The canonical path of the download.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    /// The canonical paths of the directories to which it was extracted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) trees: Vec<String>,
    /// The patterns for files that a user may change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) keep: Vec<String>,
    /// True if there may be directories that are no longer needed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) untidy: bool,
}

/// The record of a download.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DownloadRecord {
    pub(crate) sha256: String,
    /// The checksum in the definition that it has matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) checksum: Option<String>,
    /// The SHA-256 of the key that has verified its signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signed_by: Option<String>,
    /// The SHA-256 of the URL, which may contain secrets.
    pub(crate) source: String,
    #[serde(default, skip_serializing_if = "Validators::is_empty")]
    pub(crate) validators: Validators,
}

impl ArchiveRecord {
    /// Returns true if a file with this SHA-256 is one of the downloads.
    pub(crate) fn knows(&self, sha256: &str) -> bool {
        self.downloads().any(|download| download.sha256 == sha256)
    }

    /// Returns the possible downloads at the path, latest first.
    pub(crate) fn downloads(&self) -> impl Iterator<Item = &DownloadRecord> {
        self.incoming.iter().chain(&self.download)
    }

    /// Opens a directory to which it was extracted. Changed files that match `keep` belong to the user.
    pub(crate) fn open_tree(&self, store: &TreeStore, id: &str, directory: &Path) -> Result<OwnedTree, PathError> {
        let mut extracted = OwnedTree::open(store, id, directory)?;
        if !self.keep.is_empty() {
            let mut drift = extracted.drift()?;
            self.leave_kept(&mut extracted, &mut drift);
        }
        Ok(extracted)
    }

    /// Removes changed files that match `keep` from the manifest.
    pub(crate) fn leave_kept(&self, extracted: &mut OwnedTree, drift: &mut Drift) {
        // The patterns were validated with the definition.
        let keep = Globs::new(&self.keep).unwrap_or_default();
        extracted.leave_changed(drift, |path| keep.cover(path));
    }

    pub(crate) fn has_download(&self) -> bool {
        self.downloads().next().is_some()
    }

    /// Returns the canonical paths that the archive has used.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.path.iter().chain(&self.trees).map(PathBuf::from)
    }

    /// Returns the paths that belong to the archive with this ID.
    pub(crate) fn to_owner(&self, id: &str, is_orphan: bool) -> TreeOwner {
        TreeOwner {
            id: id.to_owned(),
            trees: self.trees.iter().map(PathBuf::from).collect(),
            file: self.path.as_ref().filter(|_| self.has_download()).map(PathBuf::from),
            is_orphan,
        }
    }

    /// Returns true if there are no changes to undo.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_download() && self.trees.is_empty() && !self.untidy
    }
}

#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// Archives that are no longer defined.
    pub(crate) orphans: BTreeMap<String, Remembered<ArchiveRecord>>,
    /// Archives that are defined, and not skipped by a condition, by ID.
    pub(crate) defined: Vec<DefinedArchive>,
}

/// The canonical paths of a defined archive.
#[derive(Debug)]
pub(crate) struct DefinedArchive {
    pub(crate) id: String,
    /// The path of the download.
    pub(crate) path: PathBuf,
    /// The target directory.
    pub(crate) tree: Option<PathBuf>,
    pub(crate) ensure: Ensure,
}

impl Inventory {
    /// Returns the orphans with the same download path or target directory.
    pub(crate) fn predecessors(&self, path: &Path, tree: Option<&Path>) -> Vec<&Remembered<ArchiveRecord>> {
        let has = |record: &ArchiveRecord| {
            record.path.as_deref().is_some_and(|own| Path::new(own) == path)
                || tree.is_some_and(|tree| record.trees.iter().any(|own| Path::new(own) == tree))
        };
        self.orphans.values().filter(|orphan| has(&orphan.base)).collect()
    }

    pub(crate) fn definition(&self, id: &str) -> Option<&DefinedArchive> {
        let index = self.defined.binary_search_by(|defined| defined.id.as_str().cmp(id)).ok()?;
        self.defined.get(index)
    }

    pub(crate) fn is_orphan(&self, id: &str) -> bool {
        self.orphans.contains_key(id)
    }
}

/// Returns the canonical form of a path, or the path itself if it cannot be determined. In this case, the apply reports
/// the error.
pub(crate) fn canonical(root: &Arc<Tree>, path: &str, last: bool) -> PathBuf {
    root.canonical(Path::new(path), last).unwrap_or_else(|_| PathBuf::from(path))
}
