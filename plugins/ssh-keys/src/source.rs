//! Key files: the desired keys.

use crate::key_line::{KeyLine, NoKey, is_blank_or_comment};
use bstr::ByteSlice;

/// The content of a valid key file. OpenSSH accepts all of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source(Vec<u8>);

/// The line of a key file that makes its key set count the user's own lines, which have no mark.
pub(crate) const COUNTS_UNMARKED: &str = "# holo: unmarked";

/// A line of a key file that is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub(crate) struct BadLine {
    /// The number of the line, counting from 1.
    line: usize,
    reason: NoKey,
}

impl Source {
    /// Parses the content of a key file.
    ///
    /// # Errors Every line that is not a valid key, a comment or blank.
    pub(crate) fn parse(content: Vec<u8>) -> Result<Source, Vec<BadLine>> {
        let bad_line = |(index, line): (usize, &[u8])| {
            let reason = match KeyLine::parse(line) {
                Ok(key) => NoKey::Bad(key.facts.err()?),
                Err(_) if is_blank_or_comment(line) => return None,
                Err(reason) => reason,
            };
            Some(BadLine { line: index + 1, reason })
        };
        let bad: Vec<BadLine> = content.lines_with_terminator().enumerate().filter_map(bad_line).collect();
        if bad.is_empty() { Ok(Source(content)) } else { Err(bad) }
    }

    /// Returns an empty source, for a key set whose file is gone.
    pub(crate) fn gone() -> Source {
        Source(Vec::new())
    }

    /// Returns the keys in order, including duplicates.
    pub(crate) fn keys(&self) -> impl Iterator<Item = KeyLine<'_>> {
        self.lines().filter_map(|line| KeyLine::parse(line).ok())
    }

    /// Returns true if unmarked lines of the user count as lines of the key set.
    pub(crate) fn counts_unmarked(&self) -> bool {
        self.0.lines().any(|line| line.trim() == COUNTS_UNMARKED.as_bytes())
    }

    /// Returns all lines with their endings.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.0.lines_with_terminator()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMlEihSDsXtKfjGZmUFcJVFeRT7ctkIuJqrXfdbEAr5w";

    #[test]
    fn parse_reports_every_bad_line() {
        let text = format!("# keys\n\n{KEY} a\r\nssh-ed25519 AAAA b\n  # {KEY}\nnonsense\n{KEY}");
        let bad = Source::parse(text.into_bytes()).unwrap_err();
        let said: Vec<String> = bad.iter().map(ToString::to_string).collect();
        assert_eq!(said, ["line 4: the key is damaged", "line 6: there is no key"]);
    }

    #[test]
    fn parse_skips_comments_and_blank_lines() {
        let source = Source::parse(format!("# {KEY}\n\r\n{KEY} a b\r\n\t\n{KEY}").into_bytes()).unwrap();
        let comments: Vec<&[u8]> = source.keys().map(|key| key.comment()).collect();
        assert_eq!(comments, [&b"a b"[..], b""]);
    }
}
