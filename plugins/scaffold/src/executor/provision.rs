//! Carries out the plan of a defined scaffold.

use super::{Executor, Remembrance, Work, is_known_sensitive};
use crate::error::{Result, ScaffoldError, of_change};
use crate::plan::{Change, Plan};
use crate::record::Record;
use crate::source::Item;
use holo_change::base_store::Remembered;
use holo_change::tracked::{Found, PathChange, State};
use holo_plugin::{Applied, Mode, Output, edited};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

impl Executor<'_> {
    /// Provisions the target.
    pub(super) fn provision(&self, work: &Work<'_>, mode: Mode<'_>, output: &mut Output<'_>) -> Result<Applied> {
        let Remembrance { remembered, takes_over } = self.known(work, self.recovered(work.entity)?)?;
        let plan = self.plan(work, &remembered.base, true)?;
        work.entity.settle(&plan, &remembered.base);
        if let Some(reason) = plan.refusal(self.host).filter(|_| !mode.overwrites()) {
            return Err(ScaffoldError::NeedsForce(reason));
        }
        let becomes_sensitive = work.sensitive().any(|path| !is_known_sensitive(&remembered.base, &path));
        // A state that is right, but not recorded, is recorded, so that a later manual change is recognized.
        let provisioned = |path: &Path| remembered.base.tracks().get(path)?.provisioned.as_ref();
        let is_recorded = plan.make.iter().all(|(path, state)| provisioned(path) == Some(state));
        if plan.is_empty() && takes_over.is_empty() && !becomes_sensitive && is_recorded {
            return Ok(Applied::Unchanged);
        }
        self.validate(work, &plan, &remembered.base, output)?;
        let mut remembered = Remembered::new(&work.entity.to_report(), remembered.base);
        self.has_begun.set(true);
        let changed = plan.changes.iter().filter(|(_, change)| **change != Change::RunPrograms);
        let sensitive: BTreeSet<PathBuf> = work.sensitive().collect();
        let may_be_kept = |path: &Path| !sensitive.contains(path) && !is_known_sensitive(&remembered.base, path);
        let changed = changed.filter(|(path, _)| may_be_kept(path));
        crate::preview::keep_replaced(changed.map(|(path, _)| path.as_path()), &self.tracker, self.host, output);
        let mut changes = Vec::new();
        for path in plan.edited().filter(|path| !mode.force || plan.has_content(path)) {
            let place = self.tracker.place(path);
            let kept = self.host.keep_edited(work.entity.id(), path, &place, !may_be_kept(path));
            if Some(&kept.map_err(of_change)?) != plan.found.get(path) {
                return Err(ScaffoldError::NeedsForce(format!("{} was changed meanwhile", self.shown(path))));
            }
            changes.push(edited::kept(&self.host.below_root(path)));
        }
        self.make(work, &plan, &mut remembered, mode.force)?;
        for other in takes_over {
            output.warning(format!("{} takes over from {other}", work.entity.id()));
        }
        if plan.is_empty() {
            return Ok(Applied::Unchanged);
        }
        self.call_programs(work, &plan, &mut remembered, output)?;
        // A second plan must be empty.
        let left = self.plan(work, &remembered.base, true)?;
        if !left.is_empty() {
            let what = left.refusal(self.host).unwrap_or_else(|| left.shown(self.host, Change::doing).join(", "));
            return Err(ScaffoldError::Never(format!("the target is not as it should be after all: {what}")));
        }
        changes.extend(plan.shown(self.host, Change::done));
        Ok(Applied::Changed(changes))
    }

    /// Runs the validation programs for all files that would be written, before the first file is written.
    fn validate(&self, work: &Work<'_>, plan: &Plan, record: &Record, output: &mut Output<'_>) -> Result<()> {
        let mut problems = Vec::new();
        for (path, _) in plan.changes.iter().filter(|(_, change)| matches!(change, Change::Make | Change::Write)) {
            let item = path.strip_prefix(&work.target).ok().and_then(|below| work.rendered.get(below));
            let Some(Item::File { bytes, sensitive, .. }) = item else { continue };
            let is_sensitive = *sensitive || is_known_sensitive(record, path);
            if let Err(error) = work.validations.validate(path, bytes, is_sensitive, self.host, output) {
                problems.push(format!("{}: {error}", self.shown(path)));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(ScaffoldError::Never(problems.join("; "))) }
    }

    /// Carries out a plan. A kill at any time is harmless: the next apply recognizes its own changes, and makes the
    /// remaining ones.
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
            // A path that is cleared no longer exists.
            found: found.get(path).filter(|_| !plan.clear.contains(path)).cloned(),
            sensitive: sensitive.contains(path),
            ..PathChange::new(path, state.clone())
        };
        let wanted: Vec<PathChange> = plan.make.iter().map(|(path, state)| change(path, state)).collect();
        // A tracker inside the target requires that the target exists.
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

    /// Runs the programs of the files that have changed, and records their results as provisioned.
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
}
