//! The standard streams of this process. On a terminal, control characters are shown as text.
//!
//! A terminal executes control characters: those in a file or in the output of a program could change its title, hide
//! or overwrite other output, or type commands into it. Pipes and files get the exact bytes.

use holo_protocol::session::Stream;
use std::fmt::Display;
use std::io::{self, IsTerminal, Stderr, Stdout, Write};
use std::mem;
use std::str;

/// Makes control characters visible, in bytes that arrive in pieces: `\r`, `\x1b`, `\u{202e}`, and `\xff` for a byte
/// that is not UTF-8. Newlines and tabs stay as they are.
#[derive(Debug, Default)]
pub struct Visible {
    /// The beginning of a character whose remaining bytes have not arrived yet.
    incomplete: Vec<u8>,
}

impl Visible {
    /// Appends the visible form of the next bytes. An incomplete character at their end is held back.
    pub fn push(&mut self, bytes: &[u8], visible: &mut Vec<u8>) {
        let joined = [&mem::take(&mut self.incomplete)[..], bytes].concat();
        let mut chunks = joined.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            chunk.valid().chars().for_each(|letter| push_visible(letter, visible));
            let is_incomplete = || str::from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none());
            if chunks.peek().is_none() && is_incomplete() {
                self.incomplete = chunk.invalid().to_owned();
            } else {
                push_invalid(chunk.invalid(), visible);
            }
        }
    }

    /// Appends the visible form of the bytes that were held back.
    pub fn finish(&mut self, visible: &mut Vec<u8>) {
        push_invalid(&mem::take(&mut self.incomplete), visible);
    }
}

/// Returns a text with visible control characters.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut visible = Vec::with_capacity(text.len());
    text.chars().for_each(|letter| push_visible(letter, &mut visible));
    String::from_utf8_lossy(&visible).into_owned()
}

fn push_visible(letter: char, visible: &mut Vec<u8>) {
    let escaped = match letter {
        '\n' | '\t' => None,
        '\r' => Some("\\r".to_owned()),
        '\0'..' ' | '\x7f' => Some(format!("\\x{:02x}", u32::from(letter))),
        // C1 controls; line and paragraph separators; the characters that change the direction of text
        // (`Bidi_Control` in Unicode), with which a line can look like a different one.
        '\u{80}'..='\u{9f}'
        | '\u{2028}'..='\u{2029}'
        | '\u{61c}'
        | '\u{200e}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => Some(letter.escape_unicode().to_string()),
        _ => None,
    };
    match escaped {
        Some(escaped) => visible.extend_from_slice(escaped.as_bytes()),
        None => visible.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

fn push_invalid(bytes: &[u8], visible: &mut Vec<u8>) {
    bytes.iter().for_each(|byte| visible.extend_from_slice(format!("\\x{byte:02x}").as_bytes()));
}

/// A stream on which control characters are visible if it is a terminal.
#[derive(Debug)]
pub struct Shown<W: Write> {
    writer: W,
    /// `None` if the stream is no terminal.
    visible: Option<Visible>,
}

impl<W: Write + IsTerminal> Shown<W> {
    /// Returns the stream.
    pub fn new(writer: W) -> Shown<W> {
        let visible = writer.is_terminal().then(Visible::default);
        Shown { writer, visible }
    }
}

impl<W: Write> Write for Shown<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(visible) = &mut self.visible else { return self.writer.write(bytes) };
        let mut shown = Vec::with_capacity(bytes.len());
        visible.push(bytes, &mut shown);
        self.writer.write_all(&shown).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl<W: Write> Drop for Shown<W> {
    fn drop(&mut self) {
        let mut rest = Vec::new();
        self.visible.iter_mut().for_each(|visible| visible.finish(&mut rest));
        if !rest.is_empty() {
            // The characters before it have been written, or their error was reported.
            let _ = self.writer.write_all(&rest);
        }
    }
}

/// Returns standard output.
#[must_use]
pub fn stdout() -> Shown<Stdout> {
    Shown::new(io::stdout())
}

/// Returns standard error.
#[must_use]
pub fn stderr() -> Shown<Stderr> {
    Shown::new(io::stderr())
}

/// Writes bytes to a stream at once.
///
/// # Errors
/// If writing fails.
pub fn write(stream: Stream, bytes: &[u8]) -> io::Result<()> {
    match stream {
        Stream::Stdout => {
            let mut stdout = stdout();
            stdout.write_all(bytes).and_then(|()| stdout.flush())
        }
        Stream::Stderr => stderr().write_all(bytes),
    }
}

/// Prints a line on standard error. Errors are ignored, because it may be closed.
pub fn complain(line: impl Display) {
    let _ = write(Stream::Stderr, format!("{line}\n").as_bytes());
}

/// Shows a line at the place of the last one shown this way, if standard error is a terminal. An empty one removes it.
pub fn show_progress(line: &str) {
    let mut stderr = io::stderr();
    if stderr.is_terminal() {
        let _ = write!(stderr, "\r\x1b[K{}", visible(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pieces: &[&[u8]]) -> String {
        let (mut visible, mut shown) = (Visible::default(), Vec::new());
        pieces.iter().for_each(|piece| visible.push(piece, &mut shown));
        visible.finish(&mut shown);
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn control_characters_and_invalid_bytes_become_text() {
        let cases: [(&[u8], &str); 9] = [
            (b"a\tb\nc", "a\tb\nc"),
            ("\u{e4} \u{4e2d} \u{1f600} \u{200d}".as_bytes(), "\u{e4} \u{4e2d} \u{1f600} \u{200d}"),
            (b"\x1b]0;title\x07", r"\x1b]0;title\x07"),
            (b"\x1b[2J\x9b2J", r"\x1b[2J\x9b2J"),
            ("\u{9b}2J\u{85}".as_bytes(), r"\u{9b}2J\u{85}"),
            (b"a\x08b\x7f\0", r"a\x08b\x7f\x00"),
            // A difference in line endings is visible, and no line overwrites itself.
            (b"safe\rhidden\r\n", "safe\\rhidden\\r\n"),
            ("\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}".as_bytes(), r"\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}"),
            (b"\xff\xc3(\xe2\x82", r"\xff\xc3(\xe2\x82"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(shown(&[bytes]), expected);
            // Nor does it matter where the pieces end.
            assert_eq!(shown(&bytes.chunks(1).collect::<Vec<_>>()), expected);
            if let Ok(text) = str::from_utf8(bytes) {
                assert_eq!(visible(text), expected);
            }
        }
    }

    #[test]
    fn only_terminals_get_a_different_text() {
        for (visible, expected) in [(None, &b"\x1b\xe2"[..]), (Some(Visible::default()), br"\x1b\xe2")] {
            let mut written = Vec::new();
            Shown { writer: &mut written, visible }.write_all(b"\x1b\xe2").unwrap();
            assert_eq!(written, expected);
        }
    }
}
