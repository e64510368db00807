//! Looks again, at the end of a run, at entities that another one may have undone.

use super::Walk;
use crate::entities::Entity;
use crate::entities::node::{EntityIndex, PluginIndex};
use crate::error::FatalError;
use crate::plugin::Task;
use crate::report::{End, Event, Reason, Reporter};
use bstr::{BString, ByteSlice};
use holo_events::Tally;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// The number of changed entities that a message names.
const NAMED: usize = 3;

impl Walk<'_> {
    /// Fails entities that were in their desired state in this run and are not any more. Only plugins whose entities may undo each other
    /// are asked, and only about what they have not looked at since their last change.
    pub(super) fn judge(
        &mut self,
        sets: &[Vec<EntityIndex>],
        tally: &mut Tally,
        reporter: &mut dyn Reporter,
    ) -> Result<(), FatalError> {
        // An entity that is not listed is a step of the plugin, and no part of the system.
        let has_changed =
            |entity: &EntityIndex| self.ends[*entity] == Some(End::Changed) && self.entities[*entity].is_listed();
        let changed: HashSet<EntityIndex> = sets.iter().flatten().copied().filter(has_changed).collect();
        for (plugin, set) in self.unseen(sets, &changed) {
            let mut heard = Heard::default();
            let outcomes = self.work(&set, Task::Check, &mut heard)?;
            for ((&entity, outcome), about) in set.iter().zip(outcomes).zip(heard.reasons) {
                let is_right = matches!(outcome.end(), End::Unchanged | End::ConditionNotMet) || outcome.is_unknown();
                let Some(was) = self.ends[entity].filter(|_| !is_right) else { continue };
                let others = self.plan.order().iter().filter(|&&other| {
                    other != entity && self.entities[other].plugin == plugin && changed.contains(&other)
                });
                let reason = undone(others.map(|&other| self.entities[other].id().to_string()).collect(), &about);
                self.ends[entity] = Some(End::Failed);
                tally.uncount(was.into());
                tally.count(End::Failed.into());
                reporter.event(Event::Undone(was));
                reporter.event(Event::Begin(&self.entities[entity]));
                reporter.event(Event::Failed(Some(&reason)));
                reporter.event(Event::End(&self.entities[entity], End::Failed, Duration::ZERO));
            }
        }
        Ok(())
    }

    /// Returns the entities of each plugin that its last change may have undone. A set belongs to one plugin, which has looked at what it
    /// has changed in the last one.
    fn unseen(
        &self,
        sets: &[Vec<EntityIndex>],
        changed: &HashSet<EntityIndex>,
    ) -> BTreeMap<PluginIndex, Vec<EntityIndex>> {
        let mut last: BTreeMap<PluginIndex, usize> = BTreeMap::new();
        for (number, set) in sets.iter().enumerate() {
            let plugins =
                set.iter().filter(|entity| changed.contains(entity)).map(|&entity| self.entities[entity].plugin);
            last.extend(plugins.filter(|&plugin| self.plugins[plugin].interferes()).map(|plugin| (plugin, number)));
        }
        let mut unseen: BTreeMap<PluginIndex, Vec<EntityIndex>> = BTreeMap::new();
        for (number, &entity) in
            sets.iter().enumerate().flat_map(|(number, set)| set.iter().map(move |it| (number, it)))
        {
            let Entity { plugin, .. } = self.entities[entity];
            let is_well =
                matches!(self.ends[entity], Some(End::Unchanged | End::Changed)) && self.hold(entity).is_none();
            let is_due = || self.refreshes.is_due(self.entities[entity].id());
            let is_seen = |last: usize| number >= last && changed.contains(&entity);
            if last.get(&plugin).is_some_and(|&last| !is_seen(last))
                && is_well
                && self.entities[entity].is_listed()
                && !self.entities[entity].is_orphan()
                && !is_due()
            {
                unseen.entry(plugin).or_default().push(entity);
            }
        }
        unseen
    }
}

/// Returns the reason for which an entity has failed that these may have undone.
fn undone(mut others: Vec<String>, about: &BString) -> String {
    let more = if others.len() > NAMED { " and others" } else { "" };
    others.truncate(NAMED);
    let since = if others.is_empty() { String::new() } else { format!(" since {}{more} changed", others.join(", ")) };
    let about = if about.is_empty() { String::new() } else { format!(": {}", about.to_str_lossy()) };
    format!("not in its desired state any more{since}{about}")
}

/// Hears what a check says about each entity.
#[derive(Default)]
struct Heard {
    reasons: Vec<BString>,
    current: Reason,
}

impl Reporter for Heard {
    fn event(&mut self, event: Event<'_>) {
        self.current.hear(&event);
        if matches!(event, Event::End(..)) {
            self.reasons.push(self.current.take().unwrap_or_default());
        }
    }
}
