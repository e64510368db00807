//! Walks the plan: decides which entities are applied or checked, which are left out, and which are refreshed.

mod blocked;
mod holds;
mod in_order;
mod judged;
mod outcome;

use crate::diff::View;
use crate::diff::preview::Preview;
use crate::discovery::inventory::Inventory;
use crate::discovery::remembered::Remembered;
use crate::entities::Entity;
use crate::entities::node::{EntityIndex, PerEntity, PluginIndex, Table};
use crate::error::FatalError;
use crate::generations::{Fingerprint, Values};
use crate::host::interrupt::Interrupt;
use crate::host::settings::Settings;
use crate::plan::Plan;
use crate::plan::refresh::Refreshes;
use crate::plan::select::Selected;
use crate::plan::sent::SentValues;
use crate::plugin::{Job, Plugin, Progress, Task};
use crate::report::{End, Event, Remarks, Reporter, Silence};
use blocked::Blocked;
use bstr::{BStr, BString};
use holds::Hold;
use holo_events::Tally;
use holo_protocol::{FilePair, Message};
use holo_state::StateError;
use in_order::{InOrder, Work};
use jiff::{Timestamp, Zoned};
use outcome::{Outcome, Rules, Said};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use std::{iter, mem};

/// A run over the selected entities of a plan.
pub struct Walk<'a> {
    /// All entities, in version 3's order.
    entities: &'a PerEntity<Entity>,
    selected: &'a Selected,
    plan: &'a Plan,
    plugins: &'a mut Table<PluginIndex, Plugin>,
    /// Resolves the file names that plugins report.
    view: View<'a>,
    /// Ends the walk early.
    interrupt: &'a Interrupt,
    /// The operation to run on each entity.
    task: Task,
    /// Whether the first failure ends the walk.
    fail_fast: bool,
    /// Whether a check previews a forced apply.
    forces: bool,
    shows_differences: bool,
    refreshes: Refreshes,
    /// The last value that each entity sent under each name.
    sent: SentValues,
    /// For each receiver, the number of the last change to its received values that its plugin has seen.
    renewed: HashMap<EntityIndex, u64>,
    /// Values that describe the states of entities, if they are kept for a rollback.
    values: Option<Values>,
    /// The outcome of each entity that has been applied or checked so far, including unselected requirements.
    ends: PerEntity<Option<End>>,
    /// The time that schedules are compared with. It is fixed for the whole walk, so that no schedule opens or closes
    /// halfway through.
    begin: Zoned,
    /// Entities that are not changed now, although their definitions do not say so: they were deferred by their plugins,
    /// or one of their requirements is not changed now.
    waiting: HashMap<EntityIndex, Hold>,
    /// Entities that act at every apply, and need not do so now unless they are refreshed.
    acted: HashSet<EntityIndex>,
    /// Orphans that a check found to need force.
    refused: Vec<EntityIndex>,
    /// Plugins with an entity that a check found pending.
    pending: HashSet<PluginIndex>,
    /// The inputs that define the entities. If set, orphans are scrubbed only while these inputs stay the same.
    inputs: Option<&'a Fingerprint>,
    /// Whether those inputs are known to have changed.
    inputs_have_changed: bool,
    /// What earlier applies have found out.
    remembered: &'a mut Remembered,
    /// Whether an entity has been changed.
    has_changed: bool,
}

impl<'a> Walk<'a> {
    /// Returns a walk over the selected entities.
    pub fn new(
        inventory: &'a mut Inventory,
        selected: &'a Selected,
        settings: &'a Settings,
        interrupt: &'a Interrupt,
        task: Task,
        (refreshes, sent): (Refreshes, SentValues),
    ) -> Walk<'a> {
        Walk {
            entities: &inventory.entities,
            selected,
            plan: &inventory.plan,
            plugins: &mut inventory.plugins,
            view: View { root: &settings.root, resources: &inventory.resources },
            interrupt,
            task,
            fail_fast: false,
            forces: false,
            shows_differences: false,
            refreshes,
            sent,
            renewed: HashMap::new(),
            values: None,
            ends: Table::filled(None, inventory.entities.len()),
            begin: Zoned::now(),
            waiting: HashMap::new(),
            acted: HashSet::new(),
            pending: HashSet::new(),
            refused: Vec::new(),
            inputs: None,
            inputs_have_changed: false,
            remembered: &mut inventory.remembered,
            has_changed: false,
        }
    }

    /// Sets whether a check previews a forced apply, in which refused entities count as pending changes.
    #[must_use]
    pub fn with_force(self, forces: bool) -> Walk<'a> {
        Walk { forces, ..self }
    }

    /// Sets whether the differences that the work makes, or would make, are shown.
    #[must_use]
    pub fn with_differences(self, shows_differences: bool) -> Walk<'a> {
        Walk { shows_differences, ..self }
    }

    /// Sets whether the walk ends with the first entity that fails or is refused. Entities are then applied one at a
    /// time, because a plugin that works on a set does not stop in the middle of it.
    #[must_use]
    pub fn fail_fast(self, fail_fast: bool) -> Walk<'a> {
        Walk { fail_fast, ..self }
    }

    /// Sets where the values that describe the states of entities are kept, if anywhere.
    #[must_use]
    pub fn with_values(self, values: Option<Values>) -> Walk<'a> {
        Walk { values, ..self }
    }

    /// Leaves orphans alone once these inputs have changed, because their definitions may be about to come back.
    #[must_use]
    pub fn with_inputs(self, inputs: &'a Fingerprint) -> Walk<'a> {
        Walk { inputs: Some(inputs), ..self }
    }

    /// Sets which entities are left alone because they were repaired too often, and which entities that act at every
    /// apply need not do so now.
    #[must_use]
    pub fn with_limits(mut self, left_alone: &HashSet<EntityIndex>, acted: &HashSet<EntityIndex>) -> Walk<'a> {
        self.waiting.extend(left_alone.iter().map(|&entity| (entity, Hold::LeftAlone)));
        Walk { acted: acted.clone(), ..self }
    }

    /// Works on the selected entities, in the plan's order.
    ///
    /// # Errors
    /// Only what ends the run. Failures of entities are reported as events and counted.
    pub fn go(mut self, reporter: &mut dyn Reporter) -> Result<Tally, FatalError> {
        reporter.event(Event::WorkBegins { forgets: self.task == Task::Forget });
        // A check marks more refreshes as expected, but those are not due.
        let due_before = self.refreshes.due().count();
        let worked = self.work_on_all(reporter);
        let due = match &worked {
            _ if self.task == Task::Check => due_before,
            Ok(_) => self.refreshes.due().count(),
            Err(_) => self.refreshes.due_if_ended_now(),
        };
        reporter.event(Event::RefreshesDue(due));
        worked
    }

    /// Works on the selected entities, and finishes the files that are written meanwhile.
    fn work_on_all(&mut self, reporter: &mut dyn Reporter) -> Result<Tally, FatalError> {
        let mut tally = Tally::default();
        let sets = self.plan.sets(self.selected);
        let sets = if self.fail_fast { sets.into_iter().flatten().map(|entity| vec![entity]).collect() } else { sets };
        for set in &sets {
            self.look_at_inputs(set);
            for (hold, part) in self.parts(set) {
                self.work_on_part(&part, hold, reporter)?;
            }
            for end in set.iter().filter_map(|&entity| self.ends[entity]) {
                tally.count(end.into());
                tally.left_out += usize::from(end == End::ConditionNotMet);
            }
            if self.fail_fast && tally.failed + tally.refused > 0 {
                break;
            }
        }
        let has_changed = tally.changed > 0;
        if has_changed && self.task.is_apply() {
            self.judge(&sets, &mut tally, reporter)?;
        }
        self.keep_values(|values| values.finish(has_changed), reporter);
        if self.task != Task::Check {
            self.sent.finish()?;
            self.refreshes.secure()?;
        }
        Ok(tally)
    }

    /// Checks whether the inputs have changed, if the set contains orphans.
    fn look_at_inputs(&mut self, set: &[EntityIndex]) {
        if let Some(inputs) = self.inputs
            && !self.inputs_have_changed
            && set.iter().any(|&entity| self.entities[entity].is_orphan())
        {
            self.inputs_have_changed = inputs.changed(self.view.root).is_some();
        }
    }

    /// Writes values. A failure is reported once and does not end the run.
    fn keep_values(&mut self, write: impl FnOnce(&mut Values) -> Result<(), StateError>, reporter: &mut dyn Reporter) {
        if let Some(values) = &mut self.values
            && let Err(error) = write(values)
        {
            self.values = None;
            reporter.warning(format!("Not storing the values of entities for a rollback: {error}"));
            reporter.end_paragraph();
        }
    }

    /// Works on entities of one plugin that do not depend on each other, and records their outcomes. Entities on hold
    /// are only checked.
    fn work_on_part(
        &mut self,
        part: &[EntityIndex],
        hold: Option<Hold>,
        reporter: &mut dyn Reporter,
    ) -> Result<(), FatalError> {
        if hold == Some(Hold::Acted) {
            for &entity in part {
                self.ends[entity] = Some(End::Unchanged);
                reporter.event(Event::Begin(&self.entities[entity]));
                reporter.event(Event::End(&self.entities[entity], End::Unchanged, Duration::ZERO));
            }
            return Ok(());
        }
        let able = self.leave_out(part, reporter)?;
        let task = if hold.is_some() { Task::Check } else { self.task };
        if hold.is_none() {
            self.expect_refreshes(&able)?;
        }
        let pending = able.iter().map(|&entity| self.pending_before(entity)).collect();
        let request = Request { task, previews: self.previews(&able)?, pending, hold };
        let outcomes = self.work_with(&able, request, reporter)?;
        for (&entity, outcome) in able.iter().zip(outcomes) {
            let end = outcome.end();
            self.ends[entity] = Some(end);
            if hold.is_some() {
                // Whatever the check reports, no refresh has become due or was done.
                continue;
            }
            match (end, self.task) {
                (End::Pending, Task::Check) => drop(self.pending.insert(self.entities[entity].plugin)),
                (End::Refused, Task::Check) if self.entities[entity].is_orphan() => self.refused.push(entity),
                (End::Pending, _) => drop(self.waiting.insert(entity, Hold::Deferred)),
                _ => {}
            }
            if let Some(values) = &mut self.values {
                values.note(self.entities[entity].id(), &outcome.kept, end == End::Changed);
            }
            if self.task != Task::Forget {
                self.note_refreshes(entity, &outcome);
            }
        }
        self.keep_values(Values::write, reporter);
        if self.task == Task::Check { Ok(()) } else { self.refreshes.record() }
    }

    /// Returns the ID of an entity that precedes this one and is pending in a check, so that an apply would find this
    /// one in a different state.
    fn pending_before(&self, entity: EntityIndex) -> Option<&'a BStr> {
        let mut before = self.plan.waits_for(entity).filter(|_| self.task == Task::Check);
        before
            .find(|&other| self.ends[other] == Some(End::Pending) && self.hold(other).is_none())
            .map(|other| self.entities[other].id())
    }

    /// Leaves out entities that cannot be worked on, and returns the others.
    fn leave_out(&mut self, set: &[EntityIndex], reporter: &mut dyn Reporter) -> Result<Vec<EntityIndex>, FatalError> {
        let mut able = Vec::new();
        for &entity in set {
            // Nothing depends on a record.
            let blocked = if self.task == Task::Forget { None } else { self.blocked(entity)? };
            let Some(Blocked { end, reason, waits, is_unknown }) = blocked else {
                able.push(entity);
                continue;
            };
            if waits {
                self.waiting.insert(entity, Hold::Requirement);
            }
            self.ends[entity] = Some(end);
            reporter.event(Event::Begin(&self.entities[entity]));
            match end {
                End::Failed => reporter.event(Event::Failed(Some(&reason))),
                End::ConditionNotMet => reporter.event(Event::Message(&Message::Skipped(reason.into()))),
                End::Pending => reporter.warning(&reason),
                _ => reporter.event(Event::Skipped(&reason)),
            }
            if is_unknown {
                reporter.event(Event::Message(&Message::Unknown));
            }
            reporter.event(Event::End(&self.entities[entity], end, Duration::ZERO));
        }
        Ok(able)
    }

    /// Checks an unselected requirement silently.
    fn check_unselected(&mut self, entity: EntityIndex) -> Result<End, FatalError> {
        let end = if self.plan.conflicts_of(entity).next().is_some() {
            End::Failed
        } else if self.hold(entity) == Some(Hold::Acted) {
            End::Unchanged
        } else {
            // The requirement is not applied, so force does not matter.
            let forces = mem::take(&mut self.forces);
            let outcomes = self.work(&[entity], Task::Check, &mut Silence)?;
            let end = |outcome: &Outcome<'_>| if outcome.is_unknown() { End::Unchanged } else { outcome.end() };
            self.forces = forces;
            // If the plugin cannot tell, do not hold back the dependents.
            outcomes.first().map_or(End::Pending, end)
        };
        self.ends[entity] = Some(end);
        Ok(end)
    }
}

/// A request to work on a set.
struct Request<'a> {
    task: Task,
    /// For each entity, one that precedes it and is pending.
    pending: Vec<Option<&'a BStr>>,
    previews: Vec<Option<Preview>>,
    /// The reason for which the entities are only checked, if any.
    hold: Option<Hold>,
}

impl<'a> Walk<'a> {
    /// Requests previews of these entities from their plugin.
    fn previews(&mut self, set: &[EntityIndex]) -> Result<Vec<Option<Preview>>, FatalError> {
        let Some(&first) = set.first().filter(|_| self.shows_differences) else { return Ok(Vec::new()) };
        let renewed = self.renew(set)?;
        let jobs =
            set.iter().zip(renewed).map(|(&entity, renewed)| Job { renewed, ..Job::new(self.entities[entity].id()) });
        let jobs: Vec<Job<'_>> = jobs.collect();
        let pairs = self.plugins[self.entities[first].plugin].preview(&jobs, self.interrupt)?;
        let load = |(pair, job): (Option<FilePair>, &Job<'_>)| Preview::load(&pair?, job.id, self.view).ok();
        Ok(pairs.into_iter().zip(&jobs).map(load).collect())
    }

    fn work(
        &mut self,
        set: &[EntityIndex],
        task: Task,
        reporter: &mut dyn Reporter,
    ) -> Result<Vec<Outcome<'a>>, FatalError> {
        self.work_with(set, Request { task, pending: Vec::new(), previews: Vec::new(), hold: None }, reporter)
    }

    /// Has a plugin work on its entities, some of which come after pending ones. Returns their outcomes.
    fn work_with(
        &mut self,
        set: &[EntityIndex],
        request: Request<'a>,
        reporter: &mut dyn Reporter,
    ) -> Result<Vec<Outcome<'a>>, FatalError> {
        let Request { task, pending, previews, hold } = request;
        let entities: Vec<&Entity> = set.iter().map(|&entity| &self.entities[entity]).collect();
        let Some(first) = entities.first() else { return Ok(Vec::new()) };
        let renewed = self.renew(set)?;
        let received: Vec<Vec<BString>> = set.iter().map(|&entity| self.received(entity)).collect();
        // A set may contain hundreds of thousands of entities.
        let room = set.len();
        let (mut jobs, mut works, mut outcomes) =
            (Vec::with_capacity(room), Vec::with_capacity(room), Vec::with_capacity(room));
        let mut pending = pending.into_iter().chain(iter::repeat(None));
        // Other plugins need not declare what a change provides, such as the files of a package.
        let may_be_brought = self.pending.iter().any(|&plugin| plugin != first.plugin);
        for ((&entity, renewed), received) in set.iter().zip(renewed).zip(&received) {
            let (id, wanted) = (self.entities[entity].id(), self.plan.wanted(entity));
            let before = pending.next().flatten();
            let (refresh, pending) = (self.refreshes.is_due(id), may_be_brought || before.is_some());
            let due_since = self.refreshes.left_since(id).map(Timestamp::as_second);
            jobs.push(Job { id, refresh, due_since, pending, received, wanted, renewed });
            works.push(Work::new(&self.entities[entity], self.refreshes.due_because_of(id)));
            outcomes.push(Outcome::new(task, before));
        }
        // An entity on hold could not be forced either.
        let adopts = self.plugins[first.plugin].adopts();
        let rules = Rules { task, forces: self.forces || hold.is_some(), view: self.view, adopts };
        let explained = hold.filter(|_| self.task != Task::Check).map(Hold::reason);
        let mut in_order = InOrder::new(works, rules, explained, previews, reporter);
        let (refreshes, sent) = (&mut self.refreshes, &mut self.sent);
        let walk_checks = self.task == Task::Check;
        let mut written = Ok(());
        let mut on_progress = |index: usize, progress: Progress<'_>| {
            let (Some(outcome), Some(&entity)) = (outcomes.get_mut(index), entities.get(index)) else { return };
            match progress {
                Progress::Burst { is_over } => return in_order.burst(is_over),
                Progress::Waiting(time) => return in_order.waiting(index, time),
                _ => {}
            }
            let said = outcome.take(progress, entity.id(), rules);
            // An entity that an apply only checks does not have the values that depend on a change.
            let has_values = outcome.is_untouched() || walk_checks || task != Task::Check;
            if matches!(said, Said::Done) && has_values && !outcome.sent.is_empty() && written.is_ok() {
                sent.take(entity.id(), entity.plugin_id(), &outcome.sent);
                if !walk_checks {
                    if !outcome.is_untouched() {
                        refreshes.send(entity.id(), &outcome.sent);
                    }
                    // Written now, so that a kill before the other entities are finished does not lose it.
                    written = sent.record().and_then(|()| refreshes.record());
                }
            }
            in_order.take(index, said, outcome);
        };
        let mut asked: Vec<usize> = Vec::new();
        for (index, (&entity, job)) in set.iter().zip(&jobs).enumerate() {
            let is_as_remembered = matches!(task, Task::Check | Task::Apply)
                && job.is_plain()
                && self.remembered.is_unchanged(entity, &self.entities[entity], self.has_changed);
            if let Some(kept) = is_as_remembered.then(|| self.remembered.kept(&self.entities[entity])) {
                for value in kept {
                    on_progress(index, Progress::Message(Message::Keep(value.clone())));
                }
                on_progress(index, Progress::Message(Message::NotChanged));
                on_progress(index, Progress::Done);
            } else {
                asked.push(index);
            }
        }
        let plugin = &mut self.plugins[first.plugin];
        if !asked.is_empty() {
            let jobs: Vec<Job<'_>> = asked.iter().filter_map(|&index| jobs.get(index).copied()).collect();
            if self.remembered.needs_scan(&plugin.id) {
                // Its list of entities is known, but not to this process of the plugin. A failure is one of the work too.
                let _ = plugin.scan(None, self.interrupt, &mut |_, _| {});
            }
            plugin.work(task, &jobs, self.interrupt, &mut |index, progress| {
                if let Some(&index) = asked.get(index) {
                    on_progress(index, progress);
                }
            })?;
        }
        written?;
        for index in asked {
            let (Some(&entity), Some(outcome)) = (set.get(index), outcomes.get_mut(index)) else { continue };
            let is_plain = jobs.get(index).is_some_and(Job::is_plain);
            let finding = outcome.take_finding().filter(|_| is_plain);
            self.has_changed |= outcome.is_changed();
            self.remembered.note(entity, first.plugin, outcome.is_changed(), finding);
        }
        Ok(outcomes)
    }
}
