//! Units that are enabled and disabled together with others (`Also=`). Their own definitions take precedence, and their
//! previous state is restored with the unit that affects them.

use super::item::Item;
use super::{ItemIndex, Run};
use crate::plan::Step;
use crate::provider::Links;
use crate::unit::UnitName;
use holo_plugin::system::Root;
use std::collections::BTreeSet;

/// Returns true if a step also affects the units enabled together with another.
fn takes_others_along(step: Step) -> bool {
    matches!(step, Step::Enable | Step::Disable)
}

impl Run<'_, '_> {
    /// Records the states of the units that will be enabled or disabled together with one.
    pub(super) fn note_also(&mut self, index: ItemIndex) {
        let root = Root::new(self.host.root());
        let item = &mut self.items[index];
        if item.unit.is_orphan() || !item.steps.iter().copied().any(takes_others_along) {
            return;
        }
        for other in self.provider.also(&root, &item.unit.name) {
            let is_enabled = !self.provider.links(&root, &other).is_empty();
            item.record.also.entry(other.as_str().to_owned()).or_insert(is_enabled);
        }
    }

    /// Returns the units that a step must not affect although they are enabled together with its units, each with its
    /// links.
    pub(super) fn left_alone(&self, step: Step, indexes: &[ItemIndex]) -> Vec<(UnitName, Links)> {
        let mut left_alone = Vec::new();
        if !takes_others_along(step) {
            return left_alone;
        }
        let root = Root::new(self.host.root());
        for item in indexes.iter().map(|&index| &self.items[index]) {
            for other in self.provider.also(&root, &item.unit.name) {
                let links = self.provider.links(&root, &other);
                if self.stays(item, &other, !links.is_empty(), step) {
                    left_alone.push((other, links));
                }
            }
        }
        left_alone
    }

    /// Returns true if a unit enabled together with another one must not change.
    fn stays(&self, item: &Item<'_>, other: &UnitName, is_enabled: bool, step: Step) -> bool {
        let is_its_own = |item: &Item<'_>| item.unit.name == *other && item.steps.contains(&step);
        let was_enabled = || item.unit.is_orphan().then(|| item.record.also.get(other.as_str()).copied()).flatten();
        let shall_be = item.unit.all.shall_be_enabled(other).or_else(was_enabled);
        shall_be == Some(is_enabled) && !self.items.iter().any(is_its_own)
    }

    /// Restores the previous links of units.
    pub(super) fn put_back(&mut self, left_alone: &[(UnitName, Links)], indexes: &[ItemIndex]) {
        let root = Root::new(self.host.root());
        let mut changed = BTreeSet::new();
        for (unit, before) in left_alone {
            match self.provider.relink(&root, unit, before) {
                Ok(true) => {
                    changed.insert(unit.scope().clone());
                }
                Ok(false) => {}
                Err(error) => {
                    let problem = format!("cannot leave {unit} as it was: {error}");
                    indexes.iter().for_each(|&index| self.fail(index, &problem));
                }
            }
        }
        for scope in changed {
            if let Err(error) = self.manager.read_files(&scope) {
                indexes.iter().for_each(|&index| self.fail(index, &error.to_string()));
            }
        }
    }
}
