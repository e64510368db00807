//! Units that are enabled and disabled along with others. Each stays as its own definition has it, and becomes what it was before us when what it
//! goes along with is restored.

use super::item::Item;
use super::{ItemIndex, Run};
use crate::plan::Step;
use crate::provider::Links;
use crate::unit::UnitName;
use holo_plugin::system::Root;
use std::collections::BTreeSet;

/// Returns true if a step is also about the units that go along with another.
fn takes_others_along(step: Step) -> bool {
    matches!(step, Step::Enable | Step::Disable)
}

impl Run<'_, '_> {
    /// Takes note of how the units are that will be enabled or disabled along with one.
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

    /// Returns the units that a step is to leave as they are although they go along with those that it is about, each with its links.
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

    /// Returns true if a unit that goes along with another is to stay as it is.
    fn stays(&self, item: &Item<'_>, other: &UnitName, is_enabled: bool, step: Step) -> bool {
        let is_its_own = |item: &Item<'_>| item.unit.name == *other && item.steps.contains(&step);
        let was_enabled = || item.unit.is_orphan().then(|| item.record.also.get(other.as_str()).copied()).flatten();
        let shall_be = item.unit.all.shall_be_enabled(other).or_else(was_enabled);
        shall_be == Some(is_enabled) && !self.items.iter().any(is_its_own)
    }

    /// Gives units the links again that they had.
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
