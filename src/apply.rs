//! Walks the plan: whose turn it is, who has to be left out, and who is to be refreshed.

use crate::entity::Entity;
use crate::error::Fatal;
use crate::in_order::InOrder;
use crate::interrupt::Interrupt;
use crate::plan::{Plan, Requirement};
use crate::plugin::{Job, Plugin, Task};
use crate::refresh::Refreshes;
use crate::report::{End, Event, Reporter, Silence};
use crate::view::View;
use std::fmt;

/// What a walk needs: what there is, and how it is to be done.
pub struct Walk<'a> {
    /// All entities, in version 3's order.
    pub entities: &'a [Entity],
    /// How they depend on each other.
    pub plan: &'a Plan,
    /// The plugins that the entities name by their places.
    pub plugins: &'a mut [Plugin],
    /// How files are looked at.
    pub view: View<'a>,
    /// What ends the walk before its time.
    pub interrupt: &'a Interrupt,
    /// What is to be done with each entity.
    pub task: Task,
    /// Whether the first failure ends the walk.
    pub fail_fast: bool,
    /// The refreshes that are due.
    pub refreshes: Refreshes,
}

/// How many entities ended in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// In their desired state, as before.
    pub unchanged: usize,
    /// Brought into their desired state.
    pub changed: usize,
    /// Only looked at, and not known to be in their desired state.
    pub pending: usize,
    /// Left as they are for want of `--force`.
    pub refused: usize,
    /// Left out, since they require what is not in its desired state.
    pub skipped: usize,
    /// Gone wrong.
    pub failed: usize,
}

impl Tally {
    fn count(&mut self, end: End) {
        *match end {
            End::Unchanged => &mut self.unchanged,
            End::Changed => &mut self.changed,
            End::Pending => &mut self.pending,
            End::Refused => &mut self.refused,
            End::Skipped => &mut self.skipped,
            End::Failed => &mut self.failed,
        } += 1;
    }
}

impl fmt::Display for Tally {
    /// `14 entities: 3 changed, 11 unchanged`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { unchanged, changed, pending, refused, skipped, failed } = *self;
        let counts = [
            (changed, "changed"),
            (unchanged, "unchanged"),
            (pending, "pending"),
            (refused, "refused"),
            (skipped, "skipped"),
            (failed, "failed"),
        ];
        let all: usize = counts.iter().map(|(count, _)| count).sum();
        write!(f, "{all} {}", if all == 1 { "entity" } else { "entities" })?;
        let shown = counts.iter().filter(|(count, _)| *count > 0);
        for (index, (count, what)) in shown.enumerate() {
            write!(f, "{} {count} {what}", if index == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

impl Walk<'_> {
    /// Works on the selected entities, in the plan's order.
    ///
    /// # Errors
    /// Only what ends the run: what goes wrong with an entity is an event, and counted.
    pub fn go(mut self, selected: &[bool], reporter: &mut dyn Reporter) -> Result<Tally, Fatal> {
        let mut tally = Tally::default();
        let mut ends: Vec<Option<End>> = vec![None; self.entities.len()];
        for set in self.plan.sets(selected) {
            let able = self.leave_out(&set, &mut ends, reporter)?;
            self.expect_refreshes(&able)?;
            for (&entity, end) in able.iter().zip(self.work(&able, self.task, reporter)?) {
                ends[entity] = Some(end);
                self.settle_refreshes(entity, end);
            }
            if self.task != Task::Check {
                self.refreshes.save()?;
            }
            set.iter().filter_map(|&entity| ends[entity]).for_each(|end| tally.count(end));
            if self.fail_fast && tally.failed + tally.refused > 0 {
                break;
            }
        }
        Ok(tally)
    }

    /// Has the entities worked on, which all belong to one plugin and do not depend on each other; how each of them ended.
    fn work(&mut self, set: &[usize], task: Task, reporter: &mut dyn Reporter) -> Result<Vec<End>, Fatal> {
        let entities: Vec<&Entity> = set.iter().map(|&entity| &self.entities[entity]).collect();
        let Some(first) = entities.first() else { return Ok(Vec::new()) };
        let is_due = |entity: &Entity| self.refreshes.is_due(entity.id());
        let jobs: Vec<Job<'_>> =
            entities.iter().map(|entity| Job { id: entity.id(), refresh: is_due(entity) }).collect();
        let refresh = jobs.iter().map(|job| job.refresh).collect();
        let mut in_order = InOrder::new(&entities, refresh, task, self.view, reporter);
        self.plugins[first.plugin].work(task, &jobs, self.interrupt, &mut |place, progress| {
            in_order.take(place, progress);
        })?;
        Ok(in_order.ends())
    }

    /// Leaves out what requires something that is not in its desired state; the others.
    fn leave_out(
        &mut self,
        set: &[usize],
        ends: &mut [Option<End>],
        reporter: &mut dyn Reporter,
    ) -> Result<Vec<usize>, Fatal> {
        let mut able = Vec::new();
        for &entity in set {
            let Some((end, reason)) = self.obstacle(entity, ends)? else {
                able.push(entity);
                continue;
            };
            ends[entity] = Some(end);
            reporter.event(Event::Begin(&self.entities[entity]));
            reporter.event(if end == End::Failed { Event::Failed(Some(&reason)) } else { Event::Skipped(&reason) });
            reporter.event(Event::End(&self.entities[entity], end));
        }
        Ok(able)
    }

    /// Why an entity cannot be worked on, if it cannot.
    fn obstacle(&mut self, entity: usize, ends: &mut [Option<End>]) -> Result<Option<(End, String)>, Fatal> {
        for requirement in self.plan.requirements(entity) {
            let required = match requirement {
                Requirement::Unknown(id) => {
                    return Ok(Some((End::Failed, format!("requires {id}, which does not exist"))));
                }
                Requirement::Entity(required) => *required,
            };
            let end = match ends[required] {
                Some(end) => end,
                None => self.check(required, ends)?,
            };
            let id = self.entities[required].id();
            let how = match end {
                End::Unchanged | End::Changed => continue,
                // What is only looked at now would have been applied by the time.
                End::Pending if self.task == Task::Check => continue,
                End::Pending => "which is not in its desired state",
                End::Refused => "which is not in its desired state (--force is needed)",
                End::Skipped => "which was skipped",
                End::Failed => "which failed",
            };
            return Ok(Some((End::Skipped, format!("requires {id}, {how}"))));
        }
        Ok(None)
    }

    /// Finds out, without changing or showing anything, how a requirement is that is not selected.
    fn check(&mut self, entity: usize, ends: &mut [Option<End>]) -> Result<End, Fatal> {
        let end = self.work(&[entity], Task::Check, &mut Silence)?.first().copied().unwrap_or(End::Pending);
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
        let verdicts = self.work(&sources, Task::Check, &mut Silence)?;
        for (&source, verdict) in sources.iter().zip(verdicts) {
            let can_tell = self.plugins[self.entities[source].plugin].can_check();
            if verdict == End::Unchanged && can_tell {
                continue;
            }
            for &target in self.plan.refreshes(source) {
                self.refreshes.expect(self.entities[source].id(), self.entities[target].id());
            }
        }
        self.refreshes.save()
    }

    /// Notes what became of an entity, as the source of refreshes and as their target. What would change would be refreshed too.
    fn settle_refreshes(&mut self, entity: usize, end: End) {
        let id = self.entities[entity].id();
        match end {
            End::Pending if self.task != Task::Check => {}
            End::Changed | End::Pending => {
                for &target in self.plan.refreshes(entity) {
                    self.refreshes.expect(id, self.entities[target].id());
                }
                self.refreshes.changed(id);
            }
            End::Unchanged | End::Refused => self.refreshes.unchanged(id),
            // Whether it changed before it failed nobody knows: the next run takes it that it did.
            End::Skipped | End::Failed => {}
        }
        if matches!(end, End::Changed | End::Unchanged) {
            self.refreshes.done(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_is_a_sentence() {
        assert_eq!(Tally::default().to_string(), "0 entities");
        assert_eq!(Tally { changed: 1, ..Tally::default() }.to_string(), "1 entity: 1 changed");
        let tally = Tally { changed: 3, unchanged: 11, failed: 1, ..Tally::default() };
        assert_eq!(tally.to_string(), "15 entities: 3 changed, 11 unchanged, 1 failed");
    }
}
