//! Works on a scaffold: checks and applies what is declared, and puts back what was there before.

use crate::change::Change;
use crate::circumstances::Circumstances;
use crate::definition::ScaffoldDefinition;
use crate::entity::Scaffold;
use crate::error::{Result, ScaffoldError, of_change};
use crate::known::Known;
use crate::plan::Plan;
use crate::post::Programs;
use crate::preview::{self, After};
use crate::record::Record;
use crate::render::{self, Rendered};
use crate::source::Item;
use crate::together::Shared;
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::claims::Claim;
use holo_change::tracked::{Decision, Found, PathChange, State, Track, Tracker};
use holo_change::{Kind, Tree};
use holo_plugin::{Applied, FilePair, Host, Mode, Output, Verdict};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everything that is needed to work on a scaffold.
pub(crate) struct Executor<'a> {
    host: &'a Host,
    pub(crate) memory: BaseStore,
    pub(crate) tracker: Tracker,
    /// True if something may have been changed.
    has_begun: Cell<bool>,
    warnings: RefCell<Vec<String>>,
}

/// A definition, and the items that it is rendered into.
struct Work<'a> {
    entity: &'a Scaffold,
    definition: &'a ScaffoldDefinition,
    /// Without symlinks in its parents.
    target: PathBuf,
    rendered: Rendered,
    programs: Programs<'a>,
    shared: Arc<Shared>,
}

/// What is remembered of a scaffold.
struct Remembrance {
    remembered: Remembered<Record>,
    /// The entities that it takes over from.
    takes_over: Vec<String>,
}

/// The steps of scrubbing.
struct Scrubbing {
    changes: Vec<(Change, PathBuf)>,
    found: Found,
    /// The paths that wait until nothing is laid over them any more.
    waiting: Vec<PathBuf>,
}

impl<'a> Work<'a> {
    fn new(entity: &'a Scaffold, definition: &'a ScaffoldDefinition, executor: &Executor<'_>) -> Result<Work<'a>> {
        let (rendered, warnings) = render::render(definition, &entity.file, executor.host)?;
        executor.warnings.borrow_mut().extend(warnings);
        let target = executor.tracker.canonical(&entity.target)?;
        let programs = Programs::new(definition, &target, entity.timeout)?;
        Ok(Work { entity, definition, target, rendered, programs, shared: entity.together.shared() })
    }

    /// All paths that are made.
    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        std::iter::once(self.target.clone()).chain(self.rendered.keys().map(|path| self.target.join(path)))
    }

    /// The files that are to be shown nowhere.
    fn sensitive(&self) -> impl Iterator<Item = PathBuf> {
        let sensitive = self.rendered.iter().filter(|(_, item)| item.is_sensitive());
        sensitive.map(|(path, _)| self.target.join(path))
    }

    /// Sees to it that no other entity makes one of the paths too, or something else of one above them.
    fn check_claims(&self, executor: &Executor<'_>) -> Result<()> {
        for path in self.paths() {
            // What somebody makes in a tree is known only when it has been made.
            let claims = self.shared.claims(executor.host);
            let rival = || executor.tracker.rival(&path, &self.entity.id(), &claims.all);
            let other = claims.paths.conflict(&path, false);
            if let Some(other) = other.or_else(|| rival().filter(|rival| rival.is_tree)) {
                let shown = executor.host.below_root(&path);
                let own = Claim::new(&self.entity.id(), &self.target, std::slice::from_ref(&self.entity.file)).shown();
                let problem = format!(
                    "{} is made by {own}, and ruled by {}; one of both has to go",
                    shown.display(),
                    other.shown()
                );
                return Err(ScaffoldError::Never(problem));
            }
        }
        Ok(())
    }
}

impl<'a> Executor<'a> {
    /// Everything that is needed, of which some is shared with the other scaffolds of a set.
    pub(crate) fn in_set(host: &'a Host, shared: &Shared) -> Result<Executor<'a>> {
        let executor = Executor::open(host)?;
        Ok(Executor { tracker: executor.tracker.with_held(shared.held.clone()), ..executor })
    }

    pub(crate) fn open(host: &'a Host) -> Result<Executor<'a>> {
        let memory = BaseStore::open(host.locations())?;
        let tracker = Tracker::open(host.locations(), &memory)?;
        Ok(Executor { host, memory, tracker, has_begun: Cell::new(false), warnings: RefCell::default() })
    }

    /// Returns the warnings that have come up.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        self.warnings.take()
    }

    /// Returns true if something may have been changed by now.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.get()
    }

    pub(crate) fn recall(&self, entity: &Scaffold) -> Result<Option<Remembered<Record>>> {
        Ok(self.memory.recall(&entity.id())?)
    }

    /// Returns a tracker of paths that does not leave the target.
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

    pub(crate) fn check(&self, entity: &Scaffold) -> Result<Verdict> {
        let Some(definition) = entity.wanted() else { return self.check_scrubbing(entity) };
        let work = Work::new(entity, definition, self)?;
        let known = self.known(&work, self.recall(entity)?)?;
        let plan = self.plan(&work, &known.remembered.base, &Known::open(self.host))?;
        if let Some(reason) = plan.refusal(self.host) {
            return Err(ScaffoldError::NeedsForce(reason));
        }
        if plan.is_empty() {
            return Ok(Verdict::InDesiredState);
        }
        Ok(Verdict::WouldChange(plan.shown(self.host, Change::doing)))
    }

    /// Returns the directories that show what the target is, and what it would be, if they differ.
    pub(crate) fn preview(&self, entity: &Scaffold) -> Result<Option<FilePair>> {
        let target = self.tracker.canonical(&entity.target)?;
        let tracker = self.inside(&target)?;
        let base = |record: &Record, path: &Path| record.tracks().get(path).map(|track| track.base.clone());
        let mut files = Vec::new();
        match entity.wanted() {
            Some(definition) => {
                let work = Work::new(entity, definition, self)?;
                let known = self.known(&work, self.recall(entity)?)?.remembered.base;
                let plan = self.plan(&work, &known, &Known::nothing())?;
                for path in
                    plan.changes.iter().filter(|(_, change)| **change != Change::RunPrograms).map(|(path, _)| path)
                {
                    let item = path.strip_prefix(&target).ok().and_then(|below| work.rendered.get(below));
                    let restored = base(&known, path).filter(|_| plan.restore.contains(path));
                    let after = item.cloned().map_or(After::State(restored), After::Item);
                    let is_sensitive = item.is_some_and(Item::is_sensitive) || is_known_sensitive(&known, path);
                    files.push((path.clone(), if is_sensitive { After::Sensitive } else { after }));
                }
            }
            None => {
                let Some(remembered) = self.recall(entity)? else { return Ok(None) };
                let record = remembered.base;
                let paths = record.tracks().iter().filter(|(path, _)| !self.tracker.is_overlaid(path));
                let after = |track: &Track| match track.sensitive {
                    true => After::Sensitive,
                    false => After::State(Some(track.base.clone())),
                };
                files.extend(paths.map(|(path, track)| (path, after(track))));
            }
        }
        preview::write(entity, self.host, &target, &tracker, &files)
    }

    pub(crate) fn apply(&self, entity: &Scaffold, mode: Mode<'_>, output: &mut Output<'_>) -> Result<Applied> {
        // Work that takes time, and touches nothing that others hold, comes first.
        let work = entity.wanted().map(|definition| Work::new(entity, definition, self)).transpose()?;
        // Of two dispatchers, one may have been killed while its plugin still works.
        let _held = Tree::open(self.host.state_dir())?.hold()?;
        let applied = match work {
            Some(work) => self.provision(&work, mode, output)?,
            None => self.scrub(entity, mode, output)?,
        };
        // A set is tidied up after when all of it has been done.
        if !entity.together.is_set() {
            let id = entity.id();
            self.tidy_held(|other| other == id, output);
        }
        Ok(applied)
    }

    /// Removes what these entities do not need any more.
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

    /// Returns the record of a scaffold, and that of its paths if another entity had them before.
    fn known(&self, work: &Work<'_>, known: Option<Remembered<Record>>) -> Result<Remembrance> {
        work.check_claims(self)?;
        let mut remembered = known.unwrap_or_else(|| Remembered::new(&work.entity.to_report(), Record::default()));
        self.tracker.rename_to_canonical(remembered.base.tracks_mut());
        let held = self.tracker.held_below(&work.target, &work.shared.claims(self.host).all);
        let takes_over = self.tracker.adopt(&mut remembered, work.paths().chain(held))?;
        Ok(Remembrance { remembered, takes_over })
    }

    fn plan(&self, work: &Work<'_>, record: &Record, known: &Known) -> Result<Plan> {
        let others: Vec<PathBuf> = work
            .entity
            .others
            .iter()
            .cloned()
            .chain(work.shared.claims(self.host).paths.paths().map(Path::to_owned))
            .collect();
        Plan::new(&Circumstances {
            host: self.host,
            definition: work.definition,
            target: &work.target,
            tracker: &self.inside(&work.target)?,
            record,
            known,
            rendered: &work.rendered,
            others: &others,
            has_programs: &|path| work.programs.are_for(path),
        })
    }

    fn provision(&self, work: &Work<'_>, mode: Mode<'_>, output: &mut Output<'_>) -> Result<Applied> {
        let Remembrance { remembered, takes_over } = self.known(work, self.recovered(work.entity)?)?;
        let known = Known::open(self.host);
        let plan = self.plan(work, &remembered.base, &known)?;
        if let Some(reason) = plan.refusal(self.host).filter(|_| !mode.force) {
            return Err(ScaffoldError::NeedsForce(reason));
        }
        let becomes_sensitive = work.sensitive().any(|path| !is_known_sensitive(&remembered.base, &path));
        if plan.is_empty() && takes_over.is_empty() && !becomes_sensitive {
            known.keep();
            return Ok(Applied::Unchanged);
        }
        known.forget(plan.changes.keys().chain(&plan.restore).chain(&plan.clear));
        known.keep();
        let mut remembered = Remembered::new(&work.entity.to_report(), remembered.base);
        self.has_begun.set(true);
        let changed = plan.changes.iter().filter(|(_, change)| **change != Change::RunPrograms);
        let sensitive: BTreeSet<PathBuf> = work.sensitive().collect();
        let may_be_kept = |path: &Path| !sensitive.contains(path) && !is_known_sensitive(&remembered.base, path);
        let changed = changed.filter(|(path, _)| may_be_kept(path));
        preview::keep_replaced(changed.map(|(path, _)| path.as_path()), &self.tracker, self.host, output);
        self.make(work, &plan, &mut remembered, mode.force)?;
        for other in takes_over {
            output.warning(format!("{} takes over from {other}", work.entity.id()));
        }
        if plan.is_empty() {
            return Ok(Applied::Unchanged);
        }
        self.call_programs(work, &plan, &mut remembered, output)?;
        // A second plan has to find everything as wanted.
        let left = self.plan(work, &remembered.base, &Known::nothing())?;
        if !left.is_empty() {
            let what = left.refusal(self.host).unwrap_or_else(|| left.shown(self.host, Change::doing).join(", "));
            return Err(ScaffoldError::Never(format!("the target is not as it should be after all: {what}")));
        }
        Ok(Applied::Changed(plan.shown(self.host, Change::done)))
    }

    /// Carries a plan out. A kill at any moment does no harm: what was begun is known as ours, and the rest is still to be done.
    fn make(&self, work: &Work<'_>, plan: &Plan, remembered: &mut Remembered<Record>, force: bool) -> Result<()> {
        let files = work.rendered.values().filter_map(|item| match item {
            Item::File { bytes, .. } => Some(bytes.as_slice()),
            Item::Directory | Item::Symlink(_) => None,
        });
        self.tracker.keep_many(files)?;
        let changed = |path: &&Path| plan.changes.contains_key(*path) && work.programs.are_for(path);
        let is_file = |state: &State| matches!(state, State::File { .. });
        let files = plan.make.iter().filter(|(_, state)| is_file(state)).map(|(path, _)| path.as_path());
        let due: BTreeSet<&Path> = files.filter(changed).collect();
        let unchanged: BTreeSet<&Path> =
            plan.make.iter().map(|(path, _)| path.as_path()).filter(|path| !plan.changes.contains_key(*path)).collect();
        remembered.base.set_due(&due);
        remembered.base.forget_rendered(&unchanged);
        let nothing = Found::new();
        let found = if force { &nothing } else { &plan.found };
        let sensitive: BTreeSet<PathBuf> = work.sensitive().collect();
        let change = |path: &PathBuf, state: &State| PathChange {
            // A path that is cleared away is not there any more.
            found: found.get(path).filter(|_| !plan.clear.contains(path)).cloned(),
            sensitive: sensitive.contains(path),
            ..PathChange::new(path, state.clone())
        };
        let wanted: Vec<PathChange> = plan.make.iter().map(|(path, state)| change(path, state)).collect();
        // Without a target there is nothing to stay inside of.
        if let Some(first) = wanted.first() {
            self.tracker.make(remembered, std::slice::from_ref(first)).map_err(of_change)?;
        }
        let tracker = self.inside(&work.target)?;
        if !plan.restore.is_empty() {
            tracker.put_back(remembered, &plan.restore, found).map_err(of_change)?;
        }
        for path in &plan.found_anew {
            remembered.base.tracks_mut().forget(path);
        }
        if !plan.clear.is_empty() {
            let gone =
                |path: &PathBuf| PathChange { found: found.get(path).cloned(), ..PathChange::new(path, State::Absent) };
            let gone: Vec<PathChange> = plan.clear.iter().map(gone).collect();
            tracker.make(remembered, &gone).map_err(of_change)?;
        }
        tracker.make(remembered, &wanted).map_err(of_change)
    }

    /// Calls the programs of the files that have changed, and takes what they have made of them for ours.
    fn call_programs(
        &self,
        work: &Work<'_>,
        plan: &Plan,
        remembered: &mut Remembered<Record>,
        output: &mut Output<'_>,
    ) -> Result<()> {
        let tracker = self.inside(&work.target)?;
        let due: Vec<&(PathBuf, State)> = plan.make.iter().filter(|(path, _)| remembered.base.is_due(path)).collect();
        if due.is_empty() {
            return Ok(());
        }
        for (path, rendered) in due {
            let is_sensitive = is_known_sensitive(&remembered.base, path);
            work.programs.call(path, is_sensitive, self.host, output)?;
            let made = tracker.state(path)?;
            if made == *rendered {
                continue;
            }
            if !matches!(made, State::File { .. }) {
                return Err(ScaffoldError::Never(format!("a program has made {} a {}", self.shown(path), made.kind())));
            }
            tracker.keep(&tracker.place(path))?;
            remembered.base.set_rendered(path, rendered.clone(), made);
        }
        remembered.base.set_due(&BTreeSet::new());
        Ok(self.memory.keep(remembered)?)
    }

    fn check_scrubbing(&self, entity: &Scaffold) -> Result<Verdict> {
        let Some(remembered) = self.recall(entity)? else { return Ok(Verdict::InDesiredState) };
        let scrubbing = self.scrubbing(entity, &remembered.base, false)?;
        if !scrubbing.waiting.is_empty() && scrubbing.found.is_empty() {
            return Ok(Verdict::InDesiredState);
        }
        let words = |(change, path): &(Change, PathBuf)| format!("{} {}", change.doing(), self.shown(path));
        Ok(Verdict::WouldChange(scrubbing.changes.iter().map(words).collect()))
    }

    /// Returns the steps of scrubbing, unless it has to be forced to.
    fn scrubbing(&self, entity: &Scaffold, record: &Record, force: bool) -> Result<Scrubbing> {
        let tracker = self.inside(&self.tracker.canonical(&entity.target)?)?;
        let mut scrubbing = Scrubbing { changes: Vec::new(), found: Found::new(), waiting: Vec::new() };
        let mut refused = Vec::new();
        let mut gone = BTreeSet::new();
        // The content of a directory comes before it: it goes if all of that does.
        for (path, track) in record.tracks().iter().rev() {
            if tracker.is_overlaid(&path) {
                scrubbing.waiting.push(path);
                continue;
            }
            let current = tracker.state_of(record.tracks(), &path)?;
            // A directory of ours goes only if it is empty, so nothing of anybody's is lost.
            let leaves = matches!(current, State::Directory { .. }) && track.base == State::Absent;
            let decision = self.tracker.decide(&path, Some(track), &current, &track.base)?;
            if decision == Decision::NeedsForce && !leaves && !record.is_due(&path) {
                refused.push(format!("{} has been changed", self.shown(&path)));
            }
            let stays = leaves
                && tracker.place(&path.join("x")).siblings()?.iter().any(|name| !gone.contains(&path.join(name)));
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

    /// Puts back what was there before.
    fn scrub(&self, entity: &Scaffold, mode: Mode<'_>, output: &mut Output<'_>) -> Result<Applied> {
        let Some(mut remembered) = self.recovered(entity)? else { return Ok(Applied::Unchanged) };
        let scrubbing = self.scrubbing(entity, &remembered.base, mode.force)?;
        if !scrubbing.waiting.is_empty() && scrubbing.found.is_empty() {
            return Ok(Applied::Unchanged);
        }
        let nothing = Found::new();
        let found = if mode.force { &nothing } else { &scrubbing.found };
        let tracker = self.inside(&self.tracker.canonical(&entity.target)?)?;
        self.has_begun.set(true);
        let known = Known::open(self.host);
        known.forget(remembered.base.tracks().iter().map(|(path, _)| path));
        known.keep();
        let changed = scrubbing.changes.iter().map(|(_, path)| path.as_path());
        let changed = changed.filter(|path| !is_known_sensitive(&remembered.base, path));
        preview::keep_replaced(changed, &self.tracker, self.host, output);
        tracker.scrub(&mut remembered, found).map_err(of_change)?;
        for path in &scrubbing.waiting {
            output.warning(format!("{} comes back when nothing is laid over it any more", self.shown(path)));
        }
        // Somebody may have put something into a directory on the way.
        let is_done = |(change, path): &(Change, PathBuf)| *change != Change::Remove || !exists(&tracker, path);
        let done = scrubbing.changes.iter().filter(|change| is_done(change));
        Ok(Applied::Changed(done.map(|(change, path)| format!("{} {}", change.done(), self.shown(path))).collect()))
    }

    pub(crate) fn shown(&self, path: &Path) -> String {
        self.host.below_root(path).display().to_string()
    }
}

fn is_known_sensitive(record: &Record, path: &Path) -> bool {
    record.tracks().get(path).is_some_and(|track| track.sensitive)
}

fn exists(tracker: &Tracker, path: &Path) -> bool {
    tracker.place(path).exists().unwrap_or(true)
}
