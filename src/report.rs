//! Events, and their consumers.
//!
//! Verbs, and all that they call, emit [`Event`]s to a [`Reporter`]. The reporter of a process is [`Report`], which hands each event to its
//! consumers: `Paragraphs`, in version 3's words, and `Status`, for a person who waits; or `Json`, for programs. Only they know
//! the streams of the process.

mod bar;
mod console;
mod event;
mod findings;
mod hints;
mod json;
mod json_state;
mod noticed;
mod paragraphs;
mod remark;
mod status;
pub mod table;

pub use console::output_pipe;
pub use event::{Adopted, BlamedLine, End, Event, Form, Noticed};
pub use remark::{Provisional, Remark, RemarkKind, Remarks, Severity};

use crate::exit;
use console::Console;
use json::Json;
use paragraphs::{Paragraphs, Reader};
use status::Status;

/// A listener to events.
pub trait Reporter {
    /// Takes an event. Events of one entity follow one another, between its `Begin` and its `End`.
    fn event(&mut self, event: Event<'_>);

    /// Returns false if nobody reads any more what is shown: what only shows may stop then.
    fn is_read(&self) -> bool {
        true
    }
}

impl<R: Reporter + ?Sized> Remarks for R {
    fn remark(&mut self, remark: Remark<'_>) {
        self.event(Event::Remark(remark));
    }
}

/// The reporter of a process, which shows events on its streams.
pub struct Report {
    console: Console,
    consumers: Vec<Box<dyn Consumer>>,
    gives_hints: bool,
}

/// Shows those events that it has a form for.
trait Consumer {
    fn consume(&mut self, event: &Event<'_>, console: &mut Console);
}

impl Report {
    /// Returns the report that people and version 3's scripts read.
    #[must_use]
    pub fn for_people() -> Report {
        let reader = Reader { sees_all: console::person_reads_all(), wants_hints: console::person_reads_errors() };
        let mut consumers: Vec<Box<dyn Consumer>> = vec![Box::new(Paragraphs::new(reader))];
        if reader.sees_all {
            consumers.push(Box::new(Status::new()));
        }
        Report { console: Console::for_people(), consumers, gives_hints: reader.wants_hints }
    }

    /// Returns the report that consists of nothing but JSON Lines.
    #[must_use]
    pub fn for_programs() -> Report {
        Report { console: Console::for_programs(), consumers: vec![Box::<Json>::default()], gives_hints: false }
    }

    /// Returns true if a person reads the errors, and hints can be given that a script could not understand.
    #[must_use]
    pub fn gives_hints(&self) -> bool {
        self.gives_hints
    }

    /// Ends the output, and returns the exit code of the process. Output that was lost makes the best run one that could not be done.
    #[must_use]
    pub fn finish(self, exit_code: u8) -> u8 {
        self.console.finish().map_or(exit::COULD_NOT_RUN, |()| exit_code)
    }
}

impl Reporter for Report {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Burst { is_over } = event {
            return self.console.hold(!is_over);
        }
        for consumer in &mut self.consumers {
            consumer.consume(&event, &mut self.console);
        }
    }

    fn is_read(&self) -> bool {
        !self.console.reader_is_gone()
    }
}

/// Shows nothing.
pub struct Silence;

impl Reporter for Silence {
    fn event(&mut self, _: Event<'_>) {}
}
