//! Passes refreshes and values between entities.

use super::Walk;
use crate::error::FatalError;
use crate::in_order::Ended;
use crate::index::EntityIndex;
use crate::plan::Reception;
use crate::plugin::Task;
use crate::report::{End, Silence};
use bstr::{BString, ByteSlice};
use holo_protocol::Receipt;

impl Walk<'_> {
    /// Updates the values that plugins can read. Returns for each entity whether its received values have changed since
    /// its plugin last read them.
    pub(super) fn renew(&mut self, set: &[EntityIndex]) -> Result<Vec<bool>, FatalError> {
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

    /// Returns the values that an entity receives, with its refresh or by its definition.
    pub(super) fn received(&self, entity: EntityIndex) -> Vec<BString> {
        let mut received = self.refreshes.received(self.entities[entity].id());
        for Reception { receipt: Receipt { key, sender, name }, .. } in self.plan.receptions(entity) {
            if let Some(sent) = self.sent.get(sender.as_bstr(), name.as_bstr()) {
                received.push([&key[..], b"=", &sent.value.0].concat().into());
            }
        }
        received
    }

    /// Records which refreshes become due if the entities change. Entities that are known to be unchanged are skipped.
    pub(super) fn expect_refreshes(&mut self, set: &[EntityIndex]) -> Result<(), FatalError> {
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

    pub(super) fn expect_of(&mut self, source: EntityIndex) {
        for &target in self.plan.refreshes(source) {
            let target = &self.entities[target];
            self.refreshes.expect(self.entities[source].id(), target.id(), target.plugin_id());
        }
    }

    /// Records the outcome of an entity, as source and target of refreshes. In a check, a pending entity counts as
    /// changed.
    pub(super) fn note_refreshes(&mut self, entity: EntityIndex, Ended { end, sent, is_untouched, .. }: &Ended) {
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
        // An entity that is skipped now keeps its refresh until its condition is met.
        if matches!(end, End::Unchanged | End::Changed) {
            self.refreshes.done(id);
        }
    }
}
