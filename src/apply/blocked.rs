//! The reasons for which an entity is not worked on.

use super::Walk;
use crate::entities::node::EntityIndex;
use crate::error::FatalError;
use crate::plan::ownership::{is_tree_around, share_tree};
use crate::plan::{Reception, Requirement};
use crate::plugin::Task;
use crate::report::End;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::Receipt;

/// An entity is not worked on.
pub(super) struct Blocked {
    /// The resulting outcome of the entity.
    pub(super) end: End,
    /// The reason, in words.
    pub(super) reason: String,
    /// Whether it waits for an entity that is not changed now.
    pub(super) waits: bool,
    /// Whether the effect of an apply is unknown.
    pub(super) is_unknown: bool,
}

impl Blocked {
    fn new(end: End, reason: String) -> Blocked {
        Blocked { end, reason, waits: false, is_unknown: false }
    }
}

impl Walk<'_> {
    /// Returns the reason for not working on an entity, if there is one.
    pub(super) fn blocked(&mut self, entity: EntityIndex) -> Result<Option<Blocked>, FatalError> {
        let by_others = self.by_conflict(entity).or_else(|| self.by_successor(entity));
        let by_others = by_others.or_else(|| self.by_orphan(entity)).or_else(|| self.by_tree(entity));
        if by_others.is_some() {
            return Ok(by_others);
        }
        let by_requirement = self.by_requirement(entity)?;
        if by_requirement.is_some() { Ok(by_requirement) } else { self.by_reception(entity) }
    }

    fn by_conflict(&self, entity: EntityIndex) -> Option<Blocked> {
        let conflicts = self.plan.conflicts_of(entity);
        let conflicts: Vec<String> = conflicts.map(|conflict| conflict.describe(self.entities)).collect();
        (!conflicts.is_empty()).then(|| Blocked::new(End::Failed, conflicts.join("; ")))
    }

    /// Blocks an orphan until the entities that own its former assets have taken over.
    fn by_successor(&self, orphan: EntityIndex) -> Option<Blocked> {
        self.plan.successors(orphan).iter().find_map(|&successor| {
            let takes_over = format!("{} takes over from it", self.entities[successor].id());
            let (end, state) = match self.ends[successor].filter(|_| self.selected.contains(successor)) {
                Some(End::Unchanged | End::Changed) => return None,
                // Plugins know which single paths are taken over. Otherwise it is unknown what remains to be scrubbed.
                Some(End::Pending) if self.takes_single_paths(orphan, successor) => return None,
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
            Some(Blocked { waits, ..Blocked::new(end, takes_over + state) })
        })
    }

    /// Returns true if a check has found a successor pending that takes single paths over, and if that is all there is to take over.
    fn takes_single_paths(&self, orphan: EntityIndex, successor: EntityIndex) -> bool {
        let (theirs, own) = (self.entities[orphan].edges(), self.entities[successor].edges());
        let is_path = |kind: &BStr| kind == "path" || kind.starts_with(b"path-");
        self.task == Task::Check
            && self.hold(successor).is_none()
            && theirs.owns.iter().all(|owned| is_path(owned.kind))
            && own.owns.iter().all(|owned| owned.kind == "path")
    }

    /// Blocks an entity until orphans have restored what it edits, or the permissions of what it finds.
    fn by_orphan(&self, entity: EntityIndex) -> Option<Blocked> {
        self.plan.restored_by(entity).iter().find_map(|&orphan| {
            let is_access =
                |entity: EntityIndex| self.entities[entity].edges().owns.iter().any(|own| own.kind == "path-access");
            let of_what = match (is_access(entity), is_access(orphan)) {
                (_, true) => "needs the permissions that",
                (true, false) => "sets the permissions of what",
                (false, false) => "edits what",
            };
            let restores = format!("{of_what} {} restores", self.entities[orphan].id());
            let (end, state) = match self.ends[orphan].filter(|_| self.selected.contains(orphan)) {
                Some(End::Unchanged | End::Changed) => return None,
                Some(End::Pending) if self.task == Task::Check => return None,
                Some(End::Pending) => (End::Pending, ""),
                Some(End::ConditionNotMet) => (End::ConditionNotMet, ", and is left out"),
                None => (End::ConditionNotMet, ", and is not selected"),
                Some(End::Refused) => (End::DependencyFailed, ", which needs --force"),
                Some(End::DependencyFailed) => (End::DependencyFailed, ", which was skipped"),
                Some(End::Failed) => (End::DependencyFailed, ", which failed"),
            };
            let waits = end == End::Pending && self.hold(orphan).is_some();
            Some(Blocked { waits, ..Blocked::new(end, restores + state) })
        })
    }

    /// Leaves the effect on an entity open in a check if it shares a tree with one that comes first: if the tree would be changed, or
    /// if the entity's plugin expects what an orphan restores, but that needs force.
    fn by_tree(&self, entity: EntityIndex) -> Option<Blocked> {
        let mut pending = self.plan.waits_for(entity).filter(|&tree| self.ends[tree] == Some(End::Pending)).peekable();
        // Most entities share nothing, and edges are parsed.
        if self.task != Task::Check || (pending.peek().is_none() && self.refused.is_empty()) {
            return None;
        }
        let edges = self.entities[entity].edges();
        let is_owned = edges.owns.iter().any(|own| own.kind == "path");
        let is_in = |tree: EntityIndex| {
            let trees = self.entities[tree].edges();
            !is_owned && edges.provides.iter().any(|asset| trees.owns.iter().any(|tree| is_tree_around(tree, asset)))
        };
        let changed = pending.find(|&tree| is_in(tree));
        let refused = || self.refused.iter().find(|&&orphan| share_tree(&edges, &self.entities[orphan].edges()));
        let (first, would) = match changed {
            Some(tree) => (format!("is in the tree of {}", self.entities[tree].id()), "would be changed"),
            None => (format!("shares files with {}", self.entities[*refused()?].id()), "needs --force"),
        };
        let reason = format!("{first}, which comes first, and {would}");
        Some(Blocked { is_unknown: true, ..Blocked::new(End::Pending, reason) })
    }

    fn by_requirement(&mut self, entity: EntityIndex) -> Result<Option<Blocked>, FatalError> {
        for requirement in self.plan.requirements(entity) {
            let required = match requirement {
                Requirement::Unknown(id) => {
                    let reason = format!("requires {id}, which does not exist");
                    return Ok(Some(Blocked::new(End::Failed, reason)));
                }
                Requirement::Entity(required) => *required,
            };
            let end = match self.ends[required] {
                Some(end) => end,
                None => self.check_unselected(required)?,
            };
            if let (End::Pending, Some(hold)) = (end, self.hold(required)) {
                let reason = format!("requires {}, {}", self.entities[required].id(), hold.of_requirement());
                return Ok(Some(Blocked { waits: true, ..Blocked::new(End::Pending, reason) }));
            }
            let state = match end {
                End::Unchanged | End::ConditionNotMet | End::Changed => continue,
                // In a check, the requirement is only checked, and an apply would have applied it by then.
                End::Pending if self.task == Task::Check && self.selected.contains(required) => continue,
                End::Pending => "which is not in its desired state",
                End::Refused => "which is not in its desired state (--force is needed)",
                End::DependencyFailed => "which was skipped",
                End::Failed => "which failed",
            };
            let reason = format!("requires {}, {state}", self.entities[required].id());
            return Ok(Some(Blocked::new(End::DependencyFailed, reason)));
        }
        Ok(None)
    }

    /// Blocks an entity until the values that it receives are available.
    fn by_reception(&mut self, entity: EntityIndex) -> Result<Option<Blocked>, FatalError> {
        for reception in self.plan.receptions(entity) {
            let blocked = self.by_value(reception)?;
            if blocked.is_some() {
                return Ok(blocked);
            }
        }
        Ok(None)
    }

    fn by_value(&mut self, reception: &Reception) -> Result<Option<Blocked>, FatalError> {
        let Reception { sender, receipt: Receipt { key, sender: id, name } } = reception;
        let received = format!("receives {key} from {id}");
        let Some(sender) = *sender else {
            return Ok(Some(Blocked::new(End::Failed, format!("{received}, which does not exist"))));
        };
        if let Some(names) = self.sends(sender).filter(|names| !names.contains(name)) {
            let names = bstr::join(", ", &names);
            let reason = format!("{received}, which cannot send {name}, but {}", names.as_bstr());
            return Ok(Some(Blocked::new(End::Failed, reason)));
        }
        let is_selected = self.selected.contains(sender);
        if self.sent.get(id.as_bstr(), name.as_bstr()).is_none() && !is_selected && self.ends[sender].is_none() {
            self.check_unselected(sender)?;
        }
        let is_known = self.sent.get(id.as_bstr(), name.as_bstr()).is_some();
        let is_fresh = self.sent.is_fresh(id.as_bstr(), name.as_bstr());
        if self.task == Task::Check {
            let would_change = is_selected && self.ends[sender] == Some(End::Pending) && !is_fresh;
            let reason = match (is_known, would_change) {
                (true, false) => return Ok(None),
                (true, true) => format!("{received}, which comes first, and would be changed"),
                (false, _) => format!("{received}, which has not sent {name} yet"),
            };
            return Ok(Some(Blocked { is_unknown: true, ..Blocked::new(End::Pending, reason) }));
        }
        if is_known {
            return Ok(None);
        }
        Ok(Some(match self.ends[sender] {
            Some(End::Failed) => Blocked::new(End::DependencyFailed, format!("{received}, which failed")),
            Some(End::DependencyFailed) => {
                Blocked::new(End::DependencyFailed, format!("{received}, which was skipped"))
            }
            Some(End::Refused) => {
                let reason = format!("{received}, which is not in its desired state (--force is needed)");
                Blocked::new(End::DependencyFailed, reason)
            }
            Some(End::Pending) => match self.hold(sender) {
                Some(hold) => {
                    let reason = format!("{received}, {}", hold.of_requirement());
                    Blocked { waits: true, ..Blocked::new(End::Pending, reason) }
                }
                None => Blocked::new(End::DependencyFailed, format!("{received}, which is not in its desired state")),
            },
            // The sender may send it later.
            _ => {
                let reason = format!("{received}, which has not sent {name} yet");
                Blocked { waits: true, ..Blocked::new(End::Pending, reason) }
            }
        }))
    }

    /// Returns the names of the values that an entity can send; `None` if its plugin does not declare them.
    fn sends(&self, sender: EntityIndex) -> Option<Vec<BString>> {
        let entity = &self.entities[sender];
        let of_type = self.plugins[entity.plugin]
            .sends()
            .iter()
            .filter(|(of, _)| entity.id().strip_prefix(of.as_bytes()).is_some_and(|rest| rest.starts_with(b":")));
        let mut names: Vec<BString> = of_type.map(|(_, name)| BString::from(name.as_str())).collect();
        names.extend(entity.edges().sends.into_iter().map(BString::from));
        (!names.is_empty()).then_some(names)
    }
}
