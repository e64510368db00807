//! The user's two streams: paragraphs that both share, and colours where a person looks.

use super::hints;
use super::json_state::JsonState;
use super::line::{Line, Outcome};
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::session::Stream;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

const BOLD: &str = "\x1b[1m";
const RESET: &str = "\x1b[0m";
const ERROR: &str = "\x1b[1;31m";
const WARNING: &str = "\x1b[1;33m";
const HUNK: &str = "\x1b[36m";
const REMOVED: &str = "\x1b[31m";
const ADDED: &str = "\x1b[32m";

/// The lines of a plugin's stderr that are coloured, by their beginnings.
const MARKS: [(&[u8], &str); 2] = [(b"!! ", ERROR), (b">> ", WARNING)];
/// The lines of a diff that are coloured, by their beginnings; the first that fits counts.
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

/// The number of bytes that are gathered before they are written.
const BUFFER_SIZE: usize = 1 << 16;

/// The output that the user sees, on both streams.
///
/// Within the *paragraph rules* ([`write`](Console::write), [`error`](Console::error) and so on), one newline goes before the first
/// output of the run, and a paragraph ends with an empty line; both streams count as one. What goes [`raw`](Console::raw) is outside
/// of them. Output is gathered as long as the order between the streams allows; [`flush`](Console::flush) before waiting.
///
/// A console that [speaks JSON](Console::set_json) makes a line on stdout of all that.
pub struct Console {
    stdout: Output,
    stderr: Output,
    colours: bool,
    gathered: Vec<u8>,
    gathered_for: Stream,
    anything_shown: bool,
    trailing_newlines: usize,
    stderr_line: LineStart,
    /// True if a person reads stderr, and is told what to do about errors.
    gives_hints: bool,
    /// The part of the last line on stderr that has been written, for those hints.
    unfinished_line: Vec<u8>,
    json: Option<JsonState>,
    status: Option<StatusLine>,
    held: Option<Held>,
}

/// Output that is held back.
pub struct Held {
    output: Vec<(Stream, Vec<u8>)>,
    /// The console's state as long as this is held back; in the console itself, its state before.
    state: State,
}

/// The state of a console that depends on the output so far.
#[derive(Clone, Default)]
struct State {
    anything_shown: bool,
    trailing_newlines: usize,
    stderr_line: LineStart,
    unfinished_line: Vec<u8>,
    json: Option<JsonState>,
}

/// The work in progress, in the last line of a terminal, as long as nothing else is to be shown.
struct StatusLine {
    begun: Instant,
    last: Option<Instant>,
    shown: bool,
}

/// The time that a run is silent before it shows what it is at.
const STATUS_AFTER: Duration = Duration::from_secs(1);
/// The interval at which that is shown anew.
const STATUS_EVERY: Duration = Duration::from_millis(100);
const STATUS_WIDTH: usize = 79;
const ERASE_LINE: &[u8] = b"\r\x1b[K";

/// One stream, and what became of it.
struct Output {
    writer: Box<dyn Write>,
    failure: Option<io::Error>,
}

/// The known beginning of a line on stderr: up to three bytes decide its colour.
#[derive(Clone, Default)]
struct LineStart {
    held: Vec<u8>,
    inside: bool,
    coloured: bool,
}

impl Console {
    /// The process's own streams; colours if stdout is a terminal, or as `NO_COLOR` and `CLICOLOR_FORCE` have it.
    #[must_use]
    pub fn of_process() -> Console {
        let colours = anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never;
        let mut console = Console::new(Box::new(io::stdout().lock()), Box::new(io::stderr().lock()), colours);
        console.gives_hints = io::stderr().is_terminal();
        if io::stdout().is_terminal() && io::stderr().is_terminal() {
            console.status = Some(StatusLine { begun: Instant::now(), last: None, shown: false });
        }
        console
    }

    /// Returns true if a person sees what is shown.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.status.is_some()
    }

    /// Shows what is at work, if the run takes long and a person sees it.
    pub fn status(&mut self, text: &[u8]) {
        let Some(status) = &mut self.status else { return };
        let is_time = status.last.map_or(status.begun.elapsed() > STATUS_AFTER, |last| last.elapsed() > STATUS_EVERY);
        // In the middle of a line there is no room for it.
        if is_time && (!self.anything_shown || self.trailing_newlines > 0) {
            status.last = Some(Instant::now());
            self.flush();
            // A line that is longer than the terminal could not be erased.
            let text: String = text.chars().filter(|letter| !letter.is_control()).take(STATUS_WIDTH).collect();
            let line = [ERASE_LINE, text.as_bytes()].concat();
            let _ = self.stderr.writer.write_all(&line).and_then(|()| self.stderr.writer.flush());
            if let Some(status) = &mut self.status {
                status.shown = true;
            }
        }
    }

    fn erase_status(&mut self) {
        if let Some(status) = &mut self.status
            && std::mem::take(&mut status.shown)
        {
            let _ = self.stderr.writer.write_all(ERASE_LINE).and_then(|()| self.stderr.writer.flush());
        }
    }

    /// Any two streams.
    #[must_use]
    pub fn new(stdout: Box<dyn Write>, stderr: Box<dyn Write>, colours: bool) -> Console {
        Console {
            stdout: Output { writer: stdout, failure: None },
            stderr: Output { writer: stderr, failure: None },
            colours,
            gathered: Vec::new(),
            gathered_for: Stream::Stdout,
            anything_shown: false,
            trailing_newlines: 0,
            stderr_line: LineStart::default(),
            gives_hints: false,
            unfinished_line: Vec::new(),
            json: None,
            status: None,
            held: None,
        }
    }

    /// Writes nothing but JSON Lines from now on.
    pub fn set_json(&mut self) {
        self.colours = false;
        self.gives_hints = false;
        self.status = None;
        self.json = Some(JsonState::default());
    }

    /// Returns true if it writes nothing but JSON Lines.
    #[must_use]
    pub fn speaks_json(&self) -> bool {
        self.json.is_some()
    }

    /// Writes a line, if it speaks JSON.
    pub fn line(&mut self, line: &Line<'_>) {
        self.in_json(|state| state.line(line));
    }

    /// Says which entity it is about from now on, for JSON; the one before.
    pub fn set_entity(&mut self, entity: Option<BString>) -> Option<BString> {
        let mut before = None;
        self.in_json(|state| {
            let (turned_from, rest) = state.set_entity(entity);
            before = turned_from;
            rest
        });
        before
    }

    /// Counts entities from now on, for the last line of JSON.
    pub(super) fn begin_tally(&mut self) {
        self.json.iter_mut().for_each(JsonState::begin_tally);
    }

    /// Writes the line that ends an entity, if it speaks JSON.
    pub(super) fn end_entity(&mut self, outcome: Outcome, line: &Line<'_>) {
        self.json.iter_mut().for_each(|state| state.count(outcome));
        self.line(line);
        self.set_entity(None);
    }

    /// Writes the last line, if it speaks JSON: how the run ended, and what broke it off if anything did.
    /// An empty text stands for the error that was shown last.
    pub fn summary(&mut self, exit_code: u8, broken_off: Option<&str>) {
        self.in_json(|state| state.summary(exit_code, broken_off));
    }

    /// Has JSON written, if that is what it speaks; whether it is.
    fn in_json(&mut self, lines: impl FnOnce(&mut JsonState) -> Vec<u8>) -> bool {
        let Some(state) = &mut self.json else { return false };
        let lines = lines(state);
        self.raw(Stream::Stdout, &lines);
        true
    }

    /// Shows an error: `!! TEXT`.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        if !self.in_json(|state| state.error(text.as_ref())) {
            self.marked("!! ", ERROR, text.as_ref());
            self.hint_at(text.as_ref());
        }
    }

    /// Shows what a person can do about the errors before, as a warning: `>> TEXT`. A script that reads version 3's words does not see it.
    pub fn advise(&mut self, text: impl AsRef<[u8]>) {
        if self.gives_hints {
            self.warning(text);
        }
    }

    /// Shows an error outside of the paragraph rules and without a mark, as version 3 has some.
    pub fn raw_error(&mut self, text: impl AsRef<[u8]>) {
        if !self.in_json(|state| state.error(text.as_ref())) {
            self.raw(Stream::Stderr, &[text.as_ref(), b"\n"].concat());
        }
    }

    /// Shows what helps people with the error before. JSON has no use for it.
    pub fn hint(&mut self, text: impl AsRef<[u8]>) {
        if !self.speaks_json() {
            self.write(Stream::Stderr, &[text.as_ref(), b"\n"].concat());
        }
    }

    /// Shows a warning: `>> TEXT`.
    pub fn warning(&mut self, text: impl AsRef<[u8]>) {
        if !self.in_json(|state| state.warning(text.as_ref())) {
            self.marked(">> ", WARNING, text.as_ref());
        }
    }

    fn marked(&mut self, mark: &str, colour: &str, text: &[u8]) {
        let line = [mark.as_bytes(), text].concat();
        let line = self.styled(colour, line.as_bstr());
        self.finish_stderr_line();
        self.show(Stream::Stderr, &line);
        self.show(Stream::Stderr, b"\n");
    }

    /// The text in bold, if there are colours.
    #[must_use]
    pub fn bold(&self, text: &BStr) -> BString {
        self.styled(BOLD, text)
    }

    fn styled(&self, colour: &str, text: &BStr) -> BString {
        if self.colours { [colour.as_bytes(), text, RESET.as_bytes()].concat().into() } else { text.to_owned() }
    }

    /// Shows output within the paragraph rules; marked lines on stderr are coloured.
    pub fn write(&mut self, stream: Stream, bytes: &[u8]) {
        if self.in_json(|state| state.output(stream, bytes)) {
            return;
        }
        if stream == Stream::Stderr && self.gives_hints {
            for line in bytes.lines_with_terminator() {
                self.write_to(stream, line);
                self.follow_line(line);
            }
        } else {
            self.write_to(stream, bytes);
        }
    }

    fn write_to(&mut self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Stderr && self.colours {
            let coloured = self.stderr_line.colour(bytes);
            self.show(stream, &coloured);
        } else {
            self.show(stream, bytes);
        }
    }

    /// Takes the next piece of a line on stderr, and shows a hint when it is whole and an error that has one.
    fn follow_line(&mut self, piece: &[u8]) {
        self.unfinished_line.extend_from_slice(piece);
        if piece.ends_with(b"\n") {
            let line = std::mem::take(&mut self.unfinished_line);
            if let Some(error) = line.trim_ascii_end().strip_prefix(b"!! ") {
                self.hint_at(error);
            }
        }
    }

    fn hint_at(&mut self, error: &[u8]) {
        if let Some(hint) = self.gives_hints.then(|| hints::for_error(&error.to_str_lossy())).flatten() {
            self.warning(hint);
        }
    }

    /// Shows a diff within the paragraph rules, each line indented.
    pub fn indented_diff(&mut self, diff: &[u8]) {
        for line in diff.lines_with_terminator() {
            let line = [b"    ", self.diff_line(line).as_bytes()].concat();
            self.show(Stream::Stdout, &line);
        }
    }

    /// Writes a diff outside of the paragraph rules.
    pub fn raw_diff(&mut self, diff: &[u8]) {
        if self.in_json(|state| state.diff(diff)) {
            return;
        }
        for line in diff.lines_with_terminator() {
            let line = self.diff_line(line);
            self.raw(Stream::Stdout, &line);
        }
    }

    fn diff_line(&self, line: &[u8]) -> BString {
        let (text, newline) = line.strip_suffix(b"\n").map_or((line, &b""[..]), |text| (text, b"\n"));
        match DIFF_MARKS.iter().find(|(mark, _)| text.starts_with(mark)) {
            Some((_, colour)) => [&self.styled(colour, text.as_bstr())[..], newline].concat().into(),
            None => line.into(),
        }
    }

    /// Ends the paragraph: the last output is followed by an empty line. Nothing happens if there was none yet.
    pub fn end_paragraph(&mut self) {
        if self.in_json(JsonState::finish) {
            return;
        }
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

    /// Holds back all output from now on, unless that is done already.
    pub fn hold(&mut self) {
        if self.held.is_none() {
            self.flush();
            self.held = Some(Held { output: Vec::new(), state: self.state() });
        }
    }

    /// Gives what was held back, if anything was. The console is then as if that had never been shown.
    pub fn take_held(&mut self) -> Option<Held> {
        let mut held = self.held.take()?;
        let after = self.state();
        self.set_state(std::mem::replace(&mut held.state, after));
        Some(held)
    }

    /// Shows what was held back, after nothing but whole lines.
    pub fn replay(&mut self, held: Held) {
        for (stream, bytes) in held.output {
            self.raw(stream, &bytes);
        }
        self.set_state(held.state);
    }

    fn state(&self) -> State {
        State {
            anything_shown: self.anything_shown,
            trailing_newlines: self.trailing_newlines,
            stderr_line: self.stderr_line.clone(),
            unfinished_line: self.unfinished_line.clone(),
            json: self.json.clone(),
        }
    }

    fn set_state(&mut self, state: State) {
        let State { anything_shown, trailing_newlines, stderr_line, unfinished_line, json } = state;
        (self.anything_shown, self.trailing_newlines) = (anything_shown, trailing_newlines);
        (self.stderr_line, self.unfinished_line, self.json) = (stderr_line, unfinished_line, json);
    }

    /// Writes outside of the paragraph rules.
    pub fn raw(&mut self, stream: Stream, bytes: &[u8]) {
        if let Some(held) = &mut self.held {
            held.output.push((stream, bytes.to_vec()));
            return;
        }
        if stream != self.gathered_for || self.gathered.len() + bytes.len() > BUFFER_SIZE {
            self.flush();
            self.gathered_for = stream;
        }
        self.gathered.extend_from_slice(bytes);
    }

    /// Writes everything that was gathered.
    pub fn flush(&mut self) {
        if !self.gathered.is_empty() {
            self.erase_status();
        }
        let output = match self.gathered_for {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        if !self.gathered.is_empty() && output.failure.is_none() {
            let written = output.writer.write_all(&self.gathered).and_then(|()| output.writer.flush());
            output.failure = written.err();
        }
        self.gathered.clear();
    }

    /// Returns true if the reader of stdout has gone away: what only prints may stop then.
    #[must_use]
    pub fn reader_is_gone(&self) -> bool {
        self.stdout.failure.as_ref().is_some_and(|failure| failure.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// If stdout could not be written to, for another reason than a reader that went away.
    pub fn finish(mut self) -> io::Result<()> {
        self.finish_stderr_line();
        self.flush();
        self.erase_status();
        let gone = self.reader_is_gone();
        self.stdout.failure.filter(|_| !gone).map_or(Ok(()), Err)
    }

    /// Returns true if a person sees the errors, and hints can be given that a script could not understand.
    #[must_use]
    pub fn person_reads_errors(&self) -> bool {
        self.gives_hints
    }
}

impl LineStart {
    /// Puts colours around the lines that begin with a mark. An unfinished beginning that may become a mark is held back.
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

    /// Ends the line: what was held back, and the end of the colour.
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
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Both streams in one, with stderr in brackets.
    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    struct Side(Screen, bool);

    impl Write for Side {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut screen = self.0.0.lock().unwrap();
            if self.1 {
                screen.push(b'[');
            }
            screen.extend_from_slice(bytes);
            if self.1 {
                screen.push(b']');
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn shown(colours: bool, actions: impl FnOnce(&mut Console)) -> String {
        let screen = Screen::default();
        let sides = (Box::new(Side(screen.clone(), false)), Box::new(Side(screen.clone(), true)));
        let mut console = Console::new(sides.0, sides.1, colours);
        actions(&mut console);
        console.finish().unwrap();
        let bytes = screen.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn both_streams_share_their_paragraphs() {
        let text = shown(false, |console| {
            console.end_paragraph();
            console.write(Stream::Stderr, b"no newline");
            console.end_paragraph();
            console.write(Stream::Stdout, b"one\n");
            console.write(Stream::Stderr, b"\n");
            console.end_paragraph();
            console.write(Stream::Stdout, b"\n\n\n");
            console.end_paragraph();
            console.error("last");
        });
        assert_eq!(text, "\n[no newline]\n\none\n[\n]\n\n\n[!! last\n]");
    }

    #[test]
    fn raw_output_begins_no_paragraph() {
        let text = shown(false, |console| {
            console.raw(Stream::Stdout, b"raw\n");
            console.end_paragraph();
            console.warning("careful");
            console.end_paragraph();
        });
        assert_eq!(text, "raw\n\n[>> careful\n]\n");
    }

    #[test]
    fn a_mark_is_coloured_however_it_arrives() {
        let whole = shown(true, |console| console.write(Stream::Stderr, b"!! bad\n>> odd\n!!\nplain\n> x\n"));
        let bytewise = shown(true, |console| {
            for byte in b"!! bad\n>> odd\n!!\nplain\n> x\n" {
                console.write(Stream::Stderr, &[*byte]);
            }
        });
        let expected = "\n[\x1b[1;31m!! bad\x1b[0m\n\x1b[1;33m>> odd\x1b[0m\n!!\nplain\n> x\n]";
        assert_eq!(whole, expected);
        assert_eq!(bytewise, expected);
        let unfinished = shown(true, |console| {
            console.write(Stream::Stderr, b"!");
            console.end_paragraph();
            console.write(Stream::Stderr, b"!! x");
        });
        assert_eq!(unfinished, "\n[!]\n\n[\x1b[1;31m!! x\x1b[0m]");
    }

    #[test]
    fn diffs_are_coloured_by_line() {
        let text = shown(true, |console| console.raw_diff(b"diff --holo a b\n@@ -1 +1 @@\n-a\n+b\n c"));
        let expected =
            "\x1b[1mdiff --holo a b\x1b[0m\n\x1b[36m@@ -1 +1 @@\x1b[0m\n\x1b[31m-a\x1b[0m\n\x1b[32m+b\x1b[0m\n c";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_reader_that_went_away_is_no_error() {
        struct Gone(io::ErrorKind);
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for (kind, ends_well) in [(io::ErrorKind::BrokenPipe, true), (io::ErrorKind::StorageFull, false)] {
            let mut console = Console::new(Box::new(Gone(kind)), Box::new(io::sink()), false);
            console.write(Stream::Stdout, b"x");
            console.flush();
            console.write(Stream::Stdout, b"y");
            assert_eq!(console.reader_is_gone(), ends_well);
            assert_eq!(console.finish().is_ok(), ends_well);
        }
    }
}
