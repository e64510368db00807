//! Events, and their consumers.
//!
//! Verbs, and everything that they call, emit [`Event`]s to a [`Reporter`]. The reporter of a process is [`Report`],
//! which passes each event to its consumers: for people `Paragraphs`, in the words of version 3, and `Status`, the
//! status line of a terminal; for programs `Json`. Only they access the standard streams of the process.

mod console;
mod event;
mod json;
mod paragraphs;
mod remark;
mod status;
pub mod table;

use crate::error::exit;
use console::Console;
use json::Json;
use paragraphs::{Paragraphs, Reader};
use status::Status;

pub use console::output_pipe;
pub use event::{Adopted, BlamedLine, End, Event, Finding, Form, NotAdopted, Noticed, Reason};
pub use remark::{Provisional, Remark, RemarkKind, Remarks, Severity};

/// A consumer of events.
pub trait Reporter {
    /// Takes an event. The events of an entity come in succession, between its `Begin` and its `End`.
    fn event(&mut self, event: Event<'_>);

    /// Returns false if the reader of the output is gone, so that commands that only show output can stop.
    fn is_read(&self) -> bool {
        true
    }
}

impl<R: Reporter + ?Sized> Remarks for R {
    fn remark(&mut self, remark: Remark<'_>) {
        self.event(Event::Remark(remark));
    }
}

/// The reporter of a process, which shows events on its standard streams.
pub struct Report {
    console: Console,
    consumers: Vec<Box<dyn Consumer>>,
    gives_hints: bool,
    is_seen_by_person: bool,
}

/// Renders the events that it supports.
trait Consumer {
    fn consume(&mut self, event: &Event<'_>, console: &mut Console);
}

impl Report {
    /// Returns the report for people and for scripts written for version 3.
    #[must_use]
    pub fn for_people() -> Report {
        let reader = Reader { sees_all: console::person_reads_all(), wants_hints: console::person_reads_errors() };
        let mut consumers: Vec<Box<dyn Consumer>> = vec![Box::new(Paragraphs::new(reader))];
        if reader.sees_all {
            consumers.push(Box::new(Status::new()));
        }
        Report {
            console: Console::for_people(),
            consumers,
            gives_hints: reader.wants_hints,
            is_seen_by_person: reader.sees_all,
        }
    }

    /// Returns the report that consists of JSON Lines only.
    #[must_use]
    pub fn for_programs() -> Report {
        Report {
            console: Console::for_programs(),
            consumers: vec![Box::<Json>::default()],
            gives_hints: false,
            is_seen_by_person: false,
        }
    }

    /// Returns true if a person reads the errors, so that hints do not confuse a script.
    #[must_use]
    pub fn gives_hints(&self) -> bool {
        self.gives_hints
    }

    /// Returns true if a person sees both standard output and standard error.
    #[must_use]
    pub fn is_seen_by_person(&self) -> bool {
        self.is_seen_by_person
    }

    /// Flushes the output, and returns the exit code of the process. Lost output turns any result into "could not run".
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

/// Discards all events.
pub struct Silence;

impl Reporter for Silence {
    fn event(&mut self, _: Event<'_>) {}
}
