//! Works on a scaffold: checks and applies what is declared, and puts back what was there before.

use crate::definition::ScaffoldDefinition;
use crate::entity::Scaffold;
use crate::obstacle::{Obstacle, Result};
use crate::plan::{Change, Circumstances, Plan};
use crate::post::Programs;
use crate::record::Record;
use crate::render::{self, Rendered};
use crate::source::Item;
use holo_plugin::memory::{Memory, Remembered};
use holo_plugin::tracked::{self, Decision, State, Tracker};
use holo_plugin::{Applied, Entity, ForceTo, Host, Kind, Mode, Output, Tree, Verdict};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Everything that is needed to work on a scaffold.
pub(crate) struct Workshop<'a> {
    host: &'a Host,
    pub(crate) memory: Memory,
    pub(crate) tracker: Tracker,
}

/// What is declared, and what that is rendered into.
struct Work<'a> {
    entity: &'a Scaffold,
    definition: &'a ScaffoldDefinition,
    rendered: Rendered,
    programs: Programs<'a>,
}

impl<'a> Work<'a> {
    fn of(entity: &'a Scaffold, definition: &'a ScaffoldDefinition, host: &Host) -> Result<Work<'a>> {
        let rendered = render::render(definition, &entity.file, host)?;
        Ok(Work { entity, definition, rendered, programs: Programs::of(definition, entity.timeout)? })
    }
}

impl<'a> Workshop<'a> {
    pub(crate) fn open(host: &'a Host) -> Result<Workshop<'a>> {
        let memory = Memory::open(host)?;
        let tracker = Tracker::open(host, &memory)?;
        Ok(Workshop { host, memory, tracker })
    }

    pub(crate) fn recall(&self, entity: &Scaffold) -> Result<Option<Remembered<Record>>> {
        Ok(self.memory.recall(&entity.id())?)
    }

    /// What is at paths, without leaving the target.
    pub(crate) fn inside(&self, target: &Path) -> Result<Tracker> {
        let kind = self.tracker.place(target).looks()?.map(|looks| looks.kind);
        let wrong = match kind {
            None | Some(Kind::Directory) => {
                self.tracker.place(target).check_way()?;
                return Ok(self.tracker.inside(target)?);
            }
            Some(Kind::Symlink) => "a symlink",
            Some(Kind::File) => "a file",
            Some(Kind::Other) => "neither a file, a symlink nor a directory",
        };
        Err(Obstacle::Never(format!("{} is {wrong}, and would have to be a directory", self.shown(target))))
    }

    pub(crate) fn check(&self, entity: &Scaffold) -> Result<Verdict> {
        let Some(definition) = entity.wanted() else { return self.check_scrubbing(entity) };
        let work = Work::of(entity, definition, self.host)?;
        let known = self.recall(entity)?;
        let plan = self.plan(&work, &known.map_or_else(Record::default, |known| known.base))?;
        if let Some(reason) = plan.refusal(self.host) {
            return Err(Obstacle::NeedsForce(reason));
        }
        if plan.is_empty() {
            return Ok(Verdict::InDesiredState);
        }
        Ok(Verdict::WouldChange(plan.shown(self.host, Change::doing)))
    }

    pub(crate) fn apply(&self, entity: &Scaffold, mode: Mode<'_>, output: &mut Output<'_>) -> Result<Applied> {
        // What takes time, and touches nothing that others hold, comes first.
        let work = entity.wanted().map(|definition| Work::of(entity, definition, self.host)).transpose()?;
        // Of two dispatchers, one may have been killed while its plugin still works.
        let _held = Tree::open(self.host.state_dir())?.hold()?;
        let applied = match work {
            Some(work) => self.provision(&work, mode, output)?,
            None => self.scrub(entity, mode)?,
        };
        let id = entity.id();
        if let Err(error) = self.tracker.tidy::<Record>(|other| other == id, output) {
            output.warning(error.to_string());
        }
        Ok(applied)
    }

    /// What is known of a scaffold, after what a killed run has left is put in order.
    fn settled(&self, entity: &Scaffold) -> Result<Option<Remembered<Record>>> {
        let Some(mut known) = self.recall(entity)? else { return Ok(None) };
        self.inside(&entity.target)?.settle(&mut known)?;
        Ok(Some(known))
    }

    fn plan(&self, work: &Work<'_>, record: &Record) -> Result<Plan> {
        Plan::of(&Circumstances {
            host: self.host,
            definition: work.definition,
            tracker: &self.inside(work.definition.target())?,
            record,
            rendered: &work.rendered,
            others: &work.entity.others,
            has_programs: &|path| work.programs.are_for(path),
        })
    }

    fn provision(&self, work: &Work<'_>, mode: Mode<'_>, output: &mut Output<'_>) -> Result<Applied> {
        let known = self.settled(work.entity)?.map(|known| known.base).unwrap_or_default();
        let plan = self.plan(work, &known)?;
        if let Some(reason) = plan.refusal(self.host).filter(|_| !mode.force) {
            return Err(Obstacle::NeedsForce(reason));
        }
        if plan.is_empty() {
            return Ok(Applied::Unchanged);
        }
        let mut remembered = Remembered::new(&work.entity.report(), known);
        self.make(work, &plan, &mut remembered)?;
        self.call_programs(work, &plan, &mut remembered, output)?;
        // Whoever reads it now has to find what was wanted.
        let left = self.plan(work, &remembered.base)?;
        if !left.is_empty() {
            let what = left.refusal(self.host).unwrap_or_else(|| left.shown(self.host, Change::doing).join(", "));
            return Err(Obstacle::Never(format!("the target is not as it should be after all: {what}")));
        }
        Ok(Applied::Changed(plan.shown(self.host, Change::done)))
    }

    /// Carries a plan out. A kill at any moment does no harm: what was begun is known as ours, and the rest is still to be done.
    fn make(&self, work: &Work<'_>, plan: &Plan, remembered: &mut Remembered<Record>) -> Result<()> {
        let target = work.definition.target();
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
        // Without a target there is nothing to stay inside of.
        if let Some(first) = plan.make.first() {
            self.tracker.make(remembered, std::slice::from_ref(first))?;
        }
        let tracker = self.inside(target)?;
        if !plan.restore.is_empty() {
            tracker.put_back(remembered, &plan.restore)?;
        }
        for path in &plan.found_anew {
            remembered.base.tracks_mut().forget(path);
        }
        if !plan.clear.is_empty() {
            let gone: Vec<(PathBuf, State)> = plan.clear.iter().map(|path| (path.clone(), State::Absent)).collect();
            tracker.make(remembered, &gone)?;
        }
        tracker.make(remembered, &plan.make)?;
        Ok(())
    }

    /// Calls the programs of the files that have changed, and takes what they have made of them for ours.
    fn call_programs(
        &self,
        work: &Work<'_>,
        plan: &Plan,
        remembered: &mut Remembered<Record>,
        output: &mut Output<'_>,
    ) -> Result<()> {
        let tracker = self.inside(work.definition.target())?;
        let due: Vec<&(PathBuf, State)> = plan.make.iter().filter(|(path, _)| remembered.base.is_due(path)).collect();
        if due.is_empty() {
            return Ok(());
        }
        for (path, rendered) in due {
            work.programs.call(path, self.host, output)?;
            let made = tracker.state(path)?;
            if made == *rendered {
                continue;
            }
            if !matches!(made, State::File { .. }) {
                return Err(Obstacle::Never(format!("a program has made {} a {}", self.shown(path), made.kind())));
            }
            tracker.keep(&tracker.place(path))?;
            remembered.base.set_rendered(path, rendered.clone(), made);
        }
        remembered.base.set_due(&BTreeSet::new());
        Ok(self.memory.keep(remembered)?)
    }

    fn check_scrubbing(&self, entity: &Scaffold) -> Result<Verdict> {
        let Some(remembered) = self.recall(entity)? else { return Ok(Verdict::InDesiredState) };
        let changes = self.changes_of_scrubbing(entity, &remembered.base, false)?;
        Ok(Verdict::WouldChange(
            changes.into_iter().map(|(change, path)| format!("{} {path}", change.doing())).collect(),
        ))
    }

    /// What scrubbing changes, unless it has to be forced to.
    fn changes_of_scrubbing(&self, entity: &Scaffold, record: &Record, force: bool) -> Result<Vec<(Change, String)>> {
        let tracker = self.inside(&entity.target)?;
        let (mut changes, mut refused) = (Vec::new(), Vec::new());
        let mut gone = BTreeSet::new();
        // What is in a directory comes before it: it goes if all of that does.
        for (path, track) in record.tracks().iter().rev() {
            let current = tracker.state(&path)?;
            // A directory of ours goes only if it is empty, so nothing of anybody's is lost.
            let leaves = matches!(current, State::Directory { .. }) && track.base == State::Absent;
            let decision = tracked::decide(Some(track), &current, &track.base);
            if decision == Decision::NeedsForce(ForceTo::Overwrite) && !leaves && !record.is_due(&path) {
                refused.push(format!("{} has been changed", self.shown(&path)));
            }
            let stays = leaves
                && tracker.place(&path.join("x")).siblings()?.iter().any(|name| !gone.contains(&path.join(name)));
            if current == track.base || stays {
                continue;
            }
            let change = if track.base == State::Absent { Change::Remove } else { Change::Restore };
            changes.push((change, self.shown(&path)));
            if change == Change::Remove {
                gone.insert(path);
            }
        }
        changes.reverse();
        refused.reverse();
        if refused.is_empty() || force { Ok(changes) } else { Err(Obstacle::NeedsForce(refused.join(", "))) }
    }

    /// Puts back what was there before.
    fn scrub(&self, entity: &Scaffold, mode: Mode<'_>) -> Result<Applied> {
        let Some(mut remembered) = self.settled(entity)? else { return Ok(Applied::Unchanged) };
        let changes = self.changes_of_scrubbing(entity, &remembered.base, mode.force)?;
        self.inside(&entity.target)?.scrub(&mut remembered)?;
        Ok(Applied::Changed(changes.into_iter().map(|(change, path)| format!("{} {path}", change.done())).collect()))
    }

    pub(crate) fn shown(&self, path: &Path) -> String {
        self.host.below_root(path).display().to_string()
    }
}
