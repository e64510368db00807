//! What has to be done so that a directory becomes the new version, and what would be lost by that.

use super::{MoveError, Site, is_kept};
use crate::made::Made;
use crate::owners::{Owners, brought_by_both};
use holo_change::claims::Claim;
use holo_change::{Kind, PathHandle, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is to be done, by paths below the directory.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// What the manifest lists in the end.
    pub(super) made: BTreeMap<PathBuf, Made>,
    /// What is to be moved from the staging directory.
    pub(super) moved: Vec<PathBuf>,
    /// Directories that are to be made, the topmost first.
    pub(super) directories: Vec<PathBuf>,
    /// What has to go before anything else, the deepest first.
    pub(super) in_the_way: Vec<PathBuf>,
    /// Files and symlinks that the new version does not have.
    pub(super) gone: Vec<PathBuf>,
    /// Directories likewise, the deepest first.
    pub(super) gone_directories: Vec<PathBuf>,
    /// Files that would go, but something is laid over them; and the directories in which they are.
    pub(super) waiting: BTreeMap<PathBuf, Vec<Made>>,
    /// What was there before us and is to be kept.
    pub(super) foreign: Vec<PathBuf>,
    /// What orphans have brought and is ours from now on: which ones, and what it may be.
    pub(super) orphaned: BTreeMap<PathBuf, (Vec<String>, Vec<Made>)>,
    /// What of a person's would be lost.
    pub(super) losses: Vec<PathBuf>,
}

impl Site<'_> {
    pub(super) fn plan(&self, wanted: &BTreeMap<PathBuf, Made>, owners: &Owners) -> Result<Plan, MoveError> {
        let mut plan = Plan::default();
        self.refuse_what_others_bring(wanted, owners)?;
        let Some(directory) = &self.directory else { return Ok(plan) };
        let none = BTreeMap::new();
        let known = self.manifest.as_ref().map_or(&none, |manifest| &manifest.made);
        let own_directories = self.store.own_directories()?;
        for (path, made) in wanted {
            let mut states = known.get(path).cloned();
            for brought in owners.orphaned_at(&self.full(path)) {
                let (ids, all) = plan.orphaned.entry(path.clone()).or_default();
                ids.push(brought.id.clone());
                all.extend_from_slice(&brought.states);
                states.get_or_insert_default().extend_from_slice(&brought.states);
            }
            let is_own_directory = own_directories.contains(&self.full(path));
            self.plan_wanted(&mut plan, directory, path, made, states.as_deref(), is_own_directory)?;
        }
        for (path, states) in known.iter().filter(|(path, _)| !wanted.contains_key(*path)) {
            if self.is_overlaid(path) {
                self.plan_waiting(&mut plan, path, states, wanted)?;
            } else if !owners.has(&self.full(path)) {
                self.plan_gone(&mut plan, &directory.place(path), path, states)?;
            }
        }
        let (above, gone): (Vec<_>, Vec<_>) =
            plan.gone_directories.drain(..).partition(|path| plan.waiting.keys().any(|waits| waits.starts_with(path)));
        plan.gone_directories = gone;
        for path in above {
            let states = known.get(&path).cloned().unwrap_or_default();
            plan.waiting.insert(path, states);
        }
        plan.gone_directories.reverse();
        order_what_is_in_the_way(&mut plan, wanted);
        Ok(plan)
    }

    /// Of two archives that bring one path, the second changes nothing.
    fn refuse_what_others_bring(&self, wanted: &BTreeMap<PathBuf, Made>, owners: &Owners) -> Result<(), MoveError> {
        let claims = if wanted.is_empty() { Vec::new() } else { self.store.claims() };
        let mut refused = wanted.iter().filter_map(|(path, made)| {
            let path = self.full(path);
            let claims_it = |claim: &&Claim| claim.covers(&path) && !(claim.is_directory && made.is_directory());
            let claimed = || claims.iter().find(claims_it).map(Claim::shown);
            let other = owners.in_the_way(&path, made.is_directory()).map(str::to_owned).or_else(claimed)?;
            Some(brought_by_both(&path, &other, &self.id))
        });
        let Some(first) = refused.next() else { return Ok(()) };
        Err(MoveError::Failed(match refused.count() {
            0 => first,
            more => format!("{first}, and so are {more} more paths"),
        }))
    }

    fn plan_wanted(
        &self,
        plan: &mut Plan,
        directory: &Arc<Tree>,
        path: &Path,
        made: &Made,
        known: Option<&[Made]>,
        was_made: bool,
    ) -> Result<(), MoveError> {
        let place = self.at(directory, path);
        if made.is_directory() && self.is_overlaid(path) {
            return Err(self.has_resource_files(path));
        }
        let kind = place.stat()?.map(|looks| looks.kind);
        match kind {
            // A directory that was there before us is not ours.
            Some(Kind::Directory) if made.is_directory() => {
                if was_made {
                    plan.made.insert(path.to_owned(), made.clone());
                    // Whoever was killed may not have come to giving it its mode.
                    if self.is_unfinished() {
                        plan.directories.push(path.to_owned());
                    }
                }
                return Ok(());
            }
            Some(Kind::Directory) if was_made => plan.in_the_way.push(path.to_owned()),
            Some(Kind::Directory) => {
                return Err(MoveError::Failed(format!("{} is a directory", place.shown().display())));
            }
            Some(Kind::Other) => {
                return Err(MoveError::Failed(format!("{} is not a manageable file", place.shown().display())));
            }
            None => {}
            Some(_) => self.plan_replaced(plan, &place, path, made, known)?,
        }
        plan.made.insert(path.to_owned(), made.clone());
        if made.is_directory() {
            plan.directories.push(path.to_owned());
        } else if !made.is_at(&place, &self.store.known)? {
            plan.moved.push(path.to_owned());
        }
        Ok(())
    }

    /// A file that is to go when what is laid over it has gone.
    fn plan_waiting(
        &self,
        plan: &mut Plan,
        path: &Path,
        states: &[Made],
        wanted: &BTreeMap<PathBuf, Made>,
    ) -> Result<(), MoveError> {
        if path.ancestors().skip(1).any(|above| wanted.get(above).is_some_and(|made| !made.is_directory())) {
            return Err(self.has_resource_files(path));
        }
        plan.waiting.insert(path.to_owned(), states.to_vec());
        Ok(())
    }

    fn has_resource_files(&self, path: &Path) -> MoveError {
        let words = "has resource files, and would not be a file any more";
        MoveError::Failed(format!("{} {words}", self.full(path).display()))
    }

    /// A file or symlink that is there already.
    fn plan_replaced(
        &self,
        plan: &mut Plan,
        place: &PathHandle,
        path: &Path,
        made: &Made,
        known: Option<&[Made]>,
    ) -> Result<(), MoveError> {
        if made.is_directory() {
            plan.in_the_way.push(path.to_owned());
        }
        match known {
            Some(states) => {
                if !self.is_ours(path, place, states)? && !made.is_at(place, &self.store.known)? {
                    plan.losses.push(path.to_owned());
                }
            }
            None => {
                // What a killed run has kept needs not be kept again, but does no harm.
                plan.foreign.push(path.to_owned());
                // What a path leads to would vanish from there.
                if made.is_directory() {
                    plan.losses.push(path.to_owned());
                }
            }
        }
        Ok(())
    }

    fn plan_gone(&self, plan: &mut Plan, place: &PathHandle, path: &Path, states: &[Made]) -> Result<(), MoveError> {
        match place.stat()?.map(|looks| looks.kind) {
            None if self.kept_at(path).exists()? => plan.gone.push(path.to_owned()),
            None => {}
            Some(Kind::Directory) if states.iter().any(Made::is_directory) => {
                plan.gone_directories.push(path.to_owned());
            }
            Some(Kind::Directory) if self.kept_at(path).exists()? => {
                let words = "is a directory by now: what was there before cannot be put back";
                return Err(MoveError::Failed(format!("{} {words}", place.shown().display())));
            }
            // Whatever a person has put into a directory in the place of our file is not ours.
            Some(Kind::Directory) => {}
            Some(_) if self.is_unfinished() && is_kept(place, &self.kept_at(path))? => {}
            Some(_) => {
                if !self.is_ours(path, place, states)? {
                    plan.losses.push(path.to_owned());
                }
                plan.gone.push(path.to_owned());
            }
        }
        Ok(())
    }
}

/// What stands where something else is going to be, or above it, goes first; the deepest of it before the rest.
fn order_what_is_in_the_way(plan: &mut Plan, wanted: &BTreeMap<PathBuf, Made>) {
    let blocks = |path: &PathBuf| {
        path.ancestors().skip(1).any(|parent| wanted.get(parent).is_some_and(|made| !made.is_directory()))
    };
    let mut first: BTreeSet<PathBuf> = plan.in_the_way.drain(..).collect();
    for list in [&mut plan.gone, &mut plan.gone_directories] {
        let (blocking, others) = std::mem::take(list).into_iter().partition(|path| blocks(path));
        first.extend(Vec::from_iter::<Vec<PathBuf>>(blocking));
        *list = others;
    }
    plan.in_the_way = first.into_iter().rev().collect();
}
