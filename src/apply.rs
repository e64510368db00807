//! Walks the plan: which entities are worked on, left out and refreshed.

mod blocked;
mod holds;
mod outbox;

use crate::entity::Entity;
use crate::error::{FatalError, IoError};
use crate::generations::Values;
use crate::in_order::{Ended, InOrder, Work};
use crate::index::{EntityIndex, PerEntity, PluginIndex, Table};
use crate::interrupt::Interrupt;
use crate::inventory::Inventory;
use crate::plan::{Plan, Reception};
use crate::plugin::{Job, Plugin, Task};
use crate::preview::Preview;
use crate::refresh::Refreshes;
use crate::report::{End, Event, Remarks, Reporter, Silence};
use crate::select::Selected;
use crate::sent::SentValues;
use crate::settings::Settings;
use crate::view::View;
use blocked::Blocked;
use bstr::{BStr, BString, ByteSlice};
use holds::Hold;
use holo_events::Tally;
use holo_protocol::{FilePair, Message, Receipt};
use jiff::Zoned;
use outbox::Outbox;
use std::collections::{HashMap, HashSet};
use std::iter;
use std::time::Duration;

/// The entities to be walked, and the way in which it is done.
pub struct Walk<'a> {
    /// All entities, in version 3's order.
    entities: &'a PerEntity<Entity>,
    /// The entities that are worked on.
    selected: &'a Selected,
    /// The dependencies of the entities.
    plan: &'a Plan,
    plugins: &'a mut Table<PluginIndex, Plugin>,
    /// The view of files that plugins name.
    view: View<'a>,
    /// The signal that ends the walk before its time.
    interrupt: &'a Interrupt,
    /// The work on each entity.
    task: Task,
    /// True if the first failure ends the walk.
    fail_fast: bool,
    /// True if a check looks at what force would do.
    forces: bool,
    /// True if differences are shown.
    shows_differences: bool,
    /// The refreshes that are due.
    refreshes: Refreshes,
    /// The last values that entities have sent.
    sent: SentValues,
    /// The numbers of the last changes of what entities receive that their plugins know.
    renewed: HashMap<EntityIndex, u64>,
    /// The values that belong to the states of entities, if they are kept.
    values: Option<Values>,
    /// The end of each entity that has been done with, or looked at for another one.
    ends: PerEntity<Option<End>>,
    /// The time that schedules are compared with: one for the whole walk, so that none of them opens or closes in the middle of it.
    begin: Zoned,
    /// The entities that are not changed as something that they require is not.
    waiting: HashSet<EntityIndex>,
    /// The plugins of which a check has found an entity that would be changed.
    pending: HashSet<PluginIndex>,
}

/// The work that is wanted on a set.
struct Request<'a> {
    task: Task,
    /// For each entity another one that comes before it and is pending.
    pending: Vec<Option<&'a BStr>>,
    previews: Vec<Option<Preview>>,
    /// The reason for which the entities are only checked, if they are.
    hold: Option<Hold>,
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
            waiting: HashSet::new(),
            pending: HashSet::new(),
        }
    }

    /// Looks at what force would do, if that is wanted: what would be refused without it counts as a change then.
    #[must_use]
    pub fn with_force(self, forces: bool) -> Walk<'a> {
        Walk { forces, ..self }
    }

    /// Shows the differences that the work makes, or would make, if that is wanted.
    #[must_use]
    pub fn with_differences(self, shows_differences: bool) -> Walk<'a> {
        Walk { shows_differences, ..self }
    }

    /// Ends with the first entity that fails or is refused, if that is wanted. Then entities are worked on one by one, as a plugin that has a
    /// set in its hands goes on with the others.
    #[must_use]
    pub fn fail_fast(self, fail_fast: bool) -> Walk<'a> {
        Walk { fail_fast, ..self }
    }

    /// Keeps the values that belong to the states of entities, if that is wanted.
    #[must_use]
    pub fn with_values(self, values: Option<Values>) -> Walk<'a> {
        Walk { values, ..self }
    }

    /// Works on the selected entities, in the plan's order.
    ///
    /// # Errors
    /// Only what ends the run: what goes wrong with an entity is an event, and counted.
    pub fn go(mut self, reporter: &mut dyn Reporter) -> Result<Tally, FatalError> {
        reporter.event(Event::WorkBegins);
        let mut tally = Tally::default();
        // A check foresees more, which are not due.
        let due_before = self.refreshes.due().count();
        let sets = self.plan.sets(self.selected);
        let sets = if self.fail_fast { sets.into_iter().flatten().map(|entity| vec![entity]).collect() } else { sets };
        for set in sets {
            for (hold, part) in self.parts(&set) {
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
        self.keep_values(|values| values.finish(has_changed), reporter);
        let due = if self.task == Task::Check {
            due_before
        } else {
            self.sent.finish()?;
            self.refreshes.finish()?;
            self.refreshes.due().count()
        };
        reporter.event(Event::RefreshesDue(due));
        Ok(tally)
    }

    /// Writes values down. That they cannot be is said once, and no reason to end the work.
    fn keep_values(&mut self, write: impl FnOnce(&mut Values) -> Result<(), IoError>, reporter: &mut dyn Reporter) {
        if let Some(values) = &mut self.values
            && let Err(error) = write(values)
        {
            self.values = None;
            reporter.warning(format!("Not keeping what is known of entities for a rollback: {error}"));
            reporter.end_paragraph();
        }
    }

    /// Works on entities of one plugin that do not depend on each other, and keeps how each of them ended. Those that are held are checked.
    fn work_on_part(
        &mut self,
        part: &[EntityIndex],
        hold: Option<Hold>,
        reporter: &mut dyn Reporter,
    ) -> Result<(), FatalError> {
        let able = self.leave_out(part, reporter)?;
        let task = if hold.is_some() { Task::Check } else { self.task };
        if hold.is_none() {
            self.expect_refreshes(&able)?;
        }
        let pending = able.iter().map(|&entity| self.pending_before(entity)).collect();
        let request = Request { task, previews: self.previews(&able)?, pending, hold };
        let ended = self.work_with(&able, request, reporter)?;
        for (&entity, ended) in able.iter().zip(ended) {
            self.ends[entity] = Some(ended.end);
            if hold.is_some() {
                // Whatever it is found to be, no refresh has become due or was done.
                continue;
            }
            if self.task == Task::Check && ended.end == End::Pending {
                self.pending.insert(self.entities[entity].plugin);
            }
            if let Some(values) = &mut self.values {
                values.note(self.entities[entity].id(), &ended.kept, ended.end == End::Changed);
            }
            self.note_refreshes(entity, &ended);
        }
        self.keep_values(Values::write, reporter);
        if self.task == Task::Check { Ok(()) } else { self.refreshes.record() }
    }

    /// Returns the ID of an entity that comes before this one and is pending in a check, so that this one would find it in another state.
    fn pending_before(&self, entity: EntityIndex) -> Option<&'a BStr> {
        let mut before = self.plan.waits_for(entity).filter(|_| self.task == Task::Check);
        before
            .find(|&other| self.ends[other] == Some(End::Pending) && self.hold(other).is_none())
            .map(|other| self.entities[other].id())
    }

    /// Asks the plugin of these entities for what it would make of them.
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

    fn work(&mut self, set: &[EntityIndex], task: Task, reporter: &mut dyn Reporter) -> Result<Vec<Ended>, FatalError> {
        self.work_with(set, Request { task, pending: Vec::new(), previews: Vec::new(), hold: None }, reporter)
    }

    /// Has a plugin work on its entities, some of which come after others that are pending. Returns how each of them ended.
    fn work_with(
        &mut self,
        set: &[EntityIndex],
        request: Request<'_>,
        reporter: &mut dyn Reporter,
    ) -> Result<Vec<Ended>, FatalError> {
        let Request { task, pending, previews, hold } = request;
        let entities: Vec<&Entity> = set.iter().map(|&entity| &self.entities[entity]).collect();
        let Some(first) = entities.first() else { return Ok(Vec::new()) };
        let renewed = self.renew(set)?;
        let received: Vec<Vec<BString>> = set.iter().map(|&entity| self.received(entity)).collect();
        let mut jobs = Vec::new();
        let mut works = Vec::new();
        let mut pending = pending.into_iter().chain(iter::repeat(None));
        // Other plugins need not say what they bring, such as a package does.
        let may_be_brought = self.pending.iter().any(|&plugin| plugin != first.plugin);
        for ((&entity, renewed), received) in set.iter().zip(renewed).zip(&received) {
            let (id, wanted) = (self.entities[entity].id(), self.plan.wanted(entity));
            let before = pending.next().flatten();
            let (refresh, pending) = (self.refreshes.is_due(id), may_be_brought || before.is_some());
            jobs.push(Job { id, refresh, pending, received, wanted, renewed });
            works.push(Work::new(&self.entities[entity], self.refreshes.due_because_of(id), before));
        }
        // What is held could not be forced either.
        let forces = self.forces || hold.is_some();
        let explained = hold.filter(|_| self.task != Task::Check).map(Hold::reason);
        let mut in_order = InOrder::new(works, task, self.view, reporter)
            .with_force(forces)
            .with_previews(previews)
            .held_back(explained);
        let mut outbox = Outbox::new(set, task == Task::Check && self.task != Task::Check);
        let (refreshes, sent) = (&mut self.refreshes, &mut self.sent);
        let mut written = Ok(());
        self.plugins[first.plugin].work(task, &jobs, self.interrupt, &mut |index, progress| {
            if let Some(values) = outbox.take(index, &progress)
                && let Some(&entity) = entities.get(index)
                && written.is_ok()
            {
                sent.take(entity.id(), entity.plugin_id(), &values.sent);
                if self.task != Task::Check {
                    if values.may_have_changed {
                        refreshes.send(entity.id(), &values.sent);
                    }
                    // Not even a kill before the others are done with may lose them.
                    written = sent.record().and_then(|()| refreshes.record());
                }
            }
            in_order.take(index, progress);
        })?;
        written?;
        Ok(in_order.ends())
    }

    /// Leaves out what cannot be worked on, and returns the others.
    fn leave_out(&mut self, set: &[EntityIndex], reporter: &mut dyn Reporter) -> Result<Vec<EntityIndex>, FatalError> {
        let mut able = Vec::new();
        for &entity in set {
            let Some(Blocked { end, reason, waits, is_unknown }) = self.blocked(entity)? else {
                able.push(entity);
                continue;
            };
            if waits {
                self.waiting.insert(entity);
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

    /// Finds out, without changing or showing anything, how a requirement is that is not selected.
    fn check_unselected(&mut self, entity: EntityIndex) -> Result<End, FatalError> {
        let end = if self.plan.conflicts_of(entity).next().is_some() {
            End::Failed
        } else {
            // It is not applied, by force or otherwise.
            let forces = std::mem::take(&mut self.forces);
            let ended = self.work(&[entity], Task::Check, &mut Silence)?;
            self.forces = forces;
            // Of what its plugin cannot tell nothing is claimed, and nobody is kept from work because of it.
            ended.first().map_or(End::Pending, |ended| if ended.is_unknown { End::Unchanged } else { ended.end })
        };
        self.ends[entity] = Some(end);
        Ok(end)
    }

    /// Has plugins read what these entities receive. For each of them, returns true if that is something else than its plugin knows.
    fn renew(&mut self, set: &[EntityIndex]) -> Result<Vec<bool>, FatalError> {
        let mut renewed = Vec::new();
        for &entity in set {
            let receptions = self.plan.receptions(entity);
            let change = |Reception { receipt, .. }: &Reception| {
                self.sent.change(receipt.sender.as_bstr(), receipt.name.as_bstr())
            };
            let last = receptions.iter().map(change).max().unwrap_or_default();
            let known = self.renewed.insert(entity, last).unwrap_or_default();
            renewed.push(known < last);
        }
        if renewed.contains(&true) {
            self.sent.publish()?;
        }
        Ok(renewed)
    }

    /// Returns what an entity is sent as it is to be refreshed, and what it receives by its definition.
    fn received(&self, entity: EntityIndex) -> Vec<BString> {
        let mut received = self.refreshes.received(self.entities[entity].id());
        for Reception { receipt: Receipt { key, sender, name }, .. } in self.plan.receptions(entity) {
            if let Some(sent) = self.sent.get(sender.as_bstr(), name.as_bstr()) {
                received.push([&key[..], b"=", &sent.value.0].concat().into());
            }
        }
        received
    }

    /// Writes down which refreshes will be due if the entities change. What is known to have nothing to change is spared that.
    fn expect_refreshes(&mut self, set: &[EntityIndex]) -> Result<(), FatalError> {
        if self.task == Task::Check {
            return Ok(());
        }
        let sources: Vec<EntityIndex> =
            set.iter().copied().filter(|&entity| !self.plan.refreshes(entity).is_empty()).collect();
        let mut is_anything_new = false;
        let verdicts = self.work(&sources, Task::Check, &mut Silence)?;
        for (&source, verdict) in sources.iter().zip(verdicts) {
            let can_tell = self.plugins[self.entities[source].plugin].can_check();
            if matches!(verdict.end, End::Unchanged | End::ConditionNotMet) && can_tell {
                continue;
            }
            self.expect_of(source);
            is_anything_new = true;
        }
        if is_anything_new { self.refreshes.secure() } else { Ok(()) }
    }

    fn expect_of(&mut self, source: EntityIndex) {
        for &target in self.plan.refreshes(source) {
            let target = &self.entities[target];
            self.refreshes.expect(self.entities[source].id(), target.id(), target.plugin_id());
        }
    }

    /// Notes what became of an entity, as the source of refreshes and as their target. What would change would be refreshed too.
    fn note_refreshes(&mut self, entity: EntityIndex, Ended { end, sent, is_untouched, .. }: &Ended) {
        let id = self.entities[entity].id();
        match end {
            End::Pending if self.task != Task::Check => {}
            End::Changed | End::Pending => {
                self.expect_of(entity);
                self.refreshes.changed(id);
                self.refreshes.send(id, sent);
            }
            End::Unchanged | End::ConditionNotMet | End::Refused => self.refreshes.unchanged(id),
            End::Failed if *is_untouched => self.refreshes.unchanged(id),
            // It may have changed before it failed: the next run assumes that it did.
            End::DependencyFailed | End::Failed => {}
        }
        // An entity whose condition is not met now has still to be refreshed when it is.
        if matches!(end, End::Unchanged | End::Changed) {
            self.refreshes.done(id);
        }
    }
}
