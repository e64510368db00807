//! The reasons for which an entity is not worked on.

use super::Walk;
use crate::error::FatalError;
use crate::index::EntityIndex;
use crate::plan::Requirement;
use crate::plugin::Task;
use crate::report::End;

/// An entity is not worked on.
pub(super) struct Blocked {
    /// The end of the entity because of it.
    pub(super) end: End,
    /// The reason, in words.
    pub(super) reason: String,
    /// True if it waits for an entity that is not changed now.
    pub(super) waits: bool,
}

impl Walk<'_> {
    /// Returns the reason for not working on an entity, if there is one.
    pub(super) fn blocked(&mut self, entity: EntityIndex) -> Result<Option<Blocked>, FatalError> {
        let by_others = self.by_conflict(entity).or_else(|| self.by_successor(entity));
        if by_others.is_some() { Ok(by_others) } else { self.by_requirement(entity) }
    }

    fn by_conflict(&self, entity: EntityIndex) -> Option<Blocked> {
        let conflicts = self.plan.conflicts_of(entity);
        let conflicts: Vec<String> = conflicts.map(|conflict| conflict.describe(self.entities)).collect();
        (!conflicts.is_empty()).then(|| Blocked { end: End::Failed, reason: conflicts.join("; "), waits: false })
    }

    /// Leaves an orphan alone until those have taken over that own by now what it owned.
    fn by_successor(&self, entity: EntityIndex) -> Option<Blocked> {
        self.plan.successors(entity).iter().find_map(|&successor| {
            let takes_over = format!("{} takes over from it", self.entities[successor].id());
            let (end, state) = match self.ends[successor].filter(|_| self.selected.contains(successor)) {
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
            let waits = end == End::Pending && self.hold(successor).is_some();
            Some(Blocked { end, reason: takes_over + state, waits })
        })
    }

    fn by_requirement(&mut self, entity: EntityIndex) -> Result<Option<Blocked>, FatalError> {
        for requirement in self.plan.requirements(entity) {
            let required = match requirement {
                Requirement::Unknown(id) => {
                    let reason = format!("requires {id}, which does not exist");
                    return Ok(Some(Blocked { end: End::Failed, reason, waits: false }));
                }
                Requirement::Entity(required) => *required,
            };
            let end = match self.ends[required] {
                Some(end) => end,
                None => self.check_unselected(required)?,
            };
            if let (End::Pending, Some(hold)) = (end, self.hold(required)) {
                let reason = format!("requires {}, {}", self.entities[required].id(), hold.of_requirement());
                return Ok(Some(Blocked { end: End::Pending, reason, waits: true }));
            }
            let state = match end {
                End::Unchanged | End::ConditionNotMet | End::Changed => continue,
                // It is only looked at now, and would have been applied by the time.
                End::Pending if self.task == Task::Check && self.selected.contains(required) => continue,
                End::Pending => "which is not in its desired state",
                End::Refused => "which is not in its desired state (--force is needed)",
                End::DependencyFailed => "which was skipped",
                End::Failed => "which failed",
            };
            let reason = format!("requires {}, {state}", self.entities[required].id());
            return Ok(Some(Blocked { end: End::DependencyFailed, reason, waits: false }));
        }
        Ok(None)
    }
}
