//! The files in which the records of archives are.

use crate::checksum::sha256;
use crate::checksum_cache::ChecksumCache;
use crate::entry::ManifestEntry;
use crate::error::ArchiveError;
use crate::inventory::{Inventory, PREFIX};
use crate::manifest::Manifest;
use crate::record::ArchiveRecord;
use crate::shared::{Shared, are_nested};
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::bases::Bases;
use holo_change::claims::{self, Claim};
use holo_change::error::PathError;
use holo_change::tracked::{Overlays, OwnDirectories};
use holo_change::{Durability, Kind, PathHandle, Tree};
use holo_plugin::{Host, Output, Sink, Stream};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) struct Store {
    pub(crate) root: Arc<Tree>,
    pub(crate) memory: BaseStore,
    /// The bases of downloads and extracted files. A path has one, whichever archives have brought something there.
    pub(crate) bases: Bases,
    pub(crate) checksums: ChecksumCache,
    pub(crate) inventory: Arc<Inventory>,
    pub(crate) shared: Arc<Shared>,
    /// The overlays over files that archives bring.
    pub(crate) overlays: Overlays,
    /// True if anything outside of the state directory has been changed.
    pub(crate) has_changed: Cell<bool>,
    state: Arc<Tree>,
    host: Host,
}

const BASES: &str = "kept";
const MANIFESTS: &str = "trees";
const CHECKSUMS: &str = "known";
const DIRECTORIES: &str = "directories";

impl Store {
    /// Opens the store for an archive.
    pub(crate) fn open(
        host: &Host,
        id: &str,
        inventory: &Arc<Inventory>,
        shared: &Arc<Shared>,
    ) -> Result<Store, PathError> {
        let state = Tree::open(host.state_dir())?;
        let checksums = ChecksumCache::open(state.place(&Path::new(CHECKSUMS).join(name(id, ""))), !host.verifies());
        let (inventory, shared) = (Arc::clone(inventory), Arc::clone(shared));
        let (root, memory) = (Tree::open(host.root())?, BaseStore::open(host.locations())?);
        let (overlays, has_changed) = (Overlays::of(host.locations()), Cell::new(false));
        let bases = Bases::new(&state, BASES);
        Ok(Store {
            root,
            memory,
            bases,
            checksums,
            inventory,
            shared,
            overlays,
            has_changed,
            state,
            host: host.clone(),
        })
    }

    /// Returns the location of the manifest of what an archive has extracted to a directory.
    pub(crate) fn manifest(&self, id: &str, directory: &Path) -> PathHandle {
        self.state.place(&Path::new(MANIFESTS).join(name(id, &directory.to_string_lossy()) + ".mtree"))
    }

    /// Waits until no archive before this one works on the same paths. What those have removed and made again is opened anew.
    pub(crate) fn wait_for_turn(&self, id: &str) {
        self.shared.queue.wait(id);
        self.root.forget();
        self.state.forget();
        self.memory.forget_directories();
    }

    /// Removes a file of the state directory, with the folders that are empty then.
    pub(crate) fn remove(path: &PathHandle) -> Result<(), PathError> {
        if path.stat()?.is_some() {
            path.remove_all()?;
            Durability::Each.sync([], [path])?;
        }
        path.remove_empty_folders(Path::new(""));
        Ok(())
    }

    /// Removes what killed processes have not completed.
    pub(crate) fn tidy(&self) -> Result<(), PathError> {
        self.memory.tidy()?;
        self.bases.tidy()?;
        self.own_directories()?.tidy()?;
        self.state.place(&Path::new(MANIFESTS).join("x")).remove_replacements()
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

    /// Returns the directories that archives have made.
    pub(crate) fn own_directories(&self) -> Result<OwnDirectories, PathError> {
        OwnDirectories::read(self.state.place(Path::new(DIRECTORIES)))
    }

    /// Records those directories that do not exist, and are going to be made.
    pub(crate) fn claim_directories(&self, directories: impl IntoIterator<Item = PathBuf>) -> Result<(), PathError> {
        let mut missing = Vec::new();
        for directory in directories {
            let is_there =
                || self.root.place(&directory).stat().map(|stat| stat.is_some_and(|l| l.kind == Kind::Directory));
            if directory != Path::new("/") && !is_there()? {
                missing.push(directory);
            }
        }
        if missing.is_empty() { Ok(()) } else { self.own_directories()?.add(missing) }
    }

    /// Removes directories that archives have made, are empty, and that no archive needs. The record is that of the archive with this ID; none
    /// if it is about to be forgotten. If `is_going_on`, the archive needs the directories on the way to its paths.
    pub(crate) fn remove_directories(
        &self,
        id: &str,
        record: Option<&ArchiveRecord>,
        is_going_on: bool,
    ) -> Result<(), ArchiveError> {
        let _locked = self.shared.lock_directories();
        let mut own = self.own_directories()?;
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
                let manifest = Manifest::load(&self.manifest(id, Path::new(tree)))?.unwrap_or_default();
                for (path, _) in
                    manifest.entries.iter().filter(|(_, states)| states.iter().any(ManifestEntry::is_directory))
                {
                    unneeded.remove(&Path::new(tree).join(path));
                }
            }
        }
        own.remove_empty(|path| self.root.place(path), Some(&unneeded))?;
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

fn name(id: &str, directory: &str) -> String {
    sha256(format!("{id}\0{directory}").as_bytes()).chars().take(32).collect()
}
