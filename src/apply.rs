//! Walks the plan: which entities are worked on, left out and refreshed.

mod asking;
mod blocked;
mod handovers;
mod holds;
mod outbox;

use crate::entity::Entity;
use crate::error::{FatalError, IoError};
use crate::generations::{Fingerprint, Values};
use crate::index::{EntityIndex, PerEntity, PluginIndex, Table};
use crate::interrupt::Interrupt;
use crate::inventory::Inventory;
use crate::plan::Plan;
use crate::plugin::{Plugin, Task};
use crate::refresh::Refreshes;
use crate::report::{End, Event, Remarks, Reporter, Silence};
use crate::select::Selected;
use crate::sent::SentValues;
use crate::settings::Settings;
use crate::view::View;
use asking::Request;
use blocked::Blocked;
use bstr::BStr;
use holds::Hold;
use holo_events::Tally;
use holo_protocol::Message;
use jiff::Zoned;
use std::collections::{HashMap, HashSet};
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
    /// The inputs that define the entities, if those that nothing defines are only scrubbed as long as they stay the same.
    inputs: Option<&'a Fingerprint>,
    /// True if those inputs are known to have changed.
    inputs_have_changed: bool,
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
            inputs: None,
            inputs_have_changed: false,
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

    /// Leaves orphans alone once these inputs have changed: their definitions may be about to come back.
    #[must_use]
    pub fn with_inputs(self, inputs: &'a Fingerprint) -> Walk<'a> {
        Walk { inputs: Some(inputs), ..self }
    }

    /// Works on the selected entities, in the plan's order.
    ///
    /// # Errors
    /// Only what ends the run: what goes wrong with an entity is an event, and counted.
    pub fn go(mut self, reporter: &mut dyn Reporter) -> Result<Tally, FatalError> {
        reporter.event(Event::WorkBegins);
        // A check foresees more, which are not due.
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

    /// Works on the selected entities, and ends what is written meanwhile.
    fn work_on_all(&mut self, reporter: &mut dyn Reporter) -> Result<Tally, FatalError> {
        let mut tally = Tally::default();
        let sets = self.plan.sets(self.selected);
        let sets = if self.fail_fast { sets.into_iter().flatten().map(|entity| vec![entity]).collect() } else { sets };
        for set in sets {
            self.look_at_inputs(&set);
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
        if self.task != Task::Check {
            self.sent.finish()?;
            self.refreshes.secure()?;
        }
        Ok(tally)
    }

    /// Finds out whether the inputs have changed, if entities would be scrubbed.
    fn look_at_inputs(&mut self, set: &[EntityIndex]) {
        if let Some(inputs) = self.inputs
            && !self.inputs_have_changed
            && set.iter().any(|&entity| self.entities[entity].is_orphan())
        {
            self.inputs_have_changed = inputs.changed(self.view.root).is_some();
        }
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
}
