//! The user's two output streams: paragraphs that both share, and colours on terminals.

use super::remark::Severity;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::Level;
use holo_protocol::session::Stream;
use rustix::fs::{FileType, fstat};
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};

/// The size of the output buffer, in bytes.
const BUFFER_SIZE: usize = 1 << 16;
const STATUS_WIDTH: usize = 79;
const ERASE_LINE: &[u8] = b"\r\x1b[K";

/// The output on both streams.
///
/// Under the *paragraph rules* ([`write`](Console::write), [`marked`](Console::marked) and so on), one newline precedes
/// the first output of the run, and a paragraph ends with an empty line; both streams count as one.
/// [`raw`](Console::raw) output does not follow these rules. Output is buffered as long as the order between the
/// streams allows; [`flush`](Console::flush) before waiting.
pub(super) struct Console {
    stdout: Output,
    stderr: Output,
    colours: bool,
    gathered: Vec<u8>,
    /// Whether flushing is suspended because more output follows immediately.
    is_held: bool,
    gathered_for: Stream,
    anything_shown: bool,
    trailing_newlines: usize,
    stderr_line: LineStart,
    /// Whether the last line of the terminal is a status, which must be erased before any other output.
    shows_status: bool,
}

/// An output stream, and its first error.
struct Output {
    writer: Box<dyn Write>,
    failure: Option<io::Error>,
}

impl Console {
    /// Returns a console on the process's streams, with colours if stdout is a terminal, or according to `NO_COLOR` and
    /// `CLICOLOR_FORCE`.
    pub(super) fn for_people() -> Console {
        let colours = anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never;
        Console::for_process(colours)
    }

    /// Returns a console on the process's streams, without colours.
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

    /// Returns true if a status can be shown, that is, not in the middle of a line.
    pub(super) fn is_at_start_of_line(&self) -> bool {
        !self.anything_shown || self.trailing_newlines > 0
    }

    /// Shows a status in the last line of a terminal, until the next output.
    pub(super) fn status(&mut self, text: &str) {
        self.write_gathered();
        // A line that is longer than the terminal is wide could not be erased.
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
        if self.colours { coloured(colour, text) } else { text.to_owned() }
    }

    /// Shows output under the paragraph rules; marked lines on stderr are coloured.
    pub(super) fn write(&mut self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Stderr && self.colours {
            let coloured = self.stderr_line.colour(bytes);
            self.show(stream, &coloured);
        } else {
            self.show(stream, bytes);
        }
    }

    /// Shows an indented diff under the paragraph rules.
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
        if self.colours { diff_line(line) } else { line.into() }
    }

    /// Ends the paragraph with an empty line, if there has been any output.
    pub(super) fn end_paragraph(&mut self) {
        self.finish_stderr_line();
        if self.anything_shown {
            while self.trailing_newlines < 2 {
                self.raw(Stream::Stdout, b"\n");
                self.trailing_newlines += 1;
            }
        }
    }

    /// Writes the buffered part of an unfinished line on stderr.
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

    /// Suspends or resumes flushing, so that output that arrives together is written at once.
    pub(super) fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
        self.flush();
    }

    /// Writes all buffered output, unless flushing is suspended.
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

    /// Returns true if the reader of stdout is gone.
    pub(super) fn reader_is_gone(&self) -> bool {
        self.stdout.failure.as_ref().is_some_and(|failure| failure.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// If writing to stdout failed, other than because its reader is gone.
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
    /// Writes bytes, unless an earlier write failed.
    fn write(&mut self, bytes: &[u8]) {
        if self.failure.is_none() {
            self.failure = self.writer.write_all(bytes).and_then(|()| self.writer.flush()).err();
        }
    }

    /// Writes bytes, and ignores errors.
    fn write_at_once(&mut self, bytes: &[u8]) {
        let _ = self.writer.write_all(bytes).and_then(|()| self.writer.flush());
    }
}

/// Returns true if stderr is a terminal, so that a person reads errors.
pub(super) fn person_reads_errors() -> bool {
    io::stderr().is_terminal()
}

/// Returns true if stdout and stderr are terminals, so that a person reads all output.
pub(super) fn person_reads_all() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}

/// Returns a descriptor of standard output if that is a pipe, to detect that its reader is gone.
#[must_use]
pub fn output_pipe() -> Option<OwnedFd> {
    let stdout = io::stdout();
    let is_pipe = fstat(&stdout).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    if is_pipe { stdout.as_fd().try_clone_to_owned().ok() } else { None }
}

pub(super) const BOLD: &str = "\x1b[1m";
const ERROR: &str = "\x1b[1;31m";
const WARNING: &str = "\x1b[1;33m";
const OK: &str = "\x1b[32m";
const HUNK: &str = "\x1b[36m";
const REMOVED: &str = "\x1b[31m";
const ADDED: &str = "\x1b[32m";
const RESET: &str = "\x1b[0m";

/// The prefixes and colours of lines on a plugin's stderr.
const MARKS: [(&[u8], &str); 2] = [(b"!! ", ERROR), (b">> ", WARNING)];
/// The prefixes and colours of lines of a diff; the first match applies.
const DIFF_MARKS: [(&[u8], &str); 8] = [
    (b"diff ", BOLD),
    (b"new ", BOLD),
    (b"deleted ", BOLD),
    (b"--- ", BOLD),
    (b"+++ ", BOLD),
    (b"@@ ", HUNK),
    (b"-", REMOVED),
    (b"+", ADDED),
];

/// Returns the text in a colour.
fn coloured(colour: &str, text: &BStr) -> BString {
    [colour.as_bytes(), text, RESET.as_bytes()].concat().into()
}

/// Returns a line of a diff in its colour.
fn diff_line(line: &[u8]) -> BString {
    let (text, newline) = line.strip_suffix(b"\n").map_or((line, &b""[..]), |text| (text, b"\n"));
    match DIFF_MARKS.iter().find(|(mark, _)| text.starts_with(mark)) {
        Some((_, colour)) => [&coloured(colour, text.as_bstr())[..], newline].concat().into(),
        None => line.into(),
    }
}

/// The beginning of a line on stderr: its first three bytes determine its colour.
#[derive(Default)]
struct LineStart {
    held: Vec<u8>,
    inside: bool,
    coloured: bool,
}

impl LineStart {
    /// Colours the lines that begin with a mark. An unfinished beginning that may become a mark is held back.
    fn colour(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut coloured = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            if byte == b'\n' {
                coloured.append(&mut self.finish());
                coloured.push(b'\n');
            } else if self.inside {
                coloured.push(byte);
            } else {
                self.held.push(byte);
                self.decide(&mut coloured);
            }
        }
        coloured
    }

    fn decide(&mut self, coloured: &mut Vec<u8>) {
        let colour = MARKS.iter().find(|(mark, _)| *mark == self.held).map(|(_, colour)| colour);
        if let Some(colour) = colour {
            coloured.extend_from_slice(colour.as_bytes());
            self.coloured = true;
        } else if MARKS.iter().any(|(mark, _)| mark.starts_with(&self.held)) {
            return;
        }
        self.inside = true;
        coloured.append(&mut self.held);
    }

    /// Ends the line. Returns the bytes that were held back, and the end of the colour.
    fn finish(&mut self) -> Vec<u8> {
        let line = std::mem::take(self);
        let mut rest = line.held;
        if line.coloured {
            rest.extend_from_slice(RESET.as_bytes());
        }
        rest
    }
}

#[cfg(test)]
mod tests;
