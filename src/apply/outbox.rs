//! The values that entities send while they are worked on.

use crate::index::EntityIndex;
use crate::plugin::Progress;
use holo_protocol::{Message, Sent};
use std::mem;

/// Gathers what each entity sends until it is done with.
pub(super) struct Outbox {
    entities: Vec<Gathered>,
    /// True if the work is a look at what is not going to be changed: then a value that would be sent after a change is not.
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
    /// False if its plugin has said that nothing was changed.
    pub(super) may_have_changed: bool,
}

impl Outbox {
    pub(super) fn new(set: &[EntityIndex], only_looks: bool) -> Outbox {
        Outbox { entities: vec![Gathered::default(); set.len()], only_looks }
    }

    /// Takes what is said of the entity with this index. Returns what it has sent if it is done with, and well.
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
