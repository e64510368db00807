//! Errors and warnings about a description, with their lines.

use std::fmt::{self, Display};
use std::ops::Range;

/// An error or warning about a description: `FILE:LINE: TEXT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The description, as shown to the user.
    pub file: String,
    /// The line, counted from 1; `None` if the error is not about a single one.
    pub line: Option<usize>,
    /// True if no package can be built.
    pub is_error: bool,
    /// The message.
    pub text: String,
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.text)
    }
}

/// The findings of a description that is being read.
#[derive(Debug)]
pub(crate) struct Findings {
    file: String,
    /// The offsets at which lines begin.
    lines: Vec<usize>,
    findings: Vec<Finding>,
}

impl Findings {
    pub(crate) fn new(file: &str, text: &str) -> Findings {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(offset, _)| offset + 1);
        Findings { file: file.to_owned(), lines: std::iter::once(0).chain(breaks).collect(), findings: Vec::new() }
    }

    /// Returns the line of a part of the text.
    pub(crate) fn line(&self, span: &Range<usize>) -> usize {
        self.lines.partition_point(|start| *start <= span.start)
    }

    pub(crate) fn error(&mut self, line: impl Into<Option<usize>>, text: impl Display) {
        self.add(line.into(), true, &text);
    }

    pub(crate) fn warning(&mut self, line: impl Into<Option<usize>>, text: impl Display) {
        self.add(line.into(), false, &text);
    }

    fn add(&mut self, line: Option<usize>, is_error: bool, text: &dyn Display) {
        let finding = Finding { file: self.file.clone(), line, is_error, text: text.to_string() };
        self.findings.push(finding);
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.is_error)
    }

    /// Returns all findings in the order of their lines.
    pub(crate) fn into_sorted(mut self) -> Vec<Finding> {
        self.findings.sort_by_key(|finding| finding.line);
        self.findings
    }
}
