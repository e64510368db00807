//! Lines of a key file or of `authorized_keys`, parsed as OpenSSH parses them: options, type, key, comment.

use crate::blob::{self, BadKey, KeyFacts, KeyType};
use bstr::ByteSlice;
use data_encoding::BASE64;
use std::fmt::Write;

/// A line that contains a key.
#[derive(Clone, Debug)]
pub(crate) struct KeyLine<'a> {
    /// The options that restrict the use of the key, as written. Empty if it is unrestricted.
    options: &'a [u8],
    type_name: &'a [u8],
    key: &'a [u8],
    /// The text after the key, including trailing blanks.
    comment: &'a [u8],
    /// The properties of the key, or the reason why OpenSSH rejects it.
    pub(crate) facts: Result<KeyFacts, BadKey>,
}

/// A key with the options that restrict its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Grant<'a> {
    options: &'a [u8],
    key: &'a [u8],
}

/// Why a line contains no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoKey {
    #[error("a quote of the options is not closed")]
    OpenQuote,
    #[error("there is no key")]
    Missing,
    #[error("a NUL byte is part of no key")]
    Nul,
    #[error(transparent)]
    Bad(BadKey),
}

/// Returns a line without its line ending.
pub(crate) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns true for lines that OpenSSH ignores: comments and blank lines.
pub(crate) fn is_blank_or_comment(line: &[u8]) -> bool {
    let line = skip_blanks(without_end(line));
    line.is_empty() || line.starts_with(b"#")
}

impl<'a> KeyLine<'a> {
    /// Parses a line, with or without its line ending. The key in it may be one that OpenSSH rejects.
    pub(crate) fn parse(line: &'a [u8]) -> Result<KeyLine<'a>, NoKey> {
        #[cfg(test)]
        operations::count();
        if is_blank_or_comment(line) {
            return Err(NoKey::Missing);
        }
        let line = skip_blanks(without_end(line));
        if line.contains(&0) {
            return Err(NoKey::Nul);
        }
        // OpenSSH looks for options only if the line does not begin with a key.
        let first = KeyLine::parse_key(&[], line);
        if first.as_ref().is_ok_and(|key| key.facts.is_ok()) {
            return first;
        }
        let options = options(line).ok_or(NoKey::OpenQuote)?;
        let behind = line.get(options.len()..).unwrap_or_default();
        // If neither attempt finds a key, the error of the one that resembles a key is the most useful.
        KeyLine::parse_key(options, skip_blanks(behind)).or(first)
    }

    fn parse_key(options: &'a [u8], text: &'a [u8]) -> Result<KeyLine<'a>, NoKey> {
        let (type_name, rest) = word(text);
        let (key, rest) = word(rest);
        if key.is_empty() {
            return Err(NoKey::Missing);
        }
        let known = KeyType::parse(type_name);
        let facts = match (known, BASE64.decode(key)) {
            (Some(known), Ok(blob)) => known.read(&blob),
            (Some(_), Err(_)) => Err(BadKey::Damaged),
            // A key that contains its own type name is a key, possibly for a newer OpenSSH.
            (None, Ok(blob)) if blob::own_name(&blob) == Some(type_name) => Err(BadKey::UnknownType),
            _ => return Err(NoKey::Missing),
        };
        Ok(KeyLine { options, type_name, key, comment: rest, facts })
    }

    /// Returns the options and the key. They are equal if two lines give the same key the same rights.
    pub(crate) fn grant(&self) -> Grant<'a> {
        #[cfg(test)]
        operations::count();
        Grant { options: self.options, key: self.key }
    }

    /// Returns the comment without trailing blanks.
    pub(crate) fn comment(&self) -> &'a [u8] {
        self.comment.trim_end()
    }

    /// Returns the line with another comment and a newline.
    pub(crate) fn with_comment(&self, comment: &[u8]) -> Vec<u8> {
        let mut line = Vec::new();
        for part in [self.options, self.type_name, self.key].iter().filter(|part| !part.is_empty()) {
            line.extend_from_slice(part);
            line.push(b' ');
        }
        line.extend_from_slice(comment);
        line.push(b'\n');
        line
    }

    /// Returns `line`, from which this key was parsed, with another comment. Everything else stays byte for byte.
    pub(crate) fn renamed(&self, line: &[u8], comment: &[u8]) -> Vec<u8> {
        let (text, end) = line.split_at(without_end(line).len());
        let before = text.strip_suffix(self.comment).unwrap_or(text);
        let blank: &[u8] = if before.ends_with_str(" ") || before.ends_with_str("\t") { b"" } else { b" " };
        [before, blank, comment, end].concat()
    }

    /// Returns the key as `ssh-keygen -l` lists it.
    pub(crate) fn listed(&self) -> String {
        let comment = match self.comment {
            // OpenSSH takes the rest for a comment on the comment, and shows the options instead if there are any.
            none if none.is_empty() || none.starts_with(b"#") => match self.options {
                b"" => "no comment".to_owned(),
                options => visible(options),
            },
            comment => visible(comment),
        };
        match &self.facts {
            Ok(KeyFacts { bits, fingerprint, label }) => format!("{bits} {fingerprint} {comment} ({label})"),
            Err(_) => {
                let blob = BASE64.decode(self.key).unwrap_or_default();
                format!("{} {comment} ({})", blob::fingerprint(&blob), visible(self.type_name))
            }
        }
    }
}

fn skip_blanks(text: &[u8]) -> &[u8] {
    text.trim_start_with(|letter| letter == ' ' || letter == '\t')
}

/// Splits a text into its first word and the rest after the blanks.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let (word, rest) = text.split_at(text.find_byteset(b" \t").unwrap_or(text.len()));
    (word, skip_blanks(rest))
}

/// Returns the options at the beginning of a line, up to the first blank outside of quotes, or `None` if a quote is not closed.
fn options(line: &[u8]) -> Option<&[u8]> {
    let mut is_quoted = false;
    let mut bytes = line.iter().copied().enumerate().peekable();
    while let Some((index, byte)) = bytes.next() {
        match byte {
            b'\\' => {
                let _escaped_quote = bytes.next_if(|(_, next)| *next == b'"');
            }
            b'"' => is_quoted = !is_quoted,
            b' ' | b'\t' if !is_quoted => return line.get(..index),
            _ => {}
        }
    }
    (!is_quoted).then_some(line)
}

/// Returns the text with unprintable bytes as `\OOO`, as OpenSSH prints comments, so that no terminal interprets them.
pub(crate) fn visible(text: &[u8]) -> String {
    let mut visible = String::new();
    for chunk in text.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if (letter.is_control() && letter != '\t') || matches!(letter, '\u{2028}' | '\u{2029}') {
                push_octal(&mut visible, letter.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                visible.push(letter);
            }
        }
        push_octal(&mut visible, chunk.invalid());
    }
    visible
}

fn push_octal(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "\\{byte:03o}");
    }
}

/// Counts parsed lines and compared keys of the current thread. The count must not grow faster than the number of keys.
#[cfg(test)]
pub(crate) mod operations {
    use std::cell::Cell;

    thread_local!(static COUNT: Cell<usize> = const { Cell::new(0) });

    pub(super) fn count() {
        COUNT.set(COUNT.get() + 1);
    }

    /// Returns the number of operations of `work`.
    pub(crate) fn of(work: impl FnOnce()) -> usize {
        let before = COUNT.get();
        work();
        COUNT.get() - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMlEihSDsXtKfjGZmUFcJVFeRT7ctkIuJqrXfdbEAr5w";

    /// Returns the options and the comment of a line, in which `|` stands for the key.
    fn parse(line: &str) -> Result<(String, String), NoKey> {
        let line = line.replace('|', KEY);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let key = KeyLine::parse(line.as_bytes())?;
        key.facts.clone().map_err(NoKey::Bad)?;
        Ok((text(key.options), text(key.comment())))
    }

    #[test]
    fn parse_splits_options_and_comment() {
        let found = |options: &str, comment: &str| Ok((options.to_owned(), comment.to_owned()));
        assert_eq!(parse("|\n"), found("", ""));
        assert_eq!(parse("  | jane doe@home \r\n"), found("", "jane doe@home"));
        assert_eq!(parse("no-pty\t\t|\tx"), found("no-pty", "x"));
        assert_eq!(parse("command=\"a b, c\",no-pty | x"), found("command=\"a b, c\",no-pty", "x"));
        assert_eq!(parse("command=\"say \\\"a b\\\" \" | x"), found("command=\"say \\\"a b\\\" \"", "x"));
        // A backslash that is not followed by a quote is literal.
        assert_eq!(parse("command=\"a\\\\\" b\" | x"), found("command=\"a\\\\\" b\"", "x"));
        assert_eq!(parse("environment=\"A=#\" | x"), found("environment=\"A=#\"", "x"));
        // The first key counts, and a key in a comment is part of the comment.
        assert_eq!(parse("| |"), found("", KEY));
    }

    #[test]
    fn parse_errors_name_the_reason() {
        assert_eq!(parse("command=\"a b |"), Err(NoKey::OpenQuote));
        assert_eq!(parse("no-pty"), Err(NoKey::Missing));
        assert_eq!(parse("1024 65537 12345678901234567890 x"), Err(NoKey::Missing));
        assert_eq!(parse("ssh-ed25519"), Err(NoKey::Missing));
        assert_eq!(parse("no-pty , |"), Err(NoKey::Missing));
        assert_eq!(parse("ssh-ed25519 AAAA x"), Err(NoKey::Bad(BadKey::Damaged)));
        assert_eq!(parse(&format!("{KEY}= x")), Err(NoKey::Bad(BadKey::Damaged)));
        assert_eq!(parse("no-pty ssh-ed25519 AAAA x"), Err(NoKey::Bad(BadKey::Damaged)));
        assert_eq!(parse("| x\0"), Err(NoKey::Nul));
    }

    #[test]
    fn key_of_unknown_type_is_recognized_by_its_inner_name() {
        let blob = [&[0, 0, 0, 7][..], b"ssh-new", b"whatever"].concat();
        let line = format!("no-pty ssh-new {} x", BASE64.encode(&blob));
        let key = KeyLine::parse(line.as_bytes()).unwrap();
        assert_eq!((key.facts.clone(), key.comment()), (Err(BadKey::UnknownType), &b"x"[..]));
        assert!(key.listed().starts_with("SHA256:") && key.listed().ends_with(" x (ssh-new)"), "{}", key.listed());
    }

    #[test]
    fn grants_with_other_options_differ() {
        let same = |one: &str, other: &str| {
            let (one, other) = (one.replace('|', KEY), other.replace('|', KEY));
            KeyLine::parse(one.as_bytes()).unwrap().grant() == KeyLine::parse(other.as_bytes()).unwrap().grant()
        };
        assert!(same("| a", "  | b\r\n"));
        assert!(same("no-pty | a", "no-pty  | b"));
        assert!(!same("no-pty | a", "| a"));
    }

    #[test]
    fn listed_key_escapes_control_characters() {
        assert_eq!(visible(b"caf\xe9 \xc3\xa9\t\x1b[31m\x7f\xc2\x85"), "caf\\351 é\t\\033[31m\\177\\302\\205");
    }

    #[test]
    fn blank_lines_and_comments_are_not_keys() {
        for silent in ["", "\n", " \t\r\n", "# x\n", "  # x"] {
            assert!(is_blank_or_comment(silent.as_bytes()), "{silent:?}");
        }
        assert!(!is_blank_or_comment(b"x") && !is_blank_or_comment(b"\x0c"));
    }
}
