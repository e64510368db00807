//! A plugin's output for the user, wherever it goes.

use bstr::ByteSlice;
use holo_change::{Notices, PathError};
use holo_protocol::message::can_be_sent;
use holo_protocol::session::Stream;
use holo_protocol::{Progress, Sent};

/// Takes the output.
pub trait Sink {
    /// Takes bytes for one of the two streams, in the order in which the user shall see them.
    fn write(&mut self, stream: Stream, bytes: &[u8]);

    /// Takes the progress of the work, if there is anybody who could see it.
    fn progress(&mut self, _: &Progress<'_>) {}

    /// Takes a value for the entities that receive it, or are refreshed because this one changed.
    fn send(&mut self, _: &Sent) {}

    /// Takes a value that belongs to the state that the entity is in: `KEY=VALUE`.
    fn keep(&mut self, _: &str) {}

    /// Takes a file that is replaced: `COPY PATH`.
    fn replaced(&mut self, _: &str) {}

    /// Returns true if all of this has been said before: version 3 has a process scan again for each entity.
    fn is_again(&self) -> bool {
        false
    }
}

/// Shows nothing.
#[derive(Clone, Copy, Debug)]
pub struct Silence;

impl Sink for Silence {
    fn write(&mut self, _: Stream, _: &[u8]) {}
}

/// The output of a plugin about one entity, or while it scans.
pub struct Output<'a>(&'a mut dyn Sink);

impl<'a> Output<'a> {
    /// Output to a sink.
    pub fn new(sink: &'a mut dyn Sink) -> Output<'a> {
        Output(sink)
    }

    /// The same output, for another part of the program.
    pub(crate) fn again(&mut self) -> Output<'_> {
        Output(self.0)
    }

    /// Prints information on stdout; with its newlines.
    pub fn print(&mut self, text: impl AsRef<[u8]>) {
        self.0.write(Stream::Stdout, text.as_ref());
    }

    /// Prints a line `!! TEXT` on stderr: something went wrong.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        self.line("!! ", text.as_ref());
    }

    /// Prints a line `>> TEXT` on stderr: something to look into.
    pub fn warning(&mut self, text: impl AsRef<[u8]>) {
        self.line(">> ", text.as_ref());
    }

    /// Prints a line `>> TEXT` on stderr that is said once in a run.
    pub(crate) fn advise(&mut self, text: impl AsRef<[u8]>) {
        if !self.0.is_again() {
            self.warning(text);
        }
    }

    fn line(&mut self, mark: &str, text: &[u8]) {
        self.0.write(Stream::Stderr, &[mark.as_bytes(), text, b"\n"].concat());
    }

    /// Reports the progress of the work to a person who waits: it leaves no trace. Not oftener than people can see it; a
    /// [`Meter`](crate::Meter) takes care of that.
    pub fn progress(&mut self, progress: &Progress<'_>) {
        self.0.progress(progress);
    }

    /// Sends a value to the entities that receive it, or are refreshed because of this apply. The key is one that a variable of a shell can
    /// have.
    ///
    /// Returns false if it is not sent, as it is too long or has a character that an environment cannot hold.
    pub fn send(&mut self, key: &str, value: impl AsRef<[u8]>) -> bool {
        self.send_value(&Sent::new(key, value.as_ref()))
    }

    /// Sends a value that may be sensitive.
    ///
    /// Returns false if it is not sent, as it is too long or has a character that an environment cannot hold.
    pub fn send_value(&mut self, sent: &Sent) -> bool {
        let can_be_sent = sent.can_be_sent();
        if can_be_sent {
            self.0.send(sent);
        }
        can_be_sent
    }

    /// Says a value that belongs to the state that the entity is in now. When the system is brought back to that, [`Host::kept`] has it.
    ///
    /// Returns false if it is not kept, as it is too long or not one line.
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

    /// Says what was found to be something to keep.
    pub(crate) fn keep_text(&mut self, text: &str) {
        self.0.keep(text);
    }

    /// Says where a copy is of what is replaced, as [`Host::keep_replaced`] has said it to another output.
    ///
    /// [`Host::keep_replaced`]: crate::Host::keep_replaced
    pub fn replaced_text(&mut self, text: &str) {
        self.0.replaced(text);
    }

    /// Prints the output of a program that was called, as it is.
    pub fn relay(&mut self, stream: Stream, bytes: &[u8]) {
        self.0.write(stream, bytes);
    }
}

impl Notices for Output<'_> {
    fn unreadable_record(&mut self, error: &PathError) {
        self.error(format!("cannot use what is remembered: {error}"));
    }

    fn taken_over(&mut self, by: &str, from: &str) {
        self.warning(format!("{by} takes over from {from}"));
    }
}
