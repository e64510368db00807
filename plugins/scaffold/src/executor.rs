//! Checks, applies and scrubs scaffolds. A scrub restores the state before the first apply.

mod provision;

use crate::definition::ScaffoldDefinition;
use crate::entity::Scaffold;
use crate::error::{Result, ScaffoldError, of_change};
use crate::plan::{Change, Circumstances, Plan};
use crate::post::Programs;
use crate::preview::After;
use crate::record::Record;
use crate::render::{self, Rendered};
use crate::source::Item;
use crate::together::Shared;
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::claims::{self, Claim};
use holo_change::tracked::{Decision, Found, State, Track, Tracker};
use holo_change::{Kind, Tree};
use holo_plugin::{Applied, FilePair, Host, Mode, Output, Verdict, edited};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The context for operations on a scaffold.
pub(crate) struct Executor<'a> {
    host: &'a Host,
    pub(crate) memory: BaseStore,
    pub(crate) tracker: Tracker,
    /// True if a path may have been changed.
    has_begun: Cell<bool>,
    warnings: RefCell<Vec<String>>,
}
/// The loaded record of a scaffold.
struct Remembrance {
    remembered: Remembered<Record>,
    /// The entities that it takes over paths from.
    takes_over: Vec<String>,
}

impl<'a> Executor<'a> {
    /// Returns the context for a scaffold of a set; a part of it is shared with the other scaffolds.
    pub(crate) fn in_set(host: &'a Host, shared: &Shared) -> Result<Executor<'a>> {
        let executor = Executor::open(host)?;
        Ok(Executor { tracker: executor.tracker.with_held(shared.held.clone()), ..executor })
    }

    /// Makes the context one for a check, which knows the overlays that the same run adds and removes before.
    pub(crate) fn foreseeing(self, is_scrubbed: bool) -> Executor<'a> {
        Executor { tracker: self.tracker.foreseeing(is_scrubbed), ..self }
    }

    pub(crate) fn open(host: &'a Host) -> Result<Executor<'a>> {
        let tracker = Tracker::open(host.locations())?.with_threads(host.jobs());
        Ok(Executor {
            host,
            memory: tracker.bases().clone(),
            tracker,
            has_begun: Cell::new(false),
            warnings: RefCell::default(),
        })
    }

    /// Returns the warnings so far, and removes them.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        self.warnings.take()
    }

    /// Returns true if a path may have been changed.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.get()
    }

    pub(crate) fn recall(&self, entity: &Scaffold) -> Result<Option<Remembered<Record>>> {
        Ok(self.memory.recall(&entity.id())?)
    }

    /// Returns a tracker that cannot leave the target.
    pub(crate) fn inside(&self, target: &Path) -> Result<Tracker> {
        let kind = self.tracker.place(target).stat()?.map(|stat| stat.kind);
        let wrong = match kind {
            None | Some(Kind::Directory) => {
                self.tracker.place(target).check_way()?;
                return Ok(self.tracker.inside(target)?);
            }
            Some(Kind::Symlink) => "a symlink",
            Some(Kind::File) => "a file",
            Some(Kind::Other) => "neither a file, a symlink nor a directory",
        };
        Err(ScaffoldError::Never(format!("{} is {wrong}, and would have to be a directory", self.shown(target))))
    }

    pub(crate) fn check(&self, entity: &Scaffold, mode: Mode<'_>) -> Result<Verdict> {
        let Some(definition) = entity.wanted() else { return self.check_scrubbing(entity) };
        let work = Work::new(entity, definition, self)?;
        let known = self.known(&work, self.recall(entity)?)?;
        let plan = self.plan(&work, &known.remembered.base, false)?;
        entity.settle(&plan, &known.remembered.base);
        if let Some(reason) = plan.refusal(self.host).filter(|_| !mode.overwrites()) {
            return Err(ScaffoldError::NeedsForce(reason));
        }
        // An apply takes over what orphans hold in the target, and restores it, which is then all that they would do.
        let (id, taken_over) = (entity.id(), known.remembered.base.tracks().taken_over());
        let restored = if plan.is_empty() { Vec::new() } else { plan.restore.clone() };
        claims::publish_given_up(self.host.locations(), taken_over.into_iter().chain([(&*id, restored)]))?;
        if plan.is_empty() {
            return Ok(Verdict::InDesiredState);
        }
        let kept = plan.edited().map(|path| edited::would_keep(&self.host.below_root(path)));
        Ok(Verdict::WouldChange(kept.chain(plan.shown(self.host, Change::doing)).collect()))
    }

    /// Returns two directories with the current and the desired content of the target, if they differ.
    pub(crate) fn preview(&self, entity: &Scaffold) -> Result<Option<FilePair>> {
        let target = self.tracker.canonical(&entity.target)?;
        let tracker = self.inside(&target)?;
        let base = |record: &Record, path: &Path| record.tracks().get(path).map(|track| track.base.clone());
        let mut files = Vec::new();
        match entity.wanted() {
            Some(definition) => {
                let work = Work::new(entity, definition, self)?;
                let known = self.known(&work, self.recall(entity)?)?.remembered.base;
                let plan = self.plan(&work, &known, false)?;
                let mode = |(path, state): &(PathBuf, State)| Some((path.clone(), state.attributes()?.mode));
                let modes: HashMap<PathBuf, u32> = plan.make.iter().filter_map(mode).collect();
                for path in
                    plan.changes.iter().filter(|(_, change)| **change != Change::RunPrograms).map(|(path, _)| path)
                {
                    let item = path.strip_prefix(&target).ok().and_then(|below| work.rendered.get(below));
                    let restored = base(&known, path).filter(|_| plan.restore.contains(path));
                    let desired = modes.get(path).copied();
                    let mode =
                        desired.or_else(|| restored.as_ref().and_then(State::attributes).map(|found| found.mode));
                    let after = match (item.cloned(), desired) {
                        (Some(item), mode) => After::Item(item, mode.unwrap_or_default()),
                        (None, _) => After::State(restored),
                    };
                    let is_sensitive = item.is_some_and(Item::is_sensitive) || is_known_sensitive(&known, path);
                    files.push((path.clone(), if is_sensitive { After::Sensitive(mode) } else { after }));
                }
            }
            None => {
                let Some(remembered) = self.recall(entity)? else { return Ok(None) };
                let record = remembered.base;
                let paths = record.tracks().iter().filter(|(path, _)| !self.tracker.is_overlaid(path));
                let after = |track: &Track| match track.sensitive {
                    true => After::Sensitive(track.base.attributes().map(|found| found.mode)),
                    false => After::State(Some(track.base.clone())),
                };
                files.extend(paths.map(|(path, track)| (path, after(track))));
            }
        }
        crate::preview::write(entity, self.host, &target, &tracker, &files)
    }

    pub(crate) fn apply(&self, entity: &Scaffold, mode: Mode<'_>, output: &mut Output<'_>) -> Result<Applied> {
        // Rendering takes time and needs no lock, so it comes first.
        let work = entity.wanted().map(|definition| Work::new(entity, definition, self)).transpose()?;
        // If a dispatcher was killed, its plugin may still be running when the next dispatcher starts.
        let _held = Tree::open(self.host.state_dir())?.hold()?;
        let applied = match work {
            Some(work) => self.provision(&work, mode, output)?,
            None => self.scrub(entity, mode, output)?,
        };
        // For a set, this is done once, after its last entity.
        if !entity.together.is_set() {
            let id = entity.id();
            self.tidy_held(|other| other == id, output);
        }
        Ok(applied)
    }

    /// Removes stored content and records that these entities no longer need.
    pub(crate) fn tidy(&self, is_ours: impl Fn(&str) -> bool, output: &mut Output<'_>) -> Result<()> {
        let _held = Tree::open(self.host.state_dir())?.hold()?;
        self.tidy_held(is_ours, output);
        Ok(())
    }

    fn tidy_held(&self, is_ours: impl Fn(&str) -> bool, output: &mut Output<'_>) {
        if let Err(error) = self.tracker.tidy::<Record>(is_ours, output) {
            output.warning(error.to_string());
        }
    }

    /// Returns the record of a scaffold, after recovery from a killed run.
    fn recovered(&self, entity: &Scaffold) -> Result<Option<Remembered<Record>>> {
        let Some(mut known) = self.recall(entity)? else { return Ok(None) };
        self.inside(&self.tracker.canonical(&entity.target)?)?.recover_intents(&mut known)?;
        Ok(Some(known))
    }

    /// Returns the record of a scaffold, including the records of its paths that other entities owned before.
    fn known(&self, work: &Work<'_>, known: Option<Remembered<Record>>) -> Result<Remembrance> {
        work.check_claims(self)?;
        let mut remembered = known.unwrap_or_else(|| Remembered::new(&work.entity.to_report(), Record::default()));
        self.tracker.rename_to_canonical(remembered.base.tracks_mut());
        let held = self.tracker.held_below(&work.target, &work.shared.claims(self.host).all)?;
        let takes_over = self.tracker.adopt(&mut remembered, work.paths().chain(held))?;
        work.check_edits(self)?;
        Ok(Remembrance { remembered, takes_over })
    }

    fn plan(&self, work: &Work<'_>, record: &Record, is_apply: bool) -> Result<Plan> {
        let claims = work.shared.claims(self.host);
        let others = work.entity.others.iter().map(PathBuf::as_path);
        let layers = work.definition.purge.then(|| work.shared.layers(self.host, &self.tracker).keys());
        let others = others.chain(claims.paths.paths()).chain(layers.into_iter().flatten().map(PathBuf::as_path));
        let others = others.filter(|other| other.starts_with(&work.target)).map(Path::to_owned).collect();
        Plan::new(&Circumstances {
            host: self.host,
            definition: work.definition,
            target: &work.target,
            tracker: &self.inside(&work.target)?,
            record,
            rendered: &work.rendered,
            others: &others,
            is_apply,
            has_programs: &|path| work.programs.are_for(path),
        })
    }

    pub(crate) fn shown(&self, path: &Path) -> String {
        self.host.below_root(path).display().to_string()
    }
}

fn is_known_sensitive(record: &Record, path: &Path) -> bool {
    record.tracks().get(path).is_some_and(|track| track.sensitive)
}

/// A definition together with its rendered items.
struct Work<'a> {
    entity: &'a Scaffold,
    definition: &'a ScaffoldDefinition,
    /// The canonical path of the target.
    target: PathBuf,
    rendered: Rendered,
    validations: Programs<'a>,
    programs: Programs<'a>,
    shared: Arc<Shared>,
}

impl<'a> Work<'a> {
    fn new(entity: &'a Scaffold, definition: &'a ScaffoldDefinition, executor: &Executor<'_>) -> Result<Work<'a>> {
        let (rendered, warnings) = render::render(definition, &entity.file, executor.host)?;
        executor.warnings.borrow_mut().extend(warnings);
        let target = executor.tracker.canonical(&entity.target)?;
        let validations = Programs::new(&definition.validate, &target, entity.timeout)?;
        let programs = Programs::new(&definition.post, &target, entity.timeout)?;
        Ok(Work { entity, definition, target, rendered, validations, programs, shared: entity.together.shared() })
    }

    /// Returns the paths of the target and of all rendered items.
    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        std::iter::once(self.target.clone()).chain(self.rendered.keys().map(|path| self.target.join(path)))
    }

    /// Returns the files whose content must not be displayed.
    fn sensitive(&self) -> impl Iterator<Item = PathBuf> {
        let sensitive = self.rendered.iter().filter(|(_, item)| item.is_sensitive());
        sensitive.map(|(path, _)| self.target.join(path))
    }

    /// Returns an error if a file has an edit: each would take the lines of the other for manual changes.
    fn check_edits(&self, executor: &Executor<'_>) -> Result<()> {
        let layers = self.shared.layers(executor.host, &executor.tracker);
        let edited = self.paths().filter_map(|path| Some((executor.shown(&path), layers.get(&path)?.as_ref()?))).next();
        edited.map_or(Ok(()), |(shown, edit)| {
            let problem = format!("{shown} is made by {}, and edited by {edit}; one of both has to go", self.shown());
            Err(ScaffoldError::Never(problem))
        })
    }

    /// Returns the ID of the entity and its definition file.
    fn shown(&self) -> String {
        Claim::new(&self.entity.id(), &self.target, std::slice::from_ref(&self.entity.file)).shown()
    }

    /// Checks that no other entity claims one of the paths, or a parent of one in a conflicting way.
    fn check_claims(&self, executor: &Executor<'_>) -> Result<()> {
        for path in self.paths() {
            // The files that another entity creates in a tree are only known after they have been created.
            let claims = self.shared.claims(executor.host);
            let rival = executor.tracker.rival(&path, &self.entity.id(), &claims.all)?;
            let other = claims.paths.conflict(&path, false);
            if let Some(other) = other.or(rival.filter(|rival| rival.is_tree)) {
                let shown = executor.host.below_root(&path);
                let problem = format!(
                    "{} is made by {}, and ruled by {}; one of both has to go",
                    shown.display(),
                    self.shown(),
                    other.shown()
                );
                return Err(ScaffoldError::Never(problem));
            }
        }
        Ok(())
    }
}

/// The steps of scrubbing.
struct Scrubbing {
    changes: Vec<(Change, PathBuf)>,
    found: Found,
    /// The paths that cannot be restored while there is an overlay on them.
    waiting: Vec<PathBuf>,
}

impl Scrubbing {
    /// Returns true if all that is left are files with overlays, and their directories.
    fn only_waits(&self) -> bool {
        let is_needed = |path: &PathBuf| self.waiting.iter().any(|waits| waits.starts_with(path));
        !self.waiting.is_empty() && self.found.keys().all(is_needed)
    }
}

impl Executor<'_> {
    /// Checks what scrubbing would do.
    fn check_scrubbing(&self, entity: &Scaffold) -> Result<Verdict> {
        let Some(mut remembered) = self.recall(entity)? else { return Ok(Verdict::InDesiredState) };
        let shared = entity.together.shared();
        let claims = &shared.claims(self.host).paths;
        self.tracker.forget_taken(remembered.base.tracks_mut(), &entity.id(), claims);
        let scrubbing = self.scrubbing(entity, &remembered.base, false)?;
        if scrubbing.only_waits() || scrubbing.found.is_empty() {
            return Ok(Verdict::InDesiredState);
        }
        let words = |(change, path): &(Change, PathBuf)| format!("{} {}", change.doing(), self.shown(path));
        Ok(Verdict::WouldChange(scrubbing.changes.iter().map(words).collect()))
    }

    /// Returns the steps of scrubbing, or an error if it needs force.
    fn scrubbing(&self, entity: &Scaffold, record: &Record, force: bool) -> Result<Scrubbing> {
        let tracker = self.inside(&self.tracker.canonical(&entity.target)?)?;
        let mut scrubbing = Scrubbing { changes: Vec::new(), found: Found::new(), waiting: Vec::new() };
        let mut refused = Vec::new();
        let mut gone = BTreeSet::new();
        // The entries of a directory come before the directory, which is removed if all of them are.
        for (path, track) in record.tracks().iter().rev() {
            if tracker.is_overlaid(&path) {
                scrubbing.waiting.push(path);
                continue;
            }
            let current = tracker.state_of(record.tracks(), &path)?;
            // Provisioned directories are only removed if they are empty, so that no files of others are lost.
            let leaves = matches!(current, State::Directory { .. }) && track.base == State::Absent;
            let decision = self.tracker.decide(&path, Some(track), &current, &track.base)?;
            if decision == Decision::NeedsForce && !leaves && !record.is_due(&path) {
                refused.push(format!("{} has been changed", self.shown(&path)));
            }
            let stays = leaves && tracker.entries(&path)?.iter().any(|name| !gone.contains(&path.join(name)));
            let is_base = current == track.base;
            scrubbing.found.insert(path.clone(), current);
            if is_base || stays {
                continue;
            }
            let change = if track.base == State::Absent { Change::Remove } else { Change::Restore };
            if change == Change::Remove {
                gone.insert(path.clone());
            }
            scrubbing.changes.push((change, path));
        }
        scrubbing.changes.reverse();
        refused.reverse();
        if refused.is_empty() || force { Ok(scrubbing) } else { Err(ScaffoldError::NeedsForce(refused.join(", "))) }
    }

    /// Removes the record of an orphan.
    pub(crate) fn forget(&self, entity: &Scaffold, output: &mut Output<'_>) -> Result<()> {
        let _held = Tree::open(self.host.state_dir())?.hold()?;
        if let Some(remembered) = self.recall(entity)? {
            self.host.keep_originals(entity.id(), (&self.tracker, remembered.base.tracks()), output)?;
        }
        Ok(self.memory.forget(&entity.id())?)
    }

    /// Restores the state before the first apply.
    fn scrub(&self, entity: &Scaffold, mode: Mode<'_>, output: &mut Output<'_>) -> Result<Applied> {
        let Some(mut remembered) = self.recovered(entity)? else { return Ok(Applied::Unchanged) };
        let scrubbing = self.scrubbing(entity, &remembered.base, mode.force)?;
        if scrubbing.only_waits() {
            return Ok(Applied::Unchanged);
        }
        let nothing = Found::new();
        let found = if mode.force { &nothing } else { &scrubbing.found };
        let tracker = self.inside(&self.tracker.canonical(&entity.target)?)?;
        self.has_begun.set(true);
        if mode.force {
            let records = (&tracker, remembered.base.tracks());
            self.host.save_edited_of(entity.id(), records, &scrubbing.found, output).map_err(of_change)?;
        }
        let changed = scrubbing.changes.iter().map(|(_, path)| path.as_path());
        let changed = changed.filter(|path| !is_known_sensitive(&remembered.base, path));
        crate::preview::keep_replaced(changed, &self.tracker, self.host, output);
        tracker.scrub(&mut remembered, found).map_err(of_change)?;
        for path in &scrubbing.waiting {
            output.warning(format!("{} will be restored when its overlay is removed", self.shown(path)));
        }
        // A killed scrub may have left nothing but the record; or another entity determines what is left.
        let (shared, id) = (entity.together.shared(), entity.id());
        let is_taken = |path: &PathBuf| shared.claims(self.host).paths.is_taken_from(&id, path);
        if scrubbing.changes.is_empty() && scrubbing.found.keys().all(is_taken) {
            return Ok(Applied::Unchanged);
        }
        // A file may have been created in a directory in the meantime, and the directory was kept.
        let is_done = |(change, path): &(Change, PathBuf)| *change != Change::Remove || !exists(&tracker, path);
        let done = scrubbing.changes.iter().filter(|change| is_done(change));
        Ok(Applied::Changed(done.map(|(change, path)| format!("{} {}", change.done(), self.shown(path))).collect()))
    }
}

fn exists(tracker: &Tracker, path: &Path) -> bool {
    tracker.place(path).exists().unwrap_or(true)
}
