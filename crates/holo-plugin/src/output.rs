//! The output of a plugin for the user, including progress reports at a limited rate.

use bstr::ByteSlice;
use holo_change::{Notices, PathError};
use holo_protocol::message::can_be_sent;
use holo_protocol::session::Stream;
use holo_protocol::{Progress, Sent};
use std::time::{Duration, Instant};

/// The destination of output.
pub trait Sink {
    /// Receives bytes for one of the two streams, in the order in which they are displayed.
    fn write(&mut self, stream: Stream, bytes: &[u8]);

    /// Receives the progress of the work, if it can be displayed.
    fn progress(&mut self, _: &Progress<'_>) {}

    /// Receives a value for the entities that receive it, or are refreshed because of this one.
    fn send(&mut self, _: &Sent) {}

    /// Receives a value that belongs to the current state of the entity: `KEY=VALUE`.
    fn keep(&mut self, _: &str) {}

    /// Receives a replaced file: `COPY PATH`.
    fn replaced(&mut self, _: &str) {}

    /// Returns true if the output has been printed before, because under version 3, a process scans again for each
    /// entity.
    fn is_again(&self) -> bool {
        false
    }
}

/// A sink that discards all output.
#[derive(Clone, Copy, Debug)]
pub struct Silence;

impl Sink for Silence {
    fn write(&mut self, _: Stream, _: &[u8]) {}
}

/// The output of a plugin for one entity, or for a scan.
pub struct Output<'a>(&'a mut dyn Sink);

impl<'a> Output<'a> {
    /// Creates an output for a sink.
    pub fn new(sink: &'a mut dyn Sink) -> Output<'a> {
        Output(sink)
    }

    /// Reborrows the output.
    pub(crate) fn again(&mut self) -> Output<'_> {
        Output(self.0)
    }

    /// Prints information to stdout. Newlines must be included.
    pub fn print(&mut self, text: impl AsRef<[u8]>) {
        self.0.write(Stream::Stdout, text.as_ref());
    }

    /// Prints an error as a line `!! TEXT` to stderr.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        self.line("!! ", text.as_ref());
    }

    /// Prints a warning as a line `>> TEXT` to stderr.
    pub fn warning(&mut self, text: impl AsRef<[u8]>) {
        self.line(">> ", text.as_ref());
    }

    /// Prints a warning that is only shown once per run.
    pub(crate) fn advise(&mut self, text: impl AsRef<[u8]>) {
        if !self.0.is_again() {
            self.warning(text);
        }
    }

    fn line(&mut self, mark: &str, text: &[u8]) {
        self.0.write(Stream::Stderr, &[mark.as_bytes(), text, b"\n"].concat());
    }

    /// Reports progress to the user, which is not recorded. It must not be called more often than necessary;
    /// [`Meter`](crate::Meter) limits the rate.
    pub fn progress(&mut self, progress: &Progress<'_>) {
        self.0.progress(progress);
    }

    /// Sends a value to the entities that receive it, or are refreshed because of this apply. The key must be a valid
    /// name of a shell variable.
    ///
    /// Returns false if the value was not sent, because it is too long or contains a character that is invalid in
    /// environment variables.
    pub fn send(&mut self, key: &str, value: impl AsRef<[u8]>) -> bool {
        self.send_value(&Sent::new(key, value.as_ref()))
    }

    /// Sends a value that may be sensitive.
    ///
    /// Returns false if the value was not sent, because it is too long or contains a character that is invalid in
    /// environment variables.
    pub fn send_value(&mut self, sent: &Sent) -> bool {
        let can_be_sent = sent.can_be_sent();
        if can_be_sent {
            self.0.send(sent);
        }
        can_be_sent
    }

    /// Keeps a value that belongs to the current state of the entity. When this state is restored later, [`Host::kept`]
    /// returns it.
    ///
    /// Returns false if the value was not kept, because it is too long or not a single line.
    ///
    /// [`Host::kept`]: crate::Host::kept
    pub fn keep(&mut self, key: &str, value: &str) -> bool {
        let text = format!("{key}={value}");
        let can_be_kept = can_be_sent(text.as_bytes().as_bstr()) && !text.contains('\n');
        if can_be_kept {
            self.keep_text(&text);
        }
        can_be_kept
    }

    /// Keeps a value that was already validated.
    pub(crate) fn keep_text(&mut self, text: &str) {
        self.0.keep(text);
    }

    /// Reports the copy of a replaced file, in the format that [`Host::keep_replaced`] has sent to another output.
    ///
    /// [`Host::keep_replaced`]: crate::Host::keep_replaced
    pub fn replaced_text(&mut self, text: &str) {
        self.0.replaced(text);
    }

    /// Passes on the output of a program unchanged.
    pub fn relay(&mut self, stream: Stream, bytes: &[u8]) {
        self.0.write(stream, bytes);
    }
}

impl Notices for Output<'_> {
    fn unreadable_record(&mut self, error: &PathError) {
        self.error(format!("cannot use the stored state: {error}"));
    }

    fn taken_over(&mut self, by: &str, from: &str) {
        self.warning(format!("{by} takes over from {from}"));
    }
}

const EVERY: Duration = Duration::from_millis(200);

/// Counts progress, and reports it periodically.
#[derive(Clone, Debug)]
pub struct Meter {
    what: String,
    total: Option<u64>,
    done: u64,
    said: Instant,
}

impl Meter {
    /// Creates a meter for a total number of bytes, if known. `what` is a fragment such as `downloading`.
    #[must_use]
    pub fn of_bytes(what: impl Into<String>, total: Option<u64>) -> Meter {
        Meter { what: what.into(), total, done: 0, said: Instant::now() }
    }

    /// Sets the number of bytes that have been processed.
    pub fn reached(&mut self, done: u64, output: &mut Output<'_>) {
        self.done = done;
        if self.is_due() {
            self.said = Instant::now();
            let done_of = self.total.filter(|total| *total > 0).map(|total| (done, total));
            output.progress(&Progress { done_of, text: &self.text() });
        }
    }

    /// Returns true if a report is due, for callers for which determining the progress is expensive.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.said.elapsed() >= EVERY
    }

    /// Adds to the number of bytes that have been processed.
    pub fn advance(&mut self, by: u64, output: &mut Output<'_>) {
        self.reached(self.done.saturating_add(by), output);
    }

    fn text(&self) -> String {
        match self.total {
            Some(total) => format!("{}, {} of {}", self.what, amount(self.done), amount(total)),
            None => format!("{}, {}", self.what, amount(self.done)),
        }
    }
}

/// Formats a number of bytes with a unit, in powers of 1000.
fn amount(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")];
    match units.iter().find(|(size, _)| bytes >= *size) {
        Some((size, unit)) => format!("{}.{} {unit}", bytes / size, bytes % size * 10 / size),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod meter_tests {
    use super::*;

    #[test]
    fn says_what_is_done_of_what() {
        let mut meter = Meter::of_bytes("downloading", Some(2_000_000));
        assert_eq!(meter.text(), "downloading, 0 B of 2.0 MB");
        meter.done = 1_999_999;
        assert_eq!(meter.text(), "downloading, 1.9 MB of 2.0 MB");
        meter.total = None;
        meter.done = 12_345;
        assert_eq!(meter.text(), "downloading, 12.3 kB");
        meter.done = u64::MAX;
        assert_eq!(meter.text(), "downloading, 18446744073.7 GB");
    }
}
