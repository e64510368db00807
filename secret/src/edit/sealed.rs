//! An encrypted value in a file, either a data file or only the value.

use std::fmt::{self, Display};
use std::ops::Range;

const BEGINNING: &str = "-----BEGIN AGE ENCRYPTED FILE-----";
const END: &str = "-----END AGE ENCRYPTED FILE-----";

/// The reason why no value can be edited, worded to follow the name of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SealedError {
    None,
    NotAt(usize),
    Several(Vec<usize>),
}

impl Display for SealedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str(": it contains no encrypted values; create one with holo-secret encrypt"),
            Self::NotAt(line) => write!(f, ":{line}: there is no encrypted value"),
            Self::Several(lines) => {
                let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
                write!(f, ": several values are encrypted in it; name one with --line: {}", lines.join(", "))
            }
        }
    }
}

/// A value in a text.
#[derive(Debug)]
pub(super) struct Sealed<'t> {
    text: &'t str,
    range: Range<usize>,
}

impl<'t> Sealed<'t> {
    /// Finds the only value of a text, or the one on a line.
    pub(super) fn find(text: &'t str, line: Option<usize>) -> Result<Sealed<'t>, SealedError> {
        let mut ranges = ranges(text);
        let line_of = |at: usize| text[..at].matches('\n').count() + 1;
        if let Some(line) = line {
            ranges.retain(|range| (line_of(range.start)..=line_of(range.end)).contains(&line));
            let range = ranges.pop().ok_or(SealedError::NotAt(line))?;
            return Ok(Sealed { text, range });
        }
        let lines: Vec<usize> = ranges.iter().map(|range| line_of(range.start)).collect();
        match (ranges.pop(), lines.len()) {
            (Some(range), 1) => Ok(Sealed { text, range }),
            (Some(_), _) => Err(SealedError::Several(lines)),
            (None, _) => Err(SealedError::None),
        }
    }

    /// Returns only the value, in lines without indentation.
    pub(super) fn armored(&self) -> String {
        let found = self.text[self.range.clone()].replace("\\n", "\n");
        found.lines().map(|line| format!("{}\n", line.trim())).collect()
    }

    /// Returns the text with this value replaced, in the same form.
    pub(super) fn replaced_by(&self, armored: &str) -> String {
        let found = &self.text[self.range.clone()];
        let last = found.rfind('\n').map(|at| &found[at + 1..]);
        let newline = match last {
            Some(last) => format!("\n{}", &last[..last.len() - last.trim_start().len()]),
            // In JSON, the value is on a single line.
            None => "\\n".to_owned(),
        };
        let new: Vec<&str> = armored.lines().collect();
        [&self.text[..self.range.start], &new.join(&newline), &self.text[self.range.end..]].concat()
    }
}

fn ranges(text: &str) -> Vec<Range<usize>> {
    let begin = text.match_indices(BEGINNING).map(|(at, _)| at);
    begin.filter_map(|at| Some(at..at + text[at..].find(END)? + END.len())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_keeps_its_form() {
        let armored = |letter: &str| format!("{BEGINNING}\n{letter}\n{END}\n");
        for (text, edited) in [
            (armored("a"), armored("b")),
            (
                format!("x = \"\"\"\n{}\"\"\"\ny = 1\n", armored("a")),
                format!("x = \"\"\"\n{}\"\"\"\ny = 1\n", armored("b")),
            ),
            (
                format!("x:\n  y: |\n    {BEGINNING}\n    a\n    {END}\n"),
                format!("x:\n  y: |\n    {BEGINNING}\n    b\n    {END}\n"),
            ),
            (format!(r#"{{"x": "{BEGINNING}\na\n{END}\n"}}"#), format!(r#"{{"x": "{BEGINNING}\nb\n{END}\n"}}"#)),
        ] {
            let sealed = Sealed::find(&text, None).unwrap();
            assert_eq!((sealed.armored(), sealed.replaced_by(&armored("b"))), (armored("a"), edited));
        }
    }

    #[test]
    fn of_several_values_one_has_to_be_named() {
        let text = format!("{BEGINNING}\na\n{END}\n\n{BEGINNING}\nb\n{END}\n");
        assert_eq!(Sealed::find(&text, None).unwrap_err(), SealedError::Several(vec![1, 5]));
        for (line, value) in [(1, "\na\n"), (3, "\na\n"), (6, "\nb\n")] {
            assert!(Sealed::find(&text, Some(line)).unwrap().armored().contains(value), "{line}");
        }
        assert_eq!(Sealed::find(&text, Some(4)).unwrap_err(), SealedError::NotAt(4));
        assert_eq!(Sealed::find("x", None).unwrap_err(), SealedError::None);
        assert_eq!(Sealed::find(BEGINNING, None).unwrap_err(), SealedError::None);
    }
}
