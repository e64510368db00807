//! Downloads what is missing, and extracts it.

mod fetch;
mod look;
mod succession;

use crate::absent::{Removed, name_changed, name_waiting, refused, remove_tree, would_remove_tree};
use crate::definition::Archive;
use crate::download::Validators;
use crate::error::ArchiveError;
use crate::extract::{Extraction, extract};
use crate::made::Owner;
use crate::record::{Fetched, Record};
use crate::store::Store;
use crate::tree::Site;
use fetch::AtHand;
use holo_change::base_store::Remembered;
use holo_change::error::PathError;
use holo_change::{Durability, PathHandle, set_ownership};
use holo_plugin::{Accounts, EntityReport, ForceTo, Host, Output};
use look::{Situation, Wanted};
use std::io::Seek;
use std::path::Path;
use std::time::Duration;
use succession::takes_over;

/// The mode of directories that we make.
const DIRECTORY_MODE: u32 = 0o755;
/// An archive that shall be there.
pub(crate) struct Present<'a> {
    pub(crate) host: &'a Host,
    pub(crate) store: &'a Store,
    pub(crate) id: &'a str,
    pub(crate) archive: &'a Archive,
    pub(crate) timeout: Option<Duration>,
    pub(crate) report: &'a EntityReport,
}

impl Present<'_> {
    /// Brings it into its desired state; what was done for that.
    pub(crate) fn apply(&self, force: bool, output: &mut Output<'_>) -> Result<Vec<String>, ArchiveError> {
        let mut changes = Vec::new();
        let orphans = self.take_over(output)?;
        let mut situation = self.look()?;
        if situation.is_created {
            return Ok(changes);
        }
        let loses_work = situation.wanted == Wanted::Changed || self.tree_is_changed(&situation);
        if loses_work && !force {
            if let (Some(directory), Some(_)) = (&self.archive.extract_to, &situation.site) {
                name_changed(&situation.drift.changed, directory, output);
            }
            return Err(ArchiveError::NeedsForce(ForceTo::Overwrite));
        }
        let mut at_hand = self.fetch(&mut situation, &mut changes, output).inspect_err(|_| self.retreat())?;
        if let Some(at_hand) = &mut at_hand {
            self.give_attributes(&mut situation, &mut changes)?;
            self.extract(&mut situation, at_hand, force, &mut changes, output).inspect_err(|_| self.retreat())?;
        }
        self.leave_other_trees(&mut situation, force, &mut changes, output)?;
        if self.archive.cleanup {
            self.clean_up(&mut situation, &mut changes)?;
        }
        self.remember_end(&mut situation)?;
        self.verify(output)?;
        self.scrub_rest(&orphans, &mut changes, output)?;
        Ok(changes)
    }

    /// What applying it would do; nothing if only the server could tell, and is not to be asked.
    pub(crate) fn check(&self, output: &mut Output<'_>) -> Result<Option<Vec<String>>, ArchiveError> {
        let mut changes = Vec::new();
        let situation = self.look()?;
        if situation.is_created {
            return Ok(Some(changes));
        }
        if situation.wanted == Wanted::Changed || self.tree_is_changed(&situation) {
            return Err(ArchiveError::NeedsForce(ForceTo::Overwrite));
        }
        let has_source_changed = self.has_source_changed(&situation)?;
        let is_downloaded = situation.wanted == Wanted::Download || has_source_changed == Some(true);
        if is_downloaded && let Some(address) = self.archive.addresses().first() {
            changes.push(format!("would download {address}"));
        }
        if situation.wanted == Wanted::There {
            changes.extend(self.attributes_to_change(&situation).iter().map(|what| format!("would change {what}")));
        }
        let is_extracted = self.must_extract(&situation);
        if let Some(directory) = self.archive.extract_to.as_ref().filter(|_| is_downloaded || is_extracted) {
            changes.push(format!("would extract {} to {directory}", self.archive.path));
        }
        let wanted = self.tree()?;
        for directory in situation.record.trees.iter().filter(|tree| wanted.as_ref() != Some(tree)) {
            changes.extend(would_remove_tree(self.store, self.id, directory, output)?);
        }
        if self.archive.cleanup && situation.wanted == Wanted::There {
            changes.push(format!("would remove {}", self.archive.path));
        }
        if let Some(path) = self.archive.creates.as_ref().filter(|_| self.lacks_what_it_creates(&situation, &changes)) {
            return Err(ArchiveError::Failed(format!("{path} was not created")));
        }
        changes.extend(self.would_take_over()?);
        Ok((!changes.is_empty() || has_source_changed.is_some()).then_some(changes))
    }

    /// Whether nothing is to be done but the path is missing that should have been created.
    fn lacks_what_it_creates(&self, situation: &Situation<'_>, changes: &[String]) -> bool {
        changes.is_empty() && self.archive.creates.is_some() && !situation.is_created
    }

    /// Whether a person changed what would not be replaced by another version anyway.
    fn tree_is_changed(&self, situation: &Situation<'_>) -> bool {
        !situation.drift.changed.is_empty() && !situation.site.as_ref().is_some_and(Site::is_unfinished)
    }

    /// Whether the tree is not what the download at hand makes of it. Not known of one that is still to be downloaded.
    fn must_extract(&self, situation: &Situation<'_>) -> bool {
        let Some(site) = &situation.site else { return false };
        let recipe = match (&situation.current, situation.wanted) {
            (Some(current), Wanted::There) => self.recipe(&current.sums.sha256).ok(),
            (_, Wanted::CleanedUp) => return false,
            _ => return true,
        };
        let is_same = site.manifest.as_ref().is_some_and(|manifest| Some(&manifest.recipe) == recipe.as_ref());
        !is_same || site.is_unfinished() || situation.drift.is_missing || !situation.drift.changed.is_empty()
    }

    /// What decides about a tree.
    fn recipe(&self, sha256: &str) -> Result<String, String> {
        let Owner { uid, gid } = self.owner()?;
        let mut recipe = format!("sha256:{sha256} strip={}", self.archive.strip_components);
        for (key, id) in [("uid", uid), ("gid", gid)] {
            if let Some(id) = id {
                recipe += &format!(" {key}={id}");
            }
        }
        Ok(recipe)
    }

    fn owner(&self) -> Result<Owner, String> {
        let accounts = Accounts::of(self.host).map_err(|error| error.to_string())?;
        let (owner, group) = (self.archive.owner.as_deref(), self.archive.group.as_deref());
        Ok(Owner {
            uid: owner.map(|name| accounts.user(name)).transpose()?,
            gid: group.map(|name| accounts.group(name)).transpose()?,
        })
    }

    /// Remembers what is about to be made, then makes the directories that are missing.
    fn prepare(&self, situation: &mut Situation<'_>) -> Result<(), ArchiveError> {
        let (path, tree) = (self.path()?, self.tree()?);
        let above = Path::new(&path).parent().into_iter().chain(tree.as_deref().map(Path::new));
        let mut directories: Vec<&Path> = above.flat_map(Path::ancestors).collect();
        directories.sort();
        if let Some(tree) = tree.as_ref().filter(|tree| !situation.record.trees.contains(tree)) {
            situation.record.trees.push(tree.clone());
        }
        situation.record.path = Some(path.clone());
        situation.record.untidy = true;
        // Whoever removes directories sees the record, and leaves those that we need.
        let _alone = self.store.shared.directories();
        self.keep_record(situation)?;
        self.store.claim_directories(directories.into_iter().map(Path::to_owned))?;
        situation.place.create_folder()?;
        Ok(())
    }

    fn keep_record(&self, situation: &mut Situation<'_>) -> Result<(), PathError> {
        if situation.stored.as_ref() != Some(&situation.record) {
            self.store.memory.keep(&Remembered::new(self.report, situation.record.clone()))?;
            situation.stored = Some(situation.record.clone());
        }
        Ok(())
    }

    /// Gives the file its owner and mode without downloading it again.
    fn give_attributes(&self, situation: &mut Situation<'_>, changes: &mut Vec<String>) -> Result<(), ArchiveError> {
        let Owner { uid, gid } = self.owner().map_err(ArchiveError::Failed)?;
        let wrong = self.attributes_to_change(situation);
        if wrong.is_empty() {
            return Ok(());
        }
        self.adopt(situation)?;
        let Some(current) = &situation.current else { return Ok(()) };
        if current.looks.names > 1 {
            return Err(ArchiveError::Failed(format!("{} has several names", situation.place.shown().display())));
        }
        self.store.has_changed.set(true);
        set_ownership(&current.file, &situation.place.shown(), uid, gid, self.archive.mode())?;
        Durability::Each.sync([&situation.place], [])?;
        changes.extend(wrong.iter().map(|what| format!("changed {what}")));
        Ok(())
    }

    /// Remembers a file that was there before us as it was, and that it is ours from now on.
    fn adopt(&self, situation: &mut Situation<'_>) -> Result<(), ArchiveError> {
        let Some(current) = situation.current.as_ref().filter(|_| situation.record.fetched().next().is_none()) else {
            return Ok(());
        };
        let adopted = Fetched {
            sha256: current.sums.sha256.clone(),
            checksum: self.archive.checksum().map(|checksum| checksum.to_string()),
            source: self.source(),
            validators: Validators::default(),
        };
        self.keep_base(situation)?;
        situation.record.download = Some(adopted);
        Ok(self.keep_record(situation)?)
    }

    /// In words, what of owner, group and mode is not as it shall be.
    fn attributes_to_change(&self, situation: &Situation<'_>) -> Vec<String> {
        let Some(current) = &situation.current else { return Vec::new() };
        let path = &self.archive.path;
        let mut wrong = Vec::new();
        // A user that is not there yet owns nothing.
        let owner = self.owner().unwrap_or(Owner { uid: None, gid: None });
        let is_unknown = self.owner().is_err();
        if is_unknown || owner.uid.is_some_and(|uid| uid != current.looks.uid) {
            wrong.push(format!("the owner of {path}"));
        }
        if owner.gid.is_some_and(|gid| gid != current.looks.gid) {
            wrong.push(format!("the group of {path}"));
        }
        let has_mode = self.archive.mode.is_some() || situation.record.knows(&current.sums.sha256);
        if has_mode && self.archive.mode() != current.looks.mode {
            wrong.push(format!("the mode of {path}"));
        }
        wrong
    }

    fn extract(
        &self,
        situation: &mut Situation<'_>,
        at_hand: &mut AtHand,
        force: bool,
        changes: &mut Vec<String>,
        output: &mut Output<'_>,
    ) -> Result<(), ArchiveError> {
        let Some(directory) = &self.archive.extract_to else { return Ok(()) };
        if !self.must_extract(situation) {
            if let Some(site) = &mut situation.site {
                self.store.shared.turns.wait(self.id);
                site.sweep()?;
                site.clear_staging()?;
            }
            return Ok(());
        }
        self.prepare(situation)?;
        self.store.shared.turns.wait(self.id);
        let recipe = self.recipe(&at_hand.sha256).map_err(ArchiveError::Failed)?;
        let Some(site) = &mut situation.site else { return Ok(()) };
        let owner = self.owner().map_err(ArchiveError::Failed)?;
        let top = self.store.root.place(Path::new(directory));
        top.create_folder()?;
        let mut staged = site.staging()?;
        let extraction = Extraction {
            top: Path::new(directory),
            strip: self.archive.strip_components,
            limits: self.archive.limits(),
            owner,
        };
        at_hand.file.rewind()?;
        staged.made = extract(&mut at_hand.file, &staged.tree, extraction, output).map_err(|problem| {
            let _ = site.clear_staging();
            ArchiveError::Failed(format!("cannot extract {}: {problem}", situation.place.shown().display()))
        })?;
        if let Some(tree) = self.tree()?
            && Path::new(&self.path()?).strip_prefix(tree).is_ok_and(|path| staged.made.contains_key(path))
        {
            let _ = site.clear_staging();
            let problem = "the archive brings this path itself";
            return Err(ArchiveError::Failed(format!(
                "cannot extract {}: {problem}",
                situation.place.shown().display()
            )));
        }
        let resolved = top.followed()?;
        if resolved.path().file_name().is_some() && resolved.create_directory(DIRECTORY_MODE)? {
            resolved.change_mode(DIRECTORY_MODE)?;
            resolved.give_to(owner.uid, owner.gid)?;
            Durability::Each.sync([], [&resolved])?;
        }
        site.enter()?;
        let waited = site.waiting();
        let orphans = site.install(Some(&staged), &recipe, force).map_err(|refusal| {
            let _ = site.clear_staging();
            match refused(refusal, directory, output) {
                ArchiveError::Failed(problem) => {
                    ArchiveError::Failed(format!("cannot extract {}: {problem}", situation.place.shown().display()))
                }
                other => other,
            }
        })?;
        let mut waiting = site.waiting();
        waiting.retain(|path| !waited.contains(path));
        name_waiting(&waiting, output);
        orphans.iter().filter(|orphan| *orphan != self.id).for_each(|orphan| takes_over(self.id, orphan, output));
        changes.push(format!("extracted {} to {directory}", self.archive.path));
        Ok(())
    }

    /// Removes what was extracted to directories that the definition does not name any more.
    fn leave_other_trees(
        &self,
        situation: &mut Situation<'_>,
        force: bool,
        changes: &mut Vec<String>,
        output: &mut Output<'_>,
    ) -> Result<(), ArchiveError> {
        let wanted = self.tree()?;
        for directory in situation.record.trees.clone() {
            if Some(&directory) != wanted.as_ref() {
                self.store.shared.turns.wait(self.id);
                situation.record.untidy = true;
                self.keep_record(situation)?;
                let Removed { anything, waits } = remove_tree(self.store, self.id, &directory, force, output)?;
                if anything {
                    changes.push(format!("removed what was extracted to {directory}"));
                }
                situation.record.trees.retain(|tree| waits || *tree != directory);
            }
        }
        Ok(())
    }

    /// Removes the download after it has been extracted.
    fn clean_up(&self, situation: &mut Situation<'_>, changes: &mut Vec<String>) -> Result<(), ArchiveError> {
        if situation.wanted == Wanted::There && situation.place.stat()?.is_some() {
            self.adopt(situation)?;
            self.store.has_changed.set(true);
            situation.place.remove()?;
            Durability::Each.sync([], [&situation.place])?;
            if changes.is_empty() {
                changes.push(format!("removed {}", self.archive.path));
            }
        }
        Ok(())
    }

    /// What was on its way has arrived.
    fn remember_end(&self, situation: &mut Situation<'_>) -> Result<(), ArchiveError> {
        if let Some(incoming) = situation.record.incoming.take() {
            situation.record.download = Some(incoming);
        }
        if situation.record.is_empty() {
            return Ok(());
        }
        if let Some(site) = &mut situation.site {
            site.sweep()?;
        }
        if situation.record.untidy {
            self.keep_record(situation)?;
            self.store.remove_directories(self.id, Some(&situation.record), true)?;
            situation.record.untidy = false;
        }
        Ok(self.keep_record(situation)?)
    }

    /// After a first attempt that failed, directories that were made for it and are empty go again.
    fn retreat(&self) {
        // Why it failed is more interesting than why they cannot be removed.
        let remembered = self.store.memory.recall::<Record>(self.id).ok().flatten();
        let _ = self.store.remove_directories(self.id, remembered.as_ref().map(|remembered| &remembered.base), false);
    }

    /// FileStat again, as the next apply would.
    fn verify(&self, output: &mut Output<'_>) -> Result<(), ArchiveError> {
        let situation = self.look()?;
        let mut wrong = Vec::new();
        if !situation.is_created {
            wrong.extend(self.archive.creates.iter().map(|path| format!("{path} was not created")));
            if !matches!(situation.wanted, Wanted::There | Wanted::CleanedUp) {
                wrong.push(format!("{} is not what was downloaded", self.archive.path));
            }
            wrong.extend(
                self.attributes_to_change(&situation).iter().map(|what| format!("{what} could not be changed")),
            );
            if self.must_extract(&situation) {
                wrong.push(format!(
                    "{} is not what was extracted",
                    self.archive.extract_to.as_deref().unwrap_or_default()
                ));
                name_changed(&situation.drift.changed, "/", output);
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(ArchiveError::Failed(wrong.join("; "))) }
    }

    fn source(&self) -> String {
        let addresses = self.archive.addresses();
        addresses.first().map(|address| crate::checksum::sha256(address.identity().as_bytes())).unwrap_or_default()
    }

    fn place(&self) -> PathHandle {
        self.store.root.place(Path::new(&self.archive.path))
    }

    /// The canonical path of the download.
    fn path(&self) -> Result<String, ArchiveError> {
        canonical(self.store, &self.archive.path, false)
    }

    /// The canonical path of the directory that is extracted to.
    fn tree(&self) -> Result<Option<String>, ArchiveError> {
        self.archive.extract_to.as_deref().map(|directory| canonical(self.store, directory, true)).transpose()
    }
}

/// A canonical path, as text: records hold nothing else.
fn canonical(store: &Store, path: &str, last: bool) -> Result<String, ArchiveError> {
    let found = store.root.canonical(Path::new(path), last)?;
    let words = |path: std::path::PathBuf| ArchiveError::Failed(format!("{} is not text", path.display()));
    found.into_os_string().into_string().map_err(|path| words(path.into()))
}
