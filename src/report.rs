//! From events to words.
//!
//! The verbs emit [`Event`]s; a [`Reporter`] turns them into what the user sees. [`Paragraphs`] are version 3's words,
//! [`Json`] is for programs.

mod bar;
mod console;
mod hints;
mod json;
mod json_state;
pub mod line;
mod paragraphs;

pub use console::Console;
pub use json::{Json, entity_line, selector_line};
pub use paragraphs::{Paragraphs, entity, porcelain};

use crate::entity::Entity;
use holo_protocol::Message;
use holo_protocol::session::Stream;
use std::time::Duration;

/// An event about the entity at work during an apply.
#[derive(Debug)]
pub enum Event<'a> {
    /// The entity is next.
    Begin(&'a Entity),
    /// The plugin, or what it called, said this.
    Output(Stream, &'a [u8]),
    /// The plugin, or what it called, said this of an entity that had been done with.
    Belated(Stream, &'a [u8]),
    /// The plugin said this on file descriptor 3.
    Message(&'a Message),
    /// The changes that a person made, as a unified diff.
    Diff(&'a [u8]),
    /// Something should be looked into.
    Warning(&'a str),
    /// Something went wrong beside the entity itself.
    Error(&'a str),
    /// The entity is left out; the text says why.
    Skipped(&'a str),
    /// The entity failed; the text says why, unless the plugin has said so itself.
    Failed(Option<&'a str>),
    /// The entity is still being worked on, and has been for so long. It need not be the one that was begun last.
    Waiting(&'a Entity, Duration),
    /// The entity is to be refreshed, or would be.
    Refresh(&'a Entity),
    /// The entity is done with, and ended so.
    End(&'a Entity, End),
}

/// The end of the work on an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// It is in its desired state, as it was before.
    Unchanged,
    /// By its own declaration it is not for this system, or not for now.
    ConditionNotMet,
    /// It is in its desired state now.
    Changed,
    /// It was only looked at, and would be changed, or that cannot be told.
    Pending,
    /// Without `--force` it was, or would be, left as it is.
    Refused,
    /// It was not worked on, since something that it requires is not in its desired state.
    DependencyFailed,
    /// Something went wrong.
    Failed,
}

/// A consumer of events, which shows them.
pub trait Reporter {
    /// Shows an event. Events of one entity follow one another, between its `Begin` and its `End`.
    fn event(&mut self, event: Event<'_>);
}

/// Returns the reporter for this console. It shows what is done or, if it `only_looks`, what would be done.
pub fn on<'a>(console: &'a mut Console, only_looks: bool) -> Box<dyn Reporter + 'a> {
    if console.speaks_json() { Box::new(Json::new(console)) } else { Box::new(Paragraphs::new(console, only_looks)) }
}

/// Shows nothing.
pub struct Silence;

impl Reporter for Silence {
    fn event(&mut self, _: Event<'_>) {}
}
