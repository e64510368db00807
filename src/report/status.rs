//! The status line, which shows a waiting user the work in progress.

use super::Consumer;
use super::bar;
use super::console::Console;
use super::event::Event;
use bstr::{BString, ByteSlice};
use holo_protocol::{Message, Progress};
use std::time::{Duration, Instant};

/// The time after which a silent run shows its status.
const STATUS_AFTER: Duration = Duration::from_secs(1);
/// The interval between updates of the status.
const STATUS_EVERY: Duration = Duration::from_millis(100);
/// Shorter waits are not shown.
const JUST_BEGUN: Duration = Duration::from_millis(900);

/// Shows the current entity, if the run takes long.
pub(super) struct Status {
    begun: Instant,
    shown_last: Option<Instant>,
    /// The ID of the current entity.
    at_work: BString,
    /// The progress that was shown last.
    progress: Option<String>,
}

impl Status {
    /// Returns an empty status.
    pub(super) fn new() -> Status {
        Status { begun: Instant::now(), shown_last: None, at_work: BString::default(), progress: None }
    }

    fn show(&mut self, line: &str, console: &mut Console) {
        let is_time = self.shown_last.map_or(self.begun.elapsed() > STATUS_AFTER, |last| last.elapsed() > STATUS_EVERY);
        if is_time && console.is_at_start_of_line() {
            self.shown_last = Some(Instant::now());
            console.status(line);
        }
    }
}

impl Consumer for Status {
    fn consume(&mut self, event: &Event<'_>, console: &mut Console) {
        match event {
            Event::Begin(entity) => {
                entity.id().clone_into(&mut self.at_work);
                self.progress = None;
                self.show(&entity.id().to_str_lossy(), console);
            }
            Event::Message(Message::Progress(said)) => {
                let line = bar::line(self.at_work.as_bstr(), &Progress::parse(&said.to_str_lossy()));
                self.show(&line, console);
                self.progress = Some(line);
            }
            Event::Waiting(_, time) if *time < JUST_BEGUN => {}
            Event::Waiting(entity, time) => {
                let progress = self.progress.as_ref().filter(|_| entity.id() == self.at_work);
                let line = progress.cloned().unwrap_or_else(|| entity.id().to_string());
                self.show(&bar::with_time(&line, *time), console);
            }
            _ => {}
        }
    }
}
