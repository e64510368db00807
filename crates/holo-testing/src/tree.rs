//! File trees as text: the format of `source-tree` and `expected-tree`.
//!
//! A tree is a list of sections, each with a header `TYPE MODE ./PATH`, then a file's content or a symlink's target,
//! then a line of 40 dashes:
//!
//! ```text
//! file      0644 ./etc/motd
//! Welcome!
//! ----------------------------------------
//! symlink   0777 ./etc/localtime
//! ../usr/share/zoneinfo/UTC
//! ----------------------------------------
//! directory 0700 ./root/
//! ----------------------------------------
//! ```
//!
//! Names and contents are bytes. The format cannot represent whether a file has a final newline, nor a file that
//! contains a line of 40 dashes.

mod disk;
mod parse;

use bstr::{BString, ByteSlice};
use std::fmt;

pub use disk::{dump, materialise};
pub use parse::parse;

const DASHES: &[u8] = b"----------------------------------------";

/// A file tree: the content of a `source-tree`, or the files below a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    sections: Vec<Section>,
}

/// A file, symlink or directory of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The path relative to the root, without `./` and without a trailing slash.
    pub path: BString,
    /// The permission bits, including set-ID and sticky bits. Those of a symlink have no effect.
    pub mode: u32,
    /// The node at this path.
    pub node: Node,
}

/// A file, directory or other node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A regular file and its content.
    File(BString),
    /// A symlink and its target.
    Symlink(BString),
    /// A directory.
    Directory,
    /// A named pipe.
    Fifo,
    /// A socket, which can be dumped, but not created from a tree.
    Socket,
    /// A block or character device, which can be dumped, but not created from a tree.
    Device,
}

impl Node {
    /// Returns the word for this type in headers.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Symlink(_) => "symlink",
            Self::Directory => "directory",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::Device => "device",
        }
    }
}

impl Tree {
    /// Returns the sections in order.
    #[must_use]
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Returns the section of a path in the form of [`Section::path`].
    #[must_use]
    pub fn get(&self, path: &[u8]) -> Option<&Section> {
        self.sections.iter().find(|section| section.path == path)
    }

    /// Formats the tree as text.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for section in &self.sections {
            let header = format!("{:<9} {:04o} ./", section.node.type_name(), section.mode);
            text.extend_from_slice(header.as_bytes());
            text.extend_from_slice(&section.path);
            match &section.node {
                Node::File(content) => {
                    text.push(b'\n');
                    text.extend_from_slice(content);
                    if !content.is_empty() && !content.ends_with(b"\n") {
                        text.push(b'\n');
                    }
                }
                Node::Symlink(target) => {
                    text.push(b'\n');
                    text.extend_from_slice(target);
                    text.push(b'\n');
                }
                Node::Directory => text.extend_from_slice(b"/\n"),
                Node::Fifo | Node::Socket | Node::Device => text.push(b'\n'),
            }
            text.extend_from_slice(DASHES);
            text.push(b'\n');
        }
        text
    }
}

impl fmt::Display for Tree {
    /// Shows the text format; bytes that are not UTF-8 are replaced.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.to_bytes().as_bstr(), f)
    }
}

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
    fn at(self, line: usize) -> ParseError {
        ParseError { line, problem: self }
    }
}

#[cfg(test)]
mod tests;
