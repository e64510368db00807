//! Errors in a tree's text.

use bstr::BString;

/// An invalid tree. The message names the line, the error and the remedy.
#[derive(Debug, thiserror::Error)]
#[error("source-tree, line {line}: {problem}")]
pub struct ParseError {
    /// The line number, counted from 1: that of the section's header unless the error is below it.
    pub line: usize,
    /// The error.
    pub problem: Problem,
}

/// An error in a tree.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages are the documentation")]
pub enum Problem {
    #[error("`{0}` is not a section header; write `TYPE MODE ./PATH`, as in `file      0644 ./etc/motd`")]
    Header(BString),
    #[error("the type `{0}` is unknown; write file, symlink, directory or fifo")]
    Type(BString),
    #[error("`{0}` is not a mode; write up to four octal digits, as in 0644")]
    Mode(BString),
    #[error("the path `{0}` is absolute; write it relative to the root, as ./PATH")]
    Absolute(BString),
    #[error("the path `{0}` contains `..`; write it without")]
    Parent(BString),
    #[error("the path `{0}` is the root itself; remove the section")]
    Root(BString),
    #[error("there is a NUL byte in a path; remove it")]
    Nul,
    #[error("the path `{path}` of a {type_name} ends with a slash; remove the slash, or write directory")]
    Slash { path: BString, type_name: &'static str },
    #[error("a {0} has no content; write the line of 40 dashes right below its header")]
    Content(&'static str),
    #[error("the symlink has no target; write it below the header")]
    NoTarget,
    #[error("the section has no end; close it with a line of 40 dashes")]
    Unclosed,
    #[error("the path ./{path} was described in line {first} already; remove one of the two")]
    Duplicate { path: BString, first: usize },
    #[error("the path ./{path} goes through ./{parent}, which is a symlink (line {line}); write where it leads to")]
    ThroughSymlink { path: BString, parent: BString, line: usize },
    #[error("the path ./{path} is below ./{parent}, which is not a directory (line {line}); move one of the two")]
    BelowFile { path: BString, parent: BString, line: usize },
}

impl Problem {
    pub(super) fn at(self, line: usize) -> ParseError {
        ParseError { line, problem: self }
    }
}
