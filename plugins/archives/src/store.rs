//! Where what is remembered of archives is.

use crate::checksum::sha256;
use crate::error::ArchiveError;
use crate::known::Known;
use crate::made::Made;
use crate::manifest::Manifest;
use crate::record::Record;
use crate::scene::{PREFIX, Scene, Shared, are_nested};
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::claims::{self, Claim};
use holo_change::error::PathError;
use holo_change::tracked::{Overlays, OwnDirectories};
use holo_change::{Durability, Kind, PathHandle, Tree};
use holo_plugin::{Host, Output, Sink, Stream};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where everything is.
pub(crate) struct Store {
    pub(crate) root: Arc<Tree>,
    pub(crate) memory: BaseStore,
    pub(crate) known: Known,
    pub(crate) scene: Arc<Scene>,
    pub(crate) shared: Arc<Shared>,
    /// The files that are laid over what archives bring.
    pub(crate) overlays: Overlays,
    /// Whether anything has been changed that is not our own.
    pub(crate) has_changed: Cell<bool>,
    state: Arc<Tree>,
    host: Host,
}

const KEPT: &str = "kept";
const TREES: &str = "trees";
const KNOWN: &str = "known";
const DIRECTORIES: &str = "directories";

impl Store {
    /// That of an entity.
    pub(crate) fn open(host: &Host, id: &str, scene: &Arc<Scene>, shared: &Arc<Shared>) -> Result<Store, PathError> {
        let state = Tree::open(host.state_dir())?;
        let known = Known::at(state.place(&Path::new(KNOWN).join(name(id, ""))), !host.verifies());
        let (scene, shared) = (Arc::clone(scene), Arc::clone(shared));
        let (root, memory) = (Tree::open(host.root())?, BaseStore::open(host.locations())?);
        let (overlays, has_changed) = (Overlays::of(host.locations()), Cell::new(false));
        Ok(Store { root, memory, known, scene, shared, overlays, has_changed, state, host: host.clone() })
    }

    /// Where the list of what an archive has extracted to a directory is.
    pub(crate) fn manifest(&self, id: &str, directory: &Path) -> PathHandle {
        self.state.place(&Path::new(TREES).join(name(id, &directory.to_string_lossy()) + ".mtree"))
    }

    /// Where the file is kept that was at a canonical path before us. A path has one, whichever archives have brought something there.
    pub(crate) fn kept(&self, path: &Path) -> PathHandle {
        let digits: String = sha256(path.as_os_str().as_bytes()).chars().take(32).collect();
        self.state.place(&Path::new(KEPT).join(digits))
    }

    /// Whether anything is kept at all.
    pub(crate) fn has_kept(&self) -> Result<bool, PathError> {
        self.state.place(Path::new(KEPT)).exists()
    }

    /// Removes what is kept of a path.
    pub(crate) fn let_go(&self, path: &Path) -> Result<(), PathError> {
        Store::remove(&self.kept(path))
    }

    /// Removes every base if no archive is defined and none but this one is remembered: then no path waits for its base any more.
    pub(crate) fn remove_unneeded_bases(&self, id: &str) -> Result<(), ArchiveError> {
        // An archive that is defined may have kept a base that its record does not name yet.
        if self.scene.defined.is_empty() && self.has_kept()? && self.others(id)?.is_empty() {
            Store::remove(&self.state.place(Path::new(KEPT)))?;
        }
        Ok(())
    }

    /// Removes something of our own, with the folders that are empty then.
    pub(crate) fn remove(place: &PathHandle) -> Result<(), PathError> {
        if place.stat()?.is_some() {
            place.remove_all()?;
            Durability::Each.sync([], [place])?;
        }
        place.remove_empty_folders(Path::new(""));
        Ok(())
    }

    /// Everything that is remembered of other archives.
    ///
    /// # Errors
    /// If something cannot be read: it may be about the same paths.
    pub(crate) fn others(&self, id: &str) -> Result<Vec<Remembered<Record>>, ArchiveError> {
        let mut problems = Problems::default();
        let all = self.memory.all::<Record>(&mut Output::new(&mut problems))?;
        match problems.0.first() {
            Some(problem) => Err(ArchiveError::Failed(problem.clone())),
            None => Ok(all.into_values().filter(|other| other.id != id).collect()),
        }
    }

    /// What entities of other plugins claim: single paths, and directories that others may put something into.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        let mut claims = claims::all(self.host.locations());
        claims.retain(|claim| !claim.id.starts_with(PREFIX) && !claim.is_tree);
        claims
    }

    /// The directories that archives have made, whichever of them was the first to need one.
    pub(crate) fn own_directories(&self) -> Result<OwnDirectories, PathError> {
        OwnDirectories::read(self.state.place(Path::new(DIRECTORIES)))
    }

    /// Takes note of directories that are going to be made, as far as they do not exist.
    pub(crate) fn claim_directories(&self, directories: impl IntoIterator<Item = PathBuf>) -> Result<(), PathError> {
        let mut missing = Vec::new();
        for directory in directories {
            let is_there =
                || self.root.place(&directory).stat().map(|looks| looks.is_some_and(|l| l.kind == Kind::Directory));
            if directory != Path::new("/") && !is_there()? {
                missing.push(directory);
            }
        }
        if missing.is_empty() { Ok(()) } else { self.own_directories()?.add(missing) }
    }

    /// Removes directories that archives have made, are empty, and that none needs. Of the one with this ID, its record is given, unless it
    /// is about to be forgotten; and whether it needs the directories on the way to its paths.
    pub(crate) fn remove_directories(
        &self,
        id: &str,
        record: Option<&Record>,
        is_going_on: bool,
    ) -> Result<(), ArchiveError> {
        let _alone = self.shared.directories();
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
                for (path, _) in manifest.made.iter().filter(|(_, states)| states.iter().any(Made::is_directory)) {
                    unneeded.remove(&Path::new(tree).join(path));
                }
            }
        }
        own.remove_empty(|path| self.root.place(path), Some(&unneeded))?;
        // What people have put something into is theirs once no archive is about.
        own.keep_only(|directory| paths.iter().any(|(_, path)| are_nested(Path::new(path), directory)))?;
        Ok(own.tidy()?)
    }
}

/// What is said, for whoever fails for it.
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
