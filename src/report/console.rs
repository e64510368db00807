//! The user's two streams: paragraphs that both share, and colours where a person looks.

mod colours;
#[cfg(test)]
mod tests;

use super::remark::Severity;
use bstr::{BStr, BString, ByteSlice};
use colours::{BOLD, ERROR, LineStart, OK, WARNING};
use holo_protocol::Level;
use holo_protocol::session::Stream;
use rustix::fs::{FileType, fstat};
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};

/// The number of bytes that are gathered before they are written.
const BUFFER_SIZE: usize = 1 << 16;
const STATUS_WIDTH: usize = 79;
const ERASE_LINE: &[u8] = b"\r\x1b[K";

/// The output that the user sees, on both streams.
///
/// Within the *paragraph rules* ([`write`](Console::write), [`marked`](Console::marked) and so on), one newline goes before the first
/// output of the run, and a paragraph ends with an empty line; both streams count as one. What goes [`raw`](Console::raw) is outside
/// of them. Output is gathered as long as the order between the streams allows; [`flush`](Console::flush) before waiting.
pub(super) struct Console {
    stdout: Output,
    stderr: Output,
    colours: bool,
    gathered: Vec<u8>,
    /// True while more is to be gathered, although somebody flushes.
    is_held: bool,
    gathered_for: Stream,
    anything_shown: bool,
    trailing_newlines: usize,
    stderr_line: LineStart,
    /// True if the last line of the terminal is a status, which goes before anything else is shown.
    shows_status: bool,
}

/// One stream, and what became of it.
struct Output {
    writer: Box<dyn Write>,
    failure: Option<io::Error>,
}

impl Console {
    /// Returns the process's own streams; with colours if stdout is a terminal, or as `NO_COLOR` and `CLICOLOR_FORCE` have it.
    pub(super) fn for_people() -> Console {
        let colours = anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never;
        Console::for_process(colours)
    }

    /// Returns the process's own streams, without colours.
    pub(super) fn for_programs() -> Console {
        Console::for_process(false)
    }

    fn for_process(colours: bool) -> Console {
        Console::new(Box::new(io::stdout().lock()), Box::new(io::stderr().lock()), colours)
    }

    /// Returns a console on any two streams.
    pub(super) fn new(stdout: Box<dyn Write>, stderr: Box<dyn Write>, colours: bool) -> Console {
        Console {
            stdout: Output { writer: stdout, failure: None },
            stderr: Output { writer: stderr, failure: None },
            colours,
            gathered: Vec::new(),
            is_held: false,
            gathered_for: Stream::Stdout,
            anything_shown: false,
            trailing_newlines: 0,
            stderr_line: LineStart::default(),
            shows_status: false,
        }
    }

    /// Returns true if there is room for a status: not in the middle of a line.
    pub(super) fn is_at_start_of_line(&self) -> bool {
        !self.anything_shown || self.trailing_newlines > 0
    }

    /// Shows a status in the last line of a terminal, as long as nothing else is to be shown.
    pub(super) fn status(&mut self, text: &str) {
        self.write_gathered();
        // A line that is longer than the terminal could not be erased.
        let text: String = text.chars().filter(|letter| !letter.is_control()).take(STATUS_WIDTH).collect();
        self.stderr.write_at_once(&[ERASE_LINE, text.as_bytes()].concat());
        self.shows_status = true;
    }

    fn erase_status(&mut self) {
        if std::mem::take(&mut self.shows_status) {
            self.stderr.write_at_once(ERASE_LINE);
        }
    }

    /// Shows a line with a mark: `!! TEXT` or `>> TEXT`.
    pub(super) fn marked(&mut self, severity: Severity, text: &[u8]) {
        let colour = match severity {
            Severity::Error => ERROR,
            Severity::Warning => WARNING,
        };
        let line = [severity.mark().as_bytes(), text].concat();
        let line = self.styled(colour, line.as_bstr());
        self.finish_stderr_line();
        self.show(Stream::Stderr, &line);
        self.show(Stream::Stderr, b"\n");
    }

    /// Returns the text in bold, if there are colours.
    pub(super) fn bold(&self, text: &BStr) -> BString {
        self.styled(BOLD, text)
    }

    /// Returns the text in the colour of a level, if there are colours.
    pub(super) fn level(&self, level: Level, text: &str) -> BString {
        let colour = match level {
            Level::Ok => OK,
            Level::Warning => WARNING,
            Level::Error => ERROR,
        };
        self.styled(colour, text.into())
    }

    fn styled(&self, colour: &str, text: &BStr) -> BString {
        if self.colours { colours::coloured(colour, text) } else { text.to_owned() }
    }

    /// Shows output within the paragraph rules; marked lines on stderr are coloured.
    pub(super) fn write(&mut self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Stderr && self.colours {
            let coloured = self.stderr_line.colour(bytes);
            self.show(stream, &coloured);
        } else {
            self.show(stream, bytes);
        }
    }

    /// Shows a diff within the paragraph rules, each line indented.
    pub(super) fn indented_diff(&mut self, diff: &[u8]) {
        for line in diff.lines_with_terminator() {
            let line = [b"    ", self.diff_line(line).as_bytes()].concat();
            self.show(Stream::Stdout, &line);
        }
    }

    /// Writes a diff outside of the paragraph rules.
    pub(super) fn raw_diff(&mut self, diff: &[u8]) {
        for line in diff.lines_with_terminator() {
            let line = self.diff_line(line);
            self.raw(Stream::Stdout, &line);
        }
    }

    fn diff_line(&self, line: &[u8]) -> BString {
        if self.colours { colours::diff_line(line) } else { line.into() }
    }

    /// Ends the paragraph: the last output is followed by an empty line. Nothing happens if there was none yet.
    pub(super) fn end_paragraph(&mut self) {
        self.finish_stderr_line();
        if self.anything_shown {
            while self.trailing_newlines < 2 {
                self.raw(Stream::Stdout, b"\n");
                self.trailing_newlines += 1;
            }
        }
    }

    /// Writes what is held back of an unfinished line on stderr.
    fn finish_stderr_line(&mut self) {
        let rest = self.stderr_line.finish();
        if !rest.is_empty() {
            self.show(Stream::Stderr, &rest);
        }
    }

    fn show(&mut self, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if !self.anything_shown {
            self.anything_shown = true;
            self.raw(Stream::Stdout, b"\n");
        }
        let newlines = bytes.iter().rev().take_while(|&&byte| byte == b'\n').count();
        self.trailing_newlines = if newlines == bytes.len() { self.trailing_newlines + newlines } else { newlines };
        self.raw(stream, bytes);
    }

    /// Writes outside of the paragraph rules.
    pub(super) fn raw(&mut self, stream: Stream, bytes: &[u8]) {
        if stream != self.gathered_for || self.gathered.len() + bytes.len() > BUFFER_SIZE {
            self.write_gathered();
            self.gathered_for = stream;
        }
        self.gathered.extend_from_slice(bytes);
    }

    /// Has flushes wait, or flushes: what is said at once is written at once.
    pub(super) fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
        self.flush();
    }

    /// Writes everything that was gathered, unless more is to follow at once.
    pub(super) fn flush(&mut self) {
        if !self.is_held {
            self.write_gathered();
        }
    }

    fn write_gathered(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        self.erase_status();
        let output = match self.gathered_for {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        output.write(&self.gathered);
        self.gathered.clear();
    }

    /// Returns true if the reader of stdout has gone away.
    pub(super) fn reader_is_gone(&self) -> bool {
        self.stdout.failure.as_ref().is_some_and(|failure| failure.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// If stdout could not be written to, for another reason than a reader that went away.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.finish_stderr_line();
        self.write_gathered();
        self.erase_status();
        let gone = self.reader_is_gone();
        match self.stdout.failure.filter(|_| !gone) {
            Some(failure) => {
                let message =
                    format!("!! cannot write to standard output: {}\n", holo_protocol::words::reason(&failure));
                self.stderr.write_at_once(message.as_bytes());
                Err(failure)
            }
            None => Ok(()),
        }
    }
}

impl Output {
    /// Writes bytes, unless others could not be written before.
    fn write(&mut self, bytes: &[u8]) {
        if self.failure.is_none() {
            self.failure = self.writer.write_all(bytes).and_then(|()| self.writer.flush()).err();
        }
    }

    /// Writes bytes that nobody misses if they cannot be written.
    fn write_at_once(&mut self, bytes: &[u8]) {
        let _ = self.writer.write_all(bytes).and_then(|()| self.writer.flush());
    }
}

/// Returns true if a person reads what the process writes on stderr.
pub(super) fn person_reads_errors() -> bool {
    io::stderr().is_terminal()
}

/// Returns true if a person reads all that the process writes.
pub(super) fn person_reads_all() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}

/// Returns the pipe that standard output is, if it is one: it tells when nobody reads it any more.
#[must_use]
pub fn output_pipe() -> Option<OwnedFd> {
    let stdout = io::stdout();
    let is_pipe = fstat(&stdout).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    if is_pipe { stdout.as_fd().try_clone_to_owned().ok() } else { None }
}
