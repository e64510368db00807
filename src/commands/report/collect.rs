//! Collects the events of a check: the outcome of each entity, and the messages about it.

use super::budget::Budget;
use super::diffs::Diff;
use super::text::safe;
use crate::report::{End, Event, RemarkKind, Reporter};
use bstr::{BString, ByteSlice};
use holo_protocol::Message;
use std::collections::HashMap;
use std::mem;

/// The total size, in bytes, of differences and plugin output on a page.
const ROOM_FOR_TEXT: usize = 1 << 20;
/// The number of bytes shown of a plugin's output about an entity.
const MOST_OUTPUT: usize = 4 << 10;
/// The number of bytes shown of a change, or of the reason for a failure.
const MOST_WORDS: usize = 500;

/// The results of a check.
pub(super) struct Collected {
    /// By entity ID.
    pub(super) entities: HashMap<BString, Looked>,
    current: Option<(BString, Looked)>,
    room: Budget,
}

/// The results for an entity.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) end: Option<End>,
    /// The changes, refusals or errors.
    pub(super) words: Vec<String>,
    pub(super) output: String,
    pub(super) diffs: Vec<Diff>,
}

impl Collected {
    pub(super) fn new() -> Collected {
        Collected { entities: HashMap::new(), current: None, room: Budget::new(ROOM_FOR_TEXT) }
    }

    fn say(&mut self, words: impl AsRef<[u8]>) {
        if let Some((_, looked)) = &mut self.current {
            looked.words.push(safe(beginning(words.as_ref(), MOST_WORDS)));
        }
    }

    fn show(&mut self, text: &[u8]) {
        if let Some((_, looked)) = self.current.as_mut().filter(|_| !text.is_empty()) {
            looked.diffs.push(Diff::new(text, &mut self.room));
        }
    }

    fn message(&mut self, message: &Message) {
        match message {
            Message::WouldChange(text) | Message::RequiresForce(text) | Message::Skipped(text) => self.say(text),
            Message::RequiresForceToOverwrite => self.say("changed manually since it was last applied"),
            Message::RequiresForceToRestore => self.say("deleted manually since it was last applied"),
            Message::Unknown => self.say("the effect of applying it is unknown"),
            _ => {}
        }
    }
}

fn beginning(text: &[u8], most: usize) -> &[u8] {
    text.get(..most).unwrap_or(text)
}

impl Reporter for Collected {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Begin(entity) => self.current = Some((entity.id().to_owned(), Looked::default())),
            Event::Message(message) => self.message(message),
            Event::Diff(text) => self.show(text),
            Event::Preview { difference, .. } => self.show(&difference.text),
            Event::Skipped(reason) | Event::Failed(Some(reason)) => self.say(reason),
            Event::WouldRefresh(..) => self.say("would be refreshed"),
            Event::Remark(remark) if matches!(remark.kind, RemarkKind::Output(_) | RemarkKind::Own(_)) => {
                if let Some((_, looked)) = &mut self.current {
                    let room = MOST_OUTPUT.saturating_sub(looked.output.len());
                    let text = beginning(remark.text.as_bytes(), room);
                    if self.room.take(text, 0) {
                        looked.output.push_str(&safe(text));
                    }
                }
            }
            Event::End(_, end, _) => {
                if let Some((id, looked)) = mem::take(&mut self.current) {
                    self.entities.insert(id, Looked { end: Some(end), ..looked });
                }
            }
            _ => {}
        }
    }
}
