//! The values that entities send while they are being worked on.

use crate::index::EntityIndex;
use crate::plugin::Progress;
use holo_protocol::{Message, Sent};
use std::mem;

/// Gathers the values of each entity until it is finished.
pub(super) struct Outbox {
    entities: Vec<Gathered>,
    /// Whether the entities are only checked, in which case values that depend on a change are dropped.
    only_looks: bool,
}

#[derive(Clone, Default)]
struct Gathered {
    sent: Vec<Sent>,
    is_unchanged: bool,
}

/// The values that an entity has sent.
pub(super) struct SentTogether {
    pub(super) sent: Vec<Sent>,
    /// Whether the entity may have changed: false if its plugin reported that it is unchanged.
    pub(super) may_have_changed: bool,
}

impl Outbox {
    pub(super) fn new(set: &[EntityIndex], only_looks: bool) -> Outbox {
        Outbox { entities: vec![Gathered::default(); set.len()], only_looks }
    }

    /// Takes a message about the entity with this index. Returns its values when it has finished successfully.
    pub(super) fn take(&mut self, index: usize, progress: &Progress<'_>) -> Option<SentTogether> {
        let gathered = self.entities.get_mut(index)?;
        match progress {
            Progress::Message(Message::Send(sent)) => gathered.sent.push(sent.clone()),
            Progress::Message(Message::NotChanged) => gathered.is_unchanged = true,
            Progress::Failed(_) => gathered.sent.clear(),
            Progress::Done if !gathered.sent.is_empty() && (gathered.is_unchanged || !self.only_looks) => {
                let Gathered { sent, is_unchanged } = mem::take(gathered);
                return Some(SentTogether { sent, may_have_changed: !is_unchanged });
            }
            _ => {}
        }
        None
    }
}
