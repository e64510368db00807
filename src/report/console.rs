//! The user's two output streams: paragraphs that both share, and colours on terminals.
//!
//! On a terminal, all bytes are shown as [visible](holo_process::streams) text, as most of them come from files and
//! programs. Colours are therefore never part of the bytes, but separate pieces of a [`Styled`] text.

use super::remark::Severity;
use bstr::ByteSlice;
use holo_process::streams::{self, Visible};
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
    /// `None` if the stream is no terminal.
    visible: Option<Visible>,
    failure: Option<io::Error>,
}

/// A text of which parts are styled.
#[derive(Default)]
pub(super) struct Styled(Vec<Piece>);

enum Piece {
    Bytes(Vec<u8>),
    /// The style of the bytes that follow.
    Style(Style),
}

/// The escape sequence of a style.
#[derive(Clone, Copy)]
struct Style(&'static str);

impl Styled {
    /// Returns a text in bold.
    pub(super) fn bold(text: &[u8]) -> Styled {
        Styled::new(BOLD, text)
    }

    /// Returns a text in the colour of a level.
    pub(super) fn level(level: Level, text: &str) -> Styled {
        let colour = match level {
            Level::Ok => OK,
            Level::Warning => WARNING,
            Level::Error => ERROR,
        };
        Styled::new(colour, text.as_bytes())
    }

    fn new(style: Style, text: &[u8]) -> Styled {
        Styled(vec![Piece::Style(style), Piece::Bytes(text.to_owned()), Piece::Style(RESET)])
    }

    /// Appends bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        match self.0.last_mut() {
            Some(Piece::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.0.push(Piece::Bytes(bytes.to_owned())),
        }
    }

    /// Appends a styled text.
    pub(super) fn append(&mut self, mut text: Styled) {
        self.0.append(&mut text.0);
    }
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
        let (stdout, stderr) = (io::stdout().lock(), io::stderr().lock());
        let terminals = [stdout.is_terminal(), stderr.is_terminal()];
        Console::new(Box::new(stdout), Box::new(stderr), terminals, colours)
    }

    /// Returns a console on any two streams, of which each may be a terminal.
    fn new(stdout: Box<dyn Write>, stderr: Box<dyn Write>, terminals: [bool; 2], colours: bool) -> Console {
        let output = |writer, is_terminal: bool| {
            let visible = is_terminal.then(Visible::default);
            Output { writer, visible, failure: None }
        };
        let [stdout_is_terminal, stderr_is_terminal] = terminals;
        Console {
            stdout: output(stdout, stdout_is_terminal),
            stderr: output(stderr, stderr_is_terminal),
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
        let text: String = streams::visible(&text.replace('\n', " ")).chars().take(STATUS_WIDTH).collect();
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
        let mut line = Styled::new(colour, &[severity.mark().as_bytes(), text].concat());
        line.push(b"\n");
        self.finish_stderr_line();
        self.show_styled(Stream::Stderr, &line);
    }

    /// Shows output under the paragraph rules; marked lines on stderr are coloured.
    pub(super) fn write(&mut self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Stderr && self.colours {
            let coloured = self.stderr_line.colour(bytes);
            self.show_styled(stream, &coloured);
        } else {
            self.show(stream, bytes);
        }
    }

    /// Shows a styled text on stdout under the paragraph rules.
    pub(super) fn write_styled(&mut self, text: &Styled) {
        self.show_styled(Stream::Stdout, text);
    }

    /// Shows an indented diff under the paragraph rules.
    pub(super) fn indented_diff(&mut self, diff: &[u8]) {
        for line in diff.lines_with_terminator() {
            self.show(Stream::Stdout, b"    ");
            self.show_styled(Stream::Stdout, &diff_line(line));
        }
    }

    /// Writes a diff outside of the paragraph rules.
    pub(super) fn raw_diff(&mut self, diff: &[u8]) {
        diff.lines_with_terminator().for_each(|line| self.raw_styled(&diff_line(line)));
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
        self.show_styled(Stream::Stderr, &rest);
    }

    fn show(&mut self, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.begin();
        let newlines = bytes.iter().rev().take_while(|&&byte| byte == b'\n').count();
        self.trailing_newlines = if newlines == bytes.len() { self.trailing_newlines + newlines } else { newlines };
        self.raw(stream, bytes);
    }

    fn show_styled(&mut self, stream: Stream, text: &Styled) {
        for piece in &text.0 {
            match piece {
                Piece::Bytes(bytes) => self.show(stream, bytes),
                Piece::Style(style) => {
                    self.begin();
                    self.set_style(stream, *style);
                }
            }
        }
    }

    /// Writes the newline that precedes the first output of the run.
    fn begin(&mut self) {
        if !std::mem::replace(&mut self.anything_shown, true) {
            self.raw(Stream::Stdout, b"\n");
        }
    }

    /// Writes a styled text on stdout outside of the paragraph rules.
    pub(super) fn raw_styled(&mut self, text: &Styled) {
        for piece in &text.0 {
            match piece {
                Piece::Bytes(bytes) => self.raw(Stream::Stdout, bytes),
                Piece::Style(style) => self.set_style(Stream::Stdout, *style),
            }
        }
    }

    /// Writes outside of the paragraph rules.
    pub(super) fn raw(&mut self, stream: Stream, bytes: &[u8]) {
        self.gather_for(stream, bytes.len());
        let output = if stream == Stream::Stdout { &mut self.stdout } else { &mut self.stderr };
        match &mut output.visible {
            Some(visible) => visible.push(bytes, &mut self.gathered),
            None => self.gathered.extend_from_slice(bytes),
        }
    }

    fn set_style(&mut self, stream: Stream, style: Style) {
        if self.colours {
            self.complete(stream);
            self.gathered.extend_from_slice(style.0.as_bytes());
        }
    }

    /// Writes the rest of a character that has remained incomplete.
    fn complete(&mut self, stream: Stream) {
        self.gather_for(stream, 0);
        let output = if stream == Stream::Stdout { &mut self.stdout } else { &mut self.stderr };
        output.visible.iter_mut().for_each(|visible| visible.finish(&mut self.gathered));
    }

    /// Prepares the buffer for bytes on this stream.
    fn gather_for(&mut self, stream: Stream, length: usize) {
        if stream != self.gathered_for || self.gathered.len() + length > BUFFER_SIZE {
            self.write_gathered();
            self.gathered_for = stream;
        }
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
        self.complete(Stream::Stdout);
        self.complete(Stream::Stderr);
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

const BOLD: Style = Style("\x1b[1m");
const ERROR: Style = Style("\x1b[1;31m");
const WARNING: Style = Style("\x1b[1;33m");
const OK: Style = Style("\x1b[32m");
const HUNK: Style = Style("\x1b[36m");
const REMOVED: Style = Style("\x1b[31m");
const ADDED: Style = Style("\x1b[32m");
const RESET: Style = Style("\x1b[0m");

/// The prefixes and colours of lines on a plugin's stderr.
const MARKS: [(&[u8], Style); 2] = [(b"!! ", ERROR), (b">> ", WARNING)];
/// The prefixes and colours of lines of a diff; the first match applies.
const DIFF_MARKS: [(&[u8], Style); 8] = [
    (b"diff ", BOLD),
    (b"new ", BOLD),
    (b"deleted ", BOLD),
    (b"--- ", BOLD),
    (b"+++ ", BOLD),
    (b"@@ ", HUNK),
    (b"-", REMOVED),
    (b"+", ADDED),
];

/// Returns a line of a diff in its colour.
fn diff_line(line: &[u8]) -> Styled {
    let (text, newline) = line.strip_suffix(b"\n").map_or((line, &b""[..]), |text| (text, b"\n"));
    let style = DIFF_MARKS.iter().find(|(mark, _)| text.starts_with(mark)).map(|(_, style)| *style);
    let mut line = Styled::default();
    match style {
        Some(style) => line.append(Styled::new(style, text)),
        None => line.push(text),
    }
    line.push(newline);
    line
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
    fn colour(&mut self, bytes: &[u8]) -> Styled {
        let mut coloured = Styled::default();
        for &byte in bytes {
            if byte == b'\n' {
                coloured.append(self.finish());
                coloured.push(b"\n");
            } else if self.inside {
                coloured.push(&[byte]);
            } else {
                self.held.push(byte);
                self.decide(&mut coloured);
            }
        }
        coloured
    }

    fn decide(&mut self, coloured: &mut Styled) {
        let colour = MARKS.iter().find(|(mark, _)| *mark == self.held).map(|(_, colour)| colour);
        if let Some(colour) = colour {
            coloured.0.push(Piece::Style(*colour));
            self.coloured = true;
        } else if MARKS.iter().any(|(mark, _)| mark.starts_with(&self.held)) {
            return;
        }
        self.inside = true;
        coloured.push(&std::mem::take(&mut self.held));
    }

    /// Ends the line. Returns the bytes that were held back, and the end of the colour.
    fn finish(&mut self) -> Styled {
        let line = std::mem::take(self);
        let mut rest = Styled::default();
        if !line.held.is_empty() {
            rest.push(&line.held);
        }
        if line.coloured {
            rest.0.push(Piece::Style(RESET));
        }
        rest
    }
}

#[cfg(test)]
mod tests;
