//! Walks the plan: whose turn it is, who has to be left out, and who is to be refreshed.

use crate::entity::Entity;
use crate::error::Fatal;
use crate::in_order::{Ended, InOrder};
use crate::interrupt::Interrupt;
use crate::inventory::Inventory;
use crate::plan::{Plan, Requirement};
use crate::plugin::{Job, Plugin, Task};
use crate::refresh::Refreshes;
use crate::report::line::Tally;
use crate::report::{End, Event, Remarks, Reporter, Silence};
use crate::settings::Settings;
use crate::view::View;
use bstr::{BStr, BString};
use holo_protocol::Message;

/// The entities to be walked, and the way in which it is done.
pub struct Walk<'a> {
    /// All entities, in version 3's order.
    entities: &'a [Entity],
    /// Their dependencies.
    plan: &'a Plan,
    /// The plugins that the entities name by their indices.
    plugins: &'a mut [Plugin],
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
    /// The refreshes that are due.
    refreshes: Refreshes,
}

/// A reason for not working on an entity.
struct Obstacle {
    /// The end of the entity because of it.
    end: End,
    reason: String,
}

impl<'a> Walk<'a> {
    /// A walk over all that was found.
    pub fn over(
        inventory: &'a mut Inventory,
        settings: &'a Settings,
        interrupt: &'a Interrupt,
        task: Task,
        refreshes: Refreshes,
    ) -> Walk<'a> {
        Walk {
            entities: &inventory.entities,
            plan: &inventory.plan,
            plugins: &mut inventory.plugins,
            view: View { root: &settings.root, resources: &inventory.resources },
            interrupt,
            task,
            fail_fast: false,
            forces: false,
            refreshes,
        }
    }

    /// Looks at what force would do, if that is wanted: what would be refused without it counts as a change then.
    #[must_use]
    pub fn with_force(self, forces: bool) -> Walk<'a> {
        Walk { forces, ..self }
    }

    /// Ends with the first entity that fails or is refused, if that is wanted. Then entities are worked on one by one, as a plugin that has a
    /// set in its hands goes on with the others.
    #[must_use]
    pub fn fail_fast(self, fail_fast: bool) -> Walk<'a> {
        Walk { fail_fast, ..self }
    }

    /// Works on the selected entities, in the plan's order.
    ///
    /// # Errors
    /// Only what ends the run: what goes wrong with an entity is an event, and counted.
    pub fn go(mut self, selected: &[bool], reporter: &mut dyn Reporter) -> Result<Tally, Fatal> {
        reporter.event(Event::WorkBegins);
        let mut tally = Tally::default();
        let mut ends: Vec<Option<End>> = vec![None; self.entities.len()];
        let sets = self.plan.sets(selected);
        let sets = if self.fail_fast { sets.into_iter().flatten().map(|entity| vec![entity]).collect() } else { sets };
        for set in sets {
            let able = self.leave_out(&set, selected, &mut ends, reporter)?;
            self.expect_refreshes(&able)?;
            let pending = able.iter().map(|&entity| self.pending_before(entity, &ends)).collect();
            for (&entity, ended) in able.iter().zip(self.work(&able, self.task, pending, reporter)?) {
                ends[entity] = Some(ended.end);
                self.settle_refreshes(entity, &ended);
            }
            if self.task != Task::Check {
                self.refreshes.record()?;
            }
            set.iter().filter_map(|&entity| ends[entity]).for_each(|end| tally.count(end.into()));
            let left_out = |entity: &&usize| ends[**entity] == Some(End::ConditionNotMet);
            tally.left_out += set.iter().filter(left_out).count();
            if self.fail_fast && tally.failed + tally.refused > 0 {
                break;
            }
        }
        if self.task != Task::Check {
            self.refreshes.finish()?;
        }
        Ok(tally)
    }

    /// Returns the ID of an entity that comes before this one and is pending in a check, so that this one would find it in another state.
    fn pending_before(&self, entity: usize, ends: &[Option<End>]) -> Option<&'a BStr> {
        let mut before = self.plan.waits_for(entity).filter(|_| self.task == Task::Check);
        before.find(|&other| ends[other] == Some(End::Pending)).map(|other| self.entities[other].id())
    }

    /// Has the entities worked on, which all belong to one plugin and do not depend on each other; how each of them ended.
    fn work(
        &mut self,
        set: &[usize],
        task: Task,
        pending: Vec<Option<&BStr>>,
        reporter: &mut dyn Reporter,
    ) -> Result<Vec<Ended>, Fatal> {
        let entities: Vec<&Entity> = set.iter().map(|&entity| &self.entities[entity]).collect();
        let Some(first) = entities.first() else { return Ok(Vec::new()) };
        let received: Vec<Vec<BString>> = entities.iter().map(|entity| self.refreshes.received(entity.id())).collect();
        let jobs: Vec<Job<'_>> = entities
            .iter()
            .zip(&received)
            .map(|(entity, received)| Job { id: entity.id(), refresh: self.refreshes.is_due(entity.id()), received })
            .collect();
        let refresh = jobs.iter().map(|job| job.refresh).collect();
        let mut in_order =
            InOrder::new(&entities, refresh, task, self.view, reporter).after(pending).with_force(self.forces);
        self.plugins[first.plugin].work(task, &jobs, self.interrupt, &mut |index, progress| {
            in_order.take(index, progress);
        })?;
        Ok(in_order.ends())
    }

    /// Leaves out what cannot be worked on; the others.
    fn leave_out(
        &mut self,
        set: &[usize],
        selected: &[bool],
        ends: &mut [Option<End>],
        reporter: &mut dyn Reporter,
    ) -> Result<Vec<usize>, Fatal> {
        let mut able = Vec::new();
        for &entity in set {
            let obstacle = match self.claimed_by_others(entity, selected, ends) {
                Some(obstacle) => Some(obstacle),
                None => self.obstacle(entity, selected, ends)?,
            };
            let Some(Obstacle { end, reason }) = obstacle else {
                able.push(entity);
                continue;
            };
            ends[entity] = Some(end);
            reporter.event(Event::Begin(&self.entities[entity]));
            match end {
                End::Failed => reporter.event(Event::Failed(Some(&reason))),
                End::ConditionNotMet => reporter.event(Event::Message(&Message::Skipped(reason.into()))),
                End::Pending => reporter.warning(&reason),
                _ => reporter.event(Event::Skipped(&reason)),
            }
            reporter.event(Event::End(&self.entities[entity], end));
        }
        Ok(able)
    }

    /// Returns the reason for leaving an entity alone if others own the same, or if it hands over to others that have not taken over.
    fn claimed_by_others(&self, entity: usize, selected: &[bool], ends: &[Option<End>]) -> Option<Obstacle> {
        let conflicts: Vec<String> =
            self.plan.conflicts_of(entity).map(|conflict| conflict.describe(self.entities)).collect();
        if !conflicts.is_empty() {
            return Some(Obstacle { end: End::Failed, reason: conflicts.join("; ") });
        }
        self.plan.successors(entity).iter().find_map(|&successor| {
            let takes_over = format!("{} takes over from it", self.entities[successor].id());
            let end = ends[successor].filter(|_| selected.get(successor) == Some(&true));
            let (end, how) = match end {
                Some(End::Unchanged | End::Changed) => return None,
                // Before that it cannot be told what will be left to do.
                Some(End::Pending) => (End::Pending, ""),
                Some(End::ConditionNotMet) => (End::ConditionNotMet, ", and is left out"),
                None => (End::ConditionNotMet, ", and is not selected"),
                Some(End::Refused) => {
                    (End::DependencyFailed, ", which is not in its desired state (--force is needed)")
                }
                Some(End::DependencyFailed) => (End::DependencyFailed, ", which was skipped"),
                Some(End::Failed) => (End::DependencyFailed, ", which failed"),
            };
            Some(Obstacle { end, reason: takes_over + how })
        })
    }

    /// Returns the reason for which an entity cannot be worked on, if there is one.
    fn obstacle(
        &mut self,
        entity: usize,
        selected: &[bool],
        ends: &mut [Option<End>],
    ) -> Result<Option<Obstacle>, Fatal> {
        for requirement in self.plan.requirements(entity) {
            let required = match requirement {
                Requirement::Unknown(id) => {
                    let reason = format!("requires {id}, which does not exist");
                    return Ok(Some(Obstacle { end: End::Failed, reason }));
                }
                Requirement::Entity(required) => *required,
            };
            let end = match ends[required] {
                Some(end) => end,
                None => self.check(required, ends)?,
            };
            let id = self.entities[required].id();
            let how = match end {
                End::Unchanged | End::ConditionNotMet | End::Changed => continue,
                // It is only looked at now, and would have been applied by the time.
                End::Pending if self.task == Task::Check && selected.get(required) == Some(&true) => continue,
                End::Pending => "which is not in its desired state",
                End::Refused => "which is not in its desired state (--force is needed)",
                End::DependencyFailed => "which was skipped",
                End::Failed => "which failed",
            };
            return Ok(Some(Obstacle { end: End::DependencyFailed, reason: format!("requires {id}, {how}") }));
        }
        Ok(None)
    }

    /// Finds out, without changing or showing anything, how a requirement is that is not selected.
    fn check(&mut self, entity: usize, ends: &mut [Option<End>]) -> Result<End, Fatal> {
        if self.plan.conflicts_of(entity).next().is_some() {
            ends[entity] = Some(End::Failed);
            return Ok(End::Failed);
        }
        // It is not applied, by force or otherwise.
        let forces = std::mem::take(&mut self.forces);
        let ended = self.work(&[entity], Task::Check, Vec::new(), &mut Silence)?;
        self.forces = forces;
        // Of what its plugin cannot tell nothing is claimed, and nobody is kept from work because of it.
        let end = ended.first().map_or(End::Pending, |ended| if ended.is_unknown { End::Unchanged } else { ended.end });
        ends[entity] = Some(end);
        Ok(end)
    }

    /// Writes down which refreshes will be due if the entities change. What is known to have nothing to change is spared that.
    fn expect_refreshes(&mut self, set: &[usize]) -> Result<(), Fatal> {
        if self.task == Task::Check {
            return Ok(());
        }
        let sources: Vec<usize> =
            set.iter().copied().filter(|&entity| !self.plan.refreshes(entity).is_empty()).collect();
        let mut is_anything_new = false;
        let verdicts = self.work(&sources, Task::Check, Vec::new(), &mut Silence)?;
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

    fn expect_of(&mut self, source: usize) {
        for &target in self.plan.refreshes(source) {
            let target = &self.entities[target];
            self.refreshes.expect(self.entities[source].id(), target.id(), target.plugin_id());
        }
    }

    /// Notes what became of an entity, as the source of refreshes and as their target. What would change would be refreshed too.
    fn settle_refreshes(&mut self, entity: usize, Ended { end, sent, is_untouched, .. }: &Ended) {
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
