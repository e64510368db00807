//! Deploying an archive: downloading and extracting it if needed, and the owner, group and mode of an existing download.

pub(crate) mod authenticity;
mod extraction;
mod fetch;
mod preview;
mod state;
mod takeover;

use crate::definition::Archive;
use crate::error::ArchiveError;
use crate::extract::{Contents, Selection, find};
use crate::listing::Listing;
use crate::removal::{warn_of_changes, would_remove_tree};
use crate::store::{ArchiveRecord, DownloadRecord, Store};
use holo_change::base_store::Remembered;
use holo_change::error::PathError;
use holo_change::manifest::Ownership;
use holo_change::tracked::Overlays;
use holo_change::tree_store::{OwnedTree, PendingEntry};
use holo_change::{Durability, PathHandle, set_ownership};
use holo_download::{Address, Validators};
use holo_plugin::{EntityReport, ForceTo, Host, Output, Witness, leads_through_symlink, witness_paths};
use state::{CurrentState, DownloadState};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An archive to be downloaded and extracted.
pub(crate) struct Deployment<'a> {
    pub(crate) host: &'a Host,
    pub(crate) store: &'a Store,
    pub(crate) id: &'a str,
    pub(crate) archive: &'a Archive,
    pub(crate) timeout: Option<Duration>,
    pub(crate) report: &'a EntityReport,
    /// The paths that have been changed so far, if the run is recorded.
    pub(crate) changed: RefCell<Listing>,
}

impl Deployment<'_> {
    /// Brings the archive into its desired state. Returns the changes.
    pub(crate) fn apply(&self, force: bool, output: &mut Output<'_>) -> Result<Vec<String>, ArchiveError> {
        let mut changes = Vec::new();
        let applied = self.apply_parts(force, &mut changes, output);
        if let Err(ArchiveError::NeedsForce(_)) = applied {
            // What would be overwritten may be known only after the download.
            changes.iter().for_each(|change| output.warning(change));
        }
        applied.map(|()| changes)
    }

    fn apply_parts(&self, force: bool, changes: &mut Vec<String>, output: &mut Output<'_>) -> Result<(), ArchiveError> {
        self.check_claims()?;
        let orphans = self.take_over(output)?;
        self.complete_takeover()?;
        let mut state = self.inspect()?;
        if state.is_created {
            return Ok(());
        }
        let loses_changes = state.download == DownloadState::Modified || is_tree_modified(&state);
        if loses_changes && !force {
            if let (Some(directory), Some(_)) = (&self.archive.extract_to, &state.extracted) {
                warn_of_changes(&state.drift.changed, directory, output);
            }
            return Err(ArchiveError::NeedsForce(ForceTo::Overwrite));
        }
        if state.download == DownloadState::Modified {
            self.store.keep_edited(self.id, [self.path()?.into()], output)?;
        }
        let local = self.fetch(&mut state, force, changes, output);
        if let Some(mut local) = local.inspect_err(|_| self.remove_unused_directories())? {
            self.set_attributes(&mut state, force, changes)?;
            let extracted = self.extract(&mut state, &mut local, force, changes, output);
            extracted.inspect_err(|_| self.remove_unused_directories())?;
        }
        self.remove_other_trees(&mut state, force, changes, output)?;
        if self.archive.cleanup {
            self.clean_up(&mut state, force, changes)?;
        }
        self.record_end(&mut state)?;
        self.verify(output)?;
        self.scrub_rest(&orphans, changes, output)
    }

    /// Records a path that is about to be changed.
    fn note_change(&self, pending: PendingEntry) {
        if self.host.keeps_changes() {
            self.changed.borrow_mut().add(pending);
        }
    }

    /// Returns the changes that an apply would make; `None` if they depend on the server, which must not be contacted.
    pub(crate) fn check(&self, output: &mut Output<'_>) -> Result<Option<Vec<String>>, ArchiveError> {
        let mut changes = Vec::new();
        self.check_claims()?;
        let state = self.inspect()?;
        if state.is_created {
            return Ok(Some(changes));
        }
        if state.download == DownloadState::Modified || is_tree_modified(&state) {
            return Err(ArchiveError::NeedsForce(ForceTo::Overwrite));
        }
        self.check_extraction(&state, output)?;
        let has_source_changed = self.has_source_changed(&state)?;
        let is_downloaded = state.download == DownloadState::Missing || has_source_changed == Some(true);
        if is_downloaded && let Some(address) = self.archive.addresses().first() {
            if let Some(failure) = holo_download::local_failure(&self.archive.addresses(), self.host) {
                return Err(failure.into());
            }
            changes.push(format!("would download {address}"));
        }
        if state.download == DownloadState::Present {
            changes.extend(self.attributes_to_change(&state).iter().map(|what| format!("would change {what}")));
        }
        let is_extracted = self.must_extract(&state);
        if let Some(directory) = self.archive.extract_to.as_ref().filter(|_| is_downloaded || is_extracted) {
            changes.push(format!("would extract {} to {directory}", self.archive.path));
        }
        let wanted = self.tree()?;
        for directory in state.record.trees.iter().filter(|tree| wanted.as_ref() != Some(tree)) {
            changes.extend(would_remove_tree(self.store, (self.id, &state.record), directory, output)?);
        }
        if self.archive.cleanup && state.download == DownloadState::Present {
            changes.push(format!("would remove {}", self.archive.path));
        }
        if let Some(path) = self.archive.creates.as_ref().filter(|_| changes.is_empty()) {
            return Err(ArchiveError::NotCreated(path.clone()));
        }
        changes.extend(self.would_take_over()?);
        Ok((!changes.is_empty() || has_source_changed.is_some()).then_some(changes))
    }

    /// Records the paths that are about to be created, then creates the missing directories.
    fn prepare(&self, state: &mut CurrentState) -> Result<(), ArchiveError> {
        let (path, tree) = (self.path()?, self.tree()?);
        let above = Path::new(&path).parent().into_iter().chain(tree.as_deref().map(Path::new));
        let mut directories: Vec<&Path> = above.flat_map(Path::ancestors).collect();
        directories.sort();
        if let Some(tree) = tree.as_ref().filter(|tree| !state.record.trees.contains(tree)) {
            state.record.trees.push(tree.clone());
        }
        state.record.path = Some(path.clone());
        state.record.untidy = true;
        // While the directories are locked, other archives see the record before they remove directories that are
        // needed here.
        let _locked = self.store.trees.lock_directories();
        self.save_record(state)?;
        self.store.trees.claim_directories(directories.into_iter().map(Path::to_owned))?;
        state.path.create_folder()?;
        Ok(())
    }

    /// Fails if an entity of another plugin claims the path of the download or the target directory, or claims a parent
    /// of one as something other than a directory.
    fn check_claims(&self) -> Result<(), ArchiveError> {
        let claims = self.store.claims();
        let paths = [Some((self.path()?, false)), self.tree()?.map(|tree| (tree, true))];
        for (path, is_directory) in paths.into_iter().flatten() {
            if let Some(other) = claims.conflict(Path::new(&path), is_directory) {
                let (own, other) = (self.id.to_owned(), other.shown());
                return Err(ArchiveError::Ruled { path, own, other });
            }
        }
        Ok(())
    }

    fn save_record(&self, state: &mut CurrentState) -> Result<(), PathError> {
        if state.stored.as_ref() != Some(&state.record) {
            self.store.keep(&Remembered::new(self.report, state.record.clone()))?;
            state.stored = Some(state.record.clone());
        }
        Ok(())
    }

    /// Removes the download after its extraction.
    fn clean_up(&self, state: &mut CurrentState, force: bool, changes: &mut Vec<String>) -> Result<(), ArchiveError> {
        if state.download == DownloadState::Present && state.path.stat()?.is_some() {
            self.adopt(state, force)?;
            self.store.has_changed.set(true);
            let before = self.store.trees.entry(&state.path)?;
            self.note_change(PendingEntry { path: self.path()?.into(), before, after: None });
            state.path.remove()?;
            Durability::Each.sync([], [&state.path])?;
            if changes.is_empty() {
                changes.push(format!("removed {}", self.archive.path));
            }
        }
        Ok(())
    }

    /// Records that the archive is in its desired state.
    fn record_end(&self, state: &mut CurrentState) -> Result<(), ArchiveError> {
        if let Some(incoming) = state.record.incoming.take() {
            state.record.download = Some(incoming);
        }
        if state.record.is_empty() {
            return Ok(());
        }
        if let Some(extracted) = &mut state.extracted {
            self.remove_dropped_bases(extracted)?;
        }
        if state.record.untidy {
            self.save_record(state)?;
            self.store.remove_directories(self.id, Some(&state.record), true)?;
            state.record.untidy = false;
        }
        Ok(self.save_record(state)?)
    }

    /// Removes empty directories that were created for a failed attempt.
    fn remove_unused_directories(&self) {
        // The original error is more useful than one from the cleanup.
        let remembered = self.store.memory.recall::<ArchiveRecord>(self.id).ok().flatten();
        let _ = self.store.remove_directories(self.id, remembered.as_ref().map(|remembered| &remembered.base), false);
    }

    /// Inspects the state again, like the next apply.
    fn verify(&self, output: &mut Output<'_>) -> Result<(), ArchiveError> {
        let state = self.inspect()?;
        if state.is_created {
            return Ok(());
        }
        let mut problems = Vec::new();
        problems.extend(self.archive.creates.iter().map(|path| format!("{path} was not created")));
        if !matches!(state.download, DownloadState::Present | DownloadState::CleanedUp) {
            problems.push(format!("{} differs from the downloaded file", self.archive.path));
        }
        problems.extend(self.attributes_to_change(&state).iter().map(|what| format!("{what} could not be changed")));
        if self.must_extract(&state) {
            let directory = self.archive.extract_to.as_deref().unwrap_or_default();
            problems.push(format!("{directory} differs from the extracted files"));
            warn_of_changes(&state.drift.changed, "/", output);
        }
        if problems.is_empty() { Ok(()) } else { Err(ArchiveError::NotAsDesired(problems)) }
    }

    /// Returns the SHA-256 of the URL.
    fn source(&self) -> String {
        let addresses = self.archive.addresses();
        addresses.first().map(|address| holo_download::sha256(address.identity().as_bytes())).unwrap_or_default()
    }

    fn location(&self) -> PathHandle {
        self.store.trees.root().place(Path::new(&self.archive.path))
    }

    /// Returns the canonical path of the download.
    fn path(&self) -> Result<String, ArchiveError> {
        canonical(self.store, &self.archive.path, false)
    }

    /// Returns the canonical path of the target directory.
    fn tree(&self) -> Result<Option<String>, ArchiveError> {
        self.archive.extract_to.as_deref().map(|directory| canonical(self.store, directory, true)).transpose()
    }
}

/// Returns true if a user has changed files, unless an unfinished version is about to replace them anyway.
fn is_tree_modified(state: &CurrentState) -> bool {
    !state.drift.changed.is_empty() && !state.extracted.as_ref().is_some_and(OwnedTree::is_unfinished)
}

/// Returns a canonical path as text, as required for records.
fn canonical(store: &Store, path: &str, last: bool) -> Result<String, ArchiveError> {
    let found = store.trees.root().canonical(Path::new(path), last)?;
    found.into_os_string().into_string().map_err(|path| ArchiveError::NotText(path.into()))
}

impl Deployment<'_> {
    /// Finds contents in the extracted archive if it still exists locally: at its path, or at the path from which it
    /// was copied. No server is contacted.
    pub(crate) fn find_contents(&self, record: &ArchiveRecord, contents: &mut Contents) -> Result<(), ArchiveError> {
        let (Some(recorded), Some(directory)) = (&record.download, &self.archive.extract_to) else { return Ok(()) };
        let source = self.archive.addresses().first().and_then(Address::file);
        let source = source.and_then(|source| holo_download::open(&source, self.host).ok());
        for location in [Some(self.location()), source].into_iter().flatten() {
            let Some(mut file) = location.open_if_file()? else { continue };
            if !self.is_download(&location, &recorded.sha256)? {
                continue;
            }
            let selection = Selection::new(self.archive, &|_| Ok(false));
            return Ok(find(&mut file, contents, self.extraction(directory, &selection)?)?);
        }
        Ok(())
    }

    fn is_download(&self, location: &PathHandle, sha256: &str) -> Result<bool, ArchiveError> {
        Ok(self.store.checksums.digests(location, None)?.sha256 == sha256)
    }
}

impl Deployment<'_> {
    /// Returns the witnesses of an archive in its desired state, if no server has to be asked for a new version.
    pub(crate) fn witnesses(&self) -> Result<Option<Vec<Witness>>, ArchiveError> {
        let (archive, host) = (self.archive, self.host);
        let text = [Some(&archive.path), archive.extract_to.as_ref(), archive.creates.as_ref()];
        let named: BTreeSet<PathBuf> = text.into_iter().flatten().map(PathBuf::from).collect();
        let is_created = archive.creates.as_ref().is_some_and(|path| host.below_root(Path::new(path)).exists());
        let is_fixed = archive.checksum_url.is_none() && (archive.checksum.is_some() || is_created);
        let has_symlinks = || named.iter().any(|path| leads_through_symlink(host.root(), path));
        if !is_fixed || !self.store.inventory.orphans.is_empty() || has_symlinks() {
            return Ok(None);
        }
        let accounts = host.accounts().witnesses(archive.owner.as_deref(), archive.group.as_deref());
        let Some(mut witnesses) = accounts else { return Ok(None) };
        let mut paths = named.clone();
        paths.extend(self.extracted()?);
        witnesses.extend(witness_paths(host.root(), &paths));
        witnesses.extend(Overlays::witnesses(host.locations(), paths.iter().map(PathBuf::as_path)));
        // A local source is shown as a resource file as long as it exists.
        let source = archive.addresses().first().and_then(Address::file);
        witnesses.extend(source.map(|source| Witness::file(&host.below_root(&source))));
        witnesses.extend(named.iter().map(|path| Witness::claims(&host.below_root(path))));
        Ok(Some(witnesses))
    }

    /// Returns the paths that were extracted.
    pub(crate) fn extracted(&self) -> Result<Vec<PathBuf>, ArchiveError> {
        let Some(tree) = self.tree()? else { return Ok(Vec::new()) };
        let manifest = self.store.trees.manifest(self.id, Path::new(&tree)).load()?;
        let entries = manifest.iter().flat_map(|manifest| manifest.entries.keys());
        Ok(entries.map(|path| Path::new(&tree).join(path)).collect())
    }

    fn owner(&self) -> Result<Ownership, ArchiveError> {
        let (owner, group) = (self.archive.owner.as_deref(), self.archive.group.as_deref());
        let (uid, gid) = self.host.accounts().owners(owner, group).map_err(ArchiveError::Account)?;
        Ok(Ownership { uid, gid })
    }

    /// Sets the owner and mode of the download without downloading it again.
    fn set_attributes(
        &self,
        state: &mut CurrentState,
        force: bool,
        changes: &mut Vec<String>,
    ) -> Result<(), ArchiveError> {
        let Ownership { uid, gid } = self.owner()?;
        let wrong = self.attributes_to_change(state);
        if wrong.is_empty() {
            return Ok(());
        }
        self.adopt(state, force)?;
        let Some(current) = &state.current else { return Ok(()) };
        if current.stat.names > 1 {
            return Err(ArchiveError::SeveralNames(state.path.shown()));
        }
        self.store.has_changed.set(true);
        set_ownership(&current.file, &state.path.shown(), uid, gid, self.archive.mode())?;
        Durability::Each.sync([&state.path], [])?;
        changes.extend(wrong.iter().map(|what| format!("changed {what}")));
        Ok(())
    }

    /// Saves the base of an existing file, and records the file as our download.
    fn adopt(&self, state: &mut CurrentState, force: bool) -> Result<(), ArchiveError> {
        let current = state.current.as_ref().filter(|_| !state.record.has_download());
        let Some(sha256) = current.map(|current| current.digests.sha256.clone()) else { return Ok(()) };
        let adopted = DownloadRecord {
            sha256,
            checksum: self.archive.checksum().map(|checksum| checksum.to_string()),
            source: self.source(),
            signed_by: None,
            validators: Validators::default(),
        };
        let taken = self.save_base_of_download(state, force)?;
        state.record.download = Some(adopted);
        self.save_record(state)?;
        self.release(&taken, state)
    }

    /// Returns descriptions of the attributes that differ from the desired ones.
    fn attributes_to_change(&self, state: &CurrentState) -> Vec<String> {
        let Some(current) = &state.current else { return Vec::new() };
        let path = &self.archive.path;
        let mut wrong = Vec::new();
        // A user that does not exist yet cannot own files.
        let owner = self.owner().ok();
        if owner.is_none_or(|owner| owner.uid.is_some_and(|uid| uid != current.stat.uid)) {
            wrong.push(format!("the owner of {path}"));
        }
        if owner.is_some_and(|owner| owner.gid.is_some_and(|gid| gid != current.stat.gid)) {
            wrong.push(format!("the group of {path}"));
        }
        let has_mode = self.archive.mode.is_some() || state.record.knows(&current.digests.sha256);
        if has_mode && self.archive.mode() != current.stat.mode {
            wrong.push(format!("the mode of {path}"));
        }
        wrong
    }
}
