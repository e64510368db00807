//! The answers to a request, one per line.

use crate::{FilePair, Sink};
use bstr::{BString, ByteSlice};
use holo_protocol::session::{Answer, Outcome, Stream};
use holo_protocol::{Message, Progress, Text};
use std::io::{self, Write};

/// Answers, buffered until they must be visible.
pub(super) struct Answers<W: Write> {
    writer: W,
    /// The number of the current request.
    pub(super) request: u64,
    /// True while answers for several entities are buffered.
    holds_back: bool,
}

impl<W: Write> Answers<W> {
    /// Creates answers with this writer.
    pub(super) fn new(writer: W) -> Answers<W> {
        Answers { writer, request: 0, holds_back: false }
    }

    pub(super) fn say(&mut self, answer: &Answer) {
        // An error is reported when the request ends.
        let _ = serde_json::to_writer(&mut self.writer, answer)
            .map_err(io::Error::from)
            .and_then(|()| self.writer.write_all(b"\n"));
    }

    pub(super) fn report(&mut self, text: Vec<u8>) {
        self.say(&Answer::Report { request: self.request, text: text.into() });
    }

    pub(super) fn text(&mut self, entity: Option<&BString>, text: &[u8]) {
        if !text.is_empty() {
            self.say(&Answer::Text { request: self.request, entity: entity.cloned().map(Text), text: text.into() });
        }
    }

    pub(super) fn output(&mut self, entity: Option<&BString>, stream: Stream, bytes: &[u8]) {
        let (request, entity) = (self.request, entity.cloned().map(Text));
        self.say(&Answer::Output { request, entity, stream, text: bytes.into() });
        self.hand_over();
    }

    /// Ends a request.
    ///
    /// # Errors
    /// If the dispatcher has closed the connection.
    pub(super) fn end(&mut self, result: Outcome) -> io::Result<()> {
        self.say(&Answer::End { request: self.request, result });
        self.writer.flush()
    }

    /// Starts or stops buffering the answers for several entities; buffered ones are written.
    pub(super) fn hold_back(&mut self, holds_back: bool) {
        self.holds_back = holds_back;
        self.hand_over();
    }

    /// Writes the buffered answers, unless more follow immediately.
    pub(super) fn hand_over(&mut self) {
        if !self.holds_back {
            let _ = self.writer.flush();
        }
    }

    pub(super) fn progress(&mut self, id: &BString, progress: &Progress<'_>) {
        let text = Text::from(progress.to_string().as_str());
        self.say(&Answer::Progress { request: self.request, entity: Text(id.clone()), text });
        let _ = self.writer.flush();
    }

    pub(super) fn diff(&mut self, id: &BString, pair: &FilePair) {
        self.say(&pair.to_answer(self.request, id.as_bstr()));
    }

    pub(super) fn result(&mut self, id: &BString, messages: impl IntoIterator<Item = Message>, result: Outcome) {
        let messages = messages.into_iter().map(|message| Text(message.to_line())).collect();
        self.say(&Answer::Result { request: self.request, entity: Text(id.clone()), messages, result });
    }
}

/// The sink for the output of an entity or a scan.
pub(super) struct AnswerSink<'a, W: Write> {
    pub(super) answers: &'a mut Answers<W>,
    pub(super) entity: Option<&'a BString>,
}

impl<W: Write> Sink for AnswerSink<'_, W> {
    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        self.answers.output(self.entity, stream, bytes);
    }
}
