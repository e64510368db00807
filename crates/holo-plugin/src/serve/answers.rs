//! The answers to a request, and the forms in which they reach the dispatcher.

use crate::streams::{self, Shown};
use crate::{FilePair, Sink};
use bstr::{BString, ByteSlice};
use holo_protocol::session::{Answer, Operation, Outcome, Stream};
use holo_protocol::{API_VERSION_4, Message, Progress, Text, environment};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

/// A form in which answers reach the dispatcher.
pub(super) trait Wire {
    /// True if the process serves one request. Then an earlier process has printed the warnings of a scan.
    const ONE_REQUEST: bool;

    fn say(&mut self, answer: &Answer);

    /// Sends buffered answers.
    fn flush(&mut self) -> io::Result<()>;

    /// Receives the exit status of version 3 for an entity that has failed, before its result.
    fn fail_with(&mut self, _: u8) {}
}

/// One JSON object per line on file descriptor 3.
pub(super) struct JsonLines(pub(super) BufWriter<Shown<File>>);

impl Wire for JsonLines {
    const ONE_REQUEST: bool = false;

    fn say(&mut self, answer: &Answer) {
        // An error is reported when the request ends.
        let _ =
            serde_json::to_writer(&mut self.0, answer).map_err(io::Error::from).and_then(|()| self.0.write_all(b"\n"));
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The streams and the exit status of a process that serves one request, as in version 3.
pub(super) struct Streams {
    version: u32,
    operation: Operation,
    /// The exit status of version 3, if the entity has failed.
    version_3_status: Option<u8>,
    has_failed: bool,
}

impl Streams {
    pub(super) fn new(version: u32, operation: Operation) -> Streams {
        Streams { version, operation, version_3_status: None, has_failed: false }
    }

    /// Returns the exit status of the process.
    pub(super) fn exit_code(&self) -> ExitCode {
        match self.version_3_status {
            _ if !self.has_failed => ExitCode::SUCCESS,
            // In version 4, every failure has a nonzero status.
            Some(status) if self.version >= API_VERSION_4 => ExitCode::from(status.max(1)),
            Some(status) => ExitCode::from(status),
            None => ExitCode::FAILURE,
        }
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        // If the reader is gone, the work is completed nevertheless.
        let written = streams::write(stream, bytes);
        // But an answer that consists of its output is not complete.
        self.has_failed |= written.is_err() && matches!(self.operation, Operation::Scan | Operation::Adopt);
    }

    /// Writes to file descriptor 3.
    fn message(&mut self, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        if let Err(error) = messages().and_then(|mut messages| messages.write_all(text)) {
            let (number, reason) = (environment::MESSAGE_FD, holo_protocol::words::reason(&error));
            self.write(Stream::Stderr, format!("!! cannot write to file descriptor {number}: {reason}\n").as_bytes());
            self.has_failed = true;
        }
    }

    fn result(&mut self, messages: &[Text], result: Outcome) {
        let has_failed = result == Outcome::Failed;
        self.has_failed |= has_failed;
        let mut messages: Vec<&Text> = messages.iter().collect();
        // Values come before the result that they belong to.
        messages.sort_by_key(|line| !line.as_bstr().starts_with(b"send") && !line.as_bstr().starts_with(b"keep"));
        if self.version >= API_VERSION_4 || self.operation == Operation::Adopt {
            let lines = messages.iter().flat_map(|line| [line.as_bstr().as_bytes(), b"\n"]);
            self.message(&lines.collect::<Vec<_>>().concat());
            return;
        }
        for line in messages {
            match Message::parse(line.as_bstr(), API_VERSION_4) {
                Some(Message::Changed(text)) => self.write(Stream::Stdout, &[text.as_slice(), b"\n"].concat()),
                Some(Message::Send(_)) => self.write(Stream::Stdout, &[line.as_bstr().as_bytes(), b"\n"].concat()),
                Some(Message::RequiresForce(reason)) => {
                    // The text is that of the dispatcher of version 4.
                    self.write(Stream::Stderr, &[b"!! ", reason.as_slice(), b" (use --force to proceed)\n"].concat());
                }
                Some(Message::ChangedQuietly(_) | Message::Keep(_) | Message::Replaced(_)) => {}
                Some(Message::Deferred(_)) => {
                    self.write(Stream::Stderr, &[&b">> "[..], line.as_bstr(), b"\n"].concat());
                    self.message(&[Message::NotChanged.to_line().as_slice(), b"\n"].concat());
                }
                // In version 3, a failure may have the exit status 0, and must not be mistaken for an unchanged entity.
                Some(Message::NotChanged | Message::Skipped(_)) if has_failed => {}
                Some(Message::Skipped(_)) => {
                    self.message(&[Message::NotChanged.to_line().as_slice(), b"\n"].concat());
                }
                _ => self.message(&[line.as_bstr().as_bytes(), b"\n"].concat()),
            }
        }
    }
}

impl Wire for Streams {
    const ONE_REQUEST: bool = true;

    fn say(&mut self, answer: &Answer) {
        match answer {
            Answer::Output { stream, text, .. } => self.write(*stream, text.as_bstr()),
            Answer::Report { text, .. } if self.operation == Operation::Scan => {
                self.write(Stream::Stdout, text.as_bstr());
            }
            // A definition, unlike a list of candidates.
            Answer::Text { entity: Some(_), text, .. } if self.operation == Operation::Adopt => {
                self.write(Stream::Stdout, text.as_bstr());
            }
            Answer::Report { text, .. } | Answer::Text { text, .. } => self.message(text.as_bstr()),
            Answer::Progress { text, .. } if self.version >= API_VERSION_4 => {
                let line = Message::Progress(text.0.clone()).to_line();
                self.message(&[line.as_slice(), b"\n"].concat());
            }
            Answer::Diff { .. } if matches!(self.operation, Operation::Diff | Operation::Preview) => {
                let pair = FilePair::from_answer(answer).map(|pair| pair.to_bytes(self.version));
                self.message(&pair.unwrap_or_default());
            }
            Answer::Result { messages, result, .. } => self.result(messages, *result),
            Answer::End { result, .. } => self.has_failed |= *result == Outcome::Failed,
            Answer::Begin { .. } | Answer::Progress { .. } | Answer::Diff { .. } => {}
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn fail_with(&mut self, status: u8) {
        self.version_3_status = Some(status);
    }
}

/// Opens file descriptor 3 by its path; adopting it by number would need unsafe code.
pub(super) fn messages() -> io::Result<Shown<File>> {
    // If it is a file, earlier messages must be preserved.
    let opened = OpenOptions::new().append(true).open(format!("/proc/self/fd/{}", environment::MESSAGE_FD));
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !Path::new("/proc/self").exists() => {
            Err(io::Error::new(io::ErrorKind::NotFound, "/proc is not mounted, which is needed for that"))
        }
        opened => opened.map(Shown::new),
    }
}

/// Answers, buffered until they must be visible.
pub(super) struct Answers<W> {
    pub(super) wire: W,
    /// The number of the current request.
    pub(super) request: u64,
    /// True while answers for several entities are buffered.
    holds_back: bool,
}

impl<W: Wire> Answers<W> {
    pub(super) fn new(wire: W) -> Answers<W> {
        Answers { wire, request: 0, holds_back: false }
    }

    pub(super) fn report(&mut self, text: Vec<u8>) {
        if !text.is_empty() {
            self.wire.say(&Answer::Report { request: self.request, text: text.into() });
        }
    }

    pub(super) fn text(&mut self, entity: Option<&BString>, text: &[u8]) {
        if !text.is_empty() {
            let (request, entity) = (self.request, entity.cloned().map(Text));
            self.wire.say(&Answer::Text { request, entity, text: text.into() });
        }
    }

    pub(super) fn begin(&mut self, id: &BString) {
        self.wire.say(&Answer::Begin { request: self.request, entity: Text(id.clone()) });
        // If this process dies, the dispatcher must know which entity it was working on.
        self.hand_over();
    }

    pub(super) fn output(&mut self, entity: Option<&BString>, stream: Stream, bytes: &[u8]) {
        let (request, entity) = (self.request, entity.cloned().map(Text));
        self.wire.say(&Answer::Output { request, entity, stream, text: bytes.into() });
        self.hand_over();
    }

    pub(super) fn progress(&mut self, id: &BString, progress: &Progress<'_>) {
        let text = Text::from(progress.to_string().as_str());
        self.wire.say(&Answer::Progress { request: self.request, entity: Text(id.clone()), text });
        let _ = self.wire.flush();
    }

    pub(super) fn diff(&mut self, id: &BString, pair: &FilePair) {
        self.wire.say(&pair.to_answer(self.request, id.as_bstr()));
    }

    pub(super) fn result(&mut self, id: &BString, messages: impl IntoIterator<Item = Message>, result: Outcome) {
        self.result_in_lines(id, messages.into_iter().map(|message| message.to_line()), result);
    }

    pub(super) fn result_in_lines(&mut self, id: &BString, lines: impl Iterator<Item = BString>, result: Outcome) {
        let messages = lines.map(Text).collect();
        self.wire.say(&Answer::Result { request: self.request, entity: Text(id.clone()), messages, result });
    }

    /// Ends a request.
    ///
    /// # Errors
    /// If the dispatcher has closed the connection.
    pub(super) fn end(&mut self, result: Outcome) -> io::Result<()> {
        self.wire.say(&Answer::End { request: self.request, result });
        self.wire.flush()
    }

    /// Starts or stops buffering the answers for several entities; buffered ones are sent.
    pub(super) fn hold_back(&mut self, holds_back: bool) {
        self.holds_back = holds_back;
        self.hand_over();
    }

    /// Sends the buffered answers, unless more follow immediately.
    pub(super) fn hand_over(&mut self) {
        if !self.holds_back {
            let _ = self.wire.flush();
        }
    }
}

/// The sink for the output of an entity or a scan.
pub(super) struct AnswerSink<'a, W> {
    pub(super) answers: &'a mut Answers<W>,
    pub(super) entity: Option<&'a BString>,
}

impl<W: Wire> Sink for AnswerSink<'_, W> {
    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        self.answers.output(self.entity, stream, bytes);
    }

    /// An entity is only looked for after a scan.
    fn is_again(&self) -> bool {
        W::ONE_REQUEST && self.entity.is_some()
    }
}
