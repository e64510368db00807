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
mod error;
mod parse;

use std::fmt;

use bstr::{BString, ByteSlice};

pub use disk::{dump, materialise};
pub use error::{ParseError, Problem};
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

#[cfg(test)]
mod tests;
