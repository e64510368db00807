//! A text as lines with their line endings, and the syntax of single lines.

use bstr::ByteSlice;
use holo_plugin::diff::Comparison;

/// A text as lines of arbitrary bytes except newlines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    /// The lines. With CR and LF as line ending, each line includes its CR.
    pub(super) lines: Vec<Vec<u8>>,
    pub(super) endings: Endings,
}

/// The line endings of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Endings {
    /// Whether the first line ends with CR and LF.
    pub(super) crlf: bool,
    /// Whether the last line has no newline.
    pub(super) unterminated: bool,
}

impl Text {
    /// Splits a content into its lines.
    pub(super) fn parse(content: &[u8]) -> Text {
        let crlf = content.lines_with_terminator().next().is_some_and(|line| line.ends_with(b"\r\n"));
        let unterminated = !content.is_empty() && !content.ends_with(b"\n");
        let endings = Endings { crlf, unterminated };
        let without_newline = |line: &[u8]| line.strip_suffix(b"\n").unwrap_or(line).to_vec();
        let mut lines: Vec<Vec<u8>> = content.lines_with_terminator().map(without_newline).collect();
        if let Some(last) = lines.last_mut().filter(|_| endings.lacks_cr()) {
            last.push(b'\r');
        }
        Text { lines, endings }
    }

    /// Joins the lines again.
    pub(super) fn content(&self) -> Vec<u8> {
        let mut content = self.lines.join(&b'\n');
        if self.lines.is_empty() {
            return content;
        }
        if self.endings.lacks_cr() && content.ends_with(b"\r") {
            content.pop();
        }
        // Without a newline, an empty last line would be lost.
        if !self.endings.unterminated || content.is_empty() || content.ends_with(b"\n") {
            content.push(b'\n');
        }
        content
    }
}

impl Text {
    /// Returns the number of lines in which another text differs.
    pub(super) fn distance(&self, other: &Text) -> usize {
        let (one, other) = (self.content(), other.content());
        let comparison = Comparison::new(&one, &other);
        comparison.changes.iter().map(|change| change.old.len() + change.new.len()).sum()
    }
}

impl Endings {
    /// Returns true if the last line lacks the CR of the other lines.
    fn lacks_cr(self) -> bool {
        self.crlf && self.unterminated
    }

    /// Returns a line with the line ending of this text, without its LF.
    pub(super) fn fit(self, line: &[u8]) -> Vec<u8> {
        let mut fitted = bare(line).to_vec();
        if self.crlf {
            fitted.push(b'\r');
        }
        fitted
    }
}

/// Returns a line without the CR at its end.
pub(super) fn bare(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns true for white space, and for a character that begins a comment in most configuration files.
pub(super) fn is_lead(character: char) -> bool {
    character.is_whitespace() || matches!(character, '#' | ';')
}

/// Returns a line without the white space and comment characters at its beginning, and without white space at its end.
pub(super) fn uncommented(line: &[u8]) -> &[u8] {
    line.trim_end().trim_start_with(is_lead)
}

/// Splits a line that sets a key into key and value. A key ends with the separator, or with white space if there is none.
pub(super) fn split_key(line: &[u8], separator: Option<char>) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii_start();
    let (key, behind) = match separator {
        Some(separator) => line.split_once_str(separator.encode_utf8(&mut [0; 4]))?,
        None => line.split_at(line.iter().position(u8::is_ascii_whitespace)?),
    };
    Some((key.trim_ascii_end(), behind.trim_ascii_start()))
}

/// Returns the name of the section if a line is the header of one.
pub(super) fn header(line: &[u8]) -> Option<&[u8]> {
    let name = line.trim_ascii().strip_prefix(b"[")?;
    let end = name.find_byte(b']')?;
    let (name, behind) = name.split_at(end);
    let behind = behind.get(1..).unwrap_or_default().trim_ascii_start();
    (behind.is_empty() || behind.starts_with(b"#") || behind.starts_with(b";")).then_some(name.trim_ascii())
}

/// Returns the line below an inserted line that still needs it, if any: the first setting of a section needs the header, and the header needs
/// the blank line above it.
pub(super) fn led<'l, T>(line: &[u8], below: impl IntoIterator<Item = (&'l [u8], T)>) -> Option<T> {
    let mut below = below.into_iter();
    let (next, is_header) = match line.trim_ascii().is_empty() {
        true => (below.next()?, true),
        false => {
            header(line)?;
            (below.find(|(line, _)| !line.trim_ascii().is_empty())?, false)
        }
    };
    (header(next.0).is_some() == is_header).then_some(next.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_content_comes_back() {
        for content in [
            &b""[..],
            b"\n",
            b"a",
            b"a\n",
            b"a\nb",
            b"a\r\nb\r\n",
            b"a\r\nb",
            b"a\r\nb\r",
            b"a\nb\r",
            b"\r\n",
            b"\r",
            b"a\nb\r\n\xff\n\n",
        ] {
            assert_eq!(Text::parse(content).content(), content, "{:?}", content.as_bstr());
        }
    }

    #[test]
    fn a_line_behind_the_last_one_gets_the_endings_of_the_others() {
        let appended = |content: &[u8]| {
            let mut text = Text::parse(content);
            text.lines.push(text.endings.fit(b"new"));
            text.content()
        };
        assert_eq!(appended(b"a\n"), b"a\nnew\n");
        assert_eq!(appended(b"a"), b"a\nnew");
        assert_eq!(appended(b"a\r\nb\r\n"), b"a\r\nb\r\nnew\r\n");
        assert_eq!(appended(b"a\r\nb"), b"a\r\nb\r\nnew");
        assert_eq!(appended(b""), b"new\n");
    }
}
