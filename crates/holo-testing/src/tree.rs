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

#[cfg(test)]
mod tests;

use crate::files::{self, Context, IoError};
use bstr::{BStr, BString, ByteSlice};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::Path;
use std::{fmt, fs, io};

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

const DEFAULT_MODE: u32 = 0o755;

impl Tree {
    /// Reads the files below a directory.
    ///
    /// The order is that of a walk by names in byte order, with `.ssh` after its siblings and a directory before its
    /// content. A directory is only included if it is empty or its mode is not 0755; `dir` itself never is. The
    /// state database is left out.
    ///
    /// # Errors
    ///
    /// If anything below `dir` cannot be read.
    pub fn read(dir: &Path) -> Result<Self, IoError> {
        let mut tree = Self::default();
        tree.read_below(dir, BStr::new(""))?;
        Ok(tree)
    }

    /// Adds the content of a directory, and returns the number of its entries.
    fn read_below(&mut self, dir: &Path, prefix: &BStr) -> Result<usize, IoError> {
        let mut names = fs::read_dir(dir)
            .and_then(|entries| {
                entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()
            })
            .context("read", dir)?;
        // Its bytes differ from run to run; `holo state export` shows the content.
        names.retain(|name| prefix != "var/lib/holo/" || !name.as_bytes().starts_with(b"state.db"));
        names.sort_unstable_by(|a, b| (a == ".ssh", a).cmp(&(b == ".ssh", b)));
        for name in &names {
            let mut path = prefix.to_owned();
            path.extend_from_slice(name.as_bytes());
            self.read_entry(&dir.join(name), path)?;
        }
        Ok(names.len())
    }

    fn read_entry(&mut self, found: &Path, path: BString) -> Result<(), IoError> {
        let metadata = fs::symlink_metadata(found).context("stat", found)?;
        let file_type = metadata.file_type();
        let node = if file_type.is_file() {
            Node::File(fs::read(found).context("read", found)?.into())
        } else if file_type.is_symlink() {
            let target = fs::read_link(found).context("read", found)?;
            Node::Symlink(target.into_os_string().into_vec().into())
        } else if file_type.is_dir() {
            Node::Directory
        } else if file_type.is_fifo() {
            Node::Fifo
        } else if file_type.is_socket() {
            Node::Socket
        } else {
            Node::Device
        };

        let mode = metadata.mode() & 0o7777;
        let mut prefix = (node == Node::Directory).then(|| path.clone());
        let position = self.sections.len();
        self.sections.push(Section { path, mode, node });
        if let Some(prefix) = &mut prefix {
            prefix.push(b'/');
            let entries = self.read_below(found, prefix.as_bstr())?;
            if entries > 0 && mode == DEFAULT_MODE {
                self.sections.remove(position);
            }
        }
        Ok(())
    }
}

/// Creates the files of a tree below an existing directory.
///
/// Modes are set exactly, independent of the umask; parents that are not in the tree get mode 0755. Directories may
/// already exist, other files must not.
///
/// # Errors
///
/// If a file cannot be created, already exists, or would be created through a symlink. Files created before the error
/// are kept.
pub fn materialise(tree: &Tree, dir: &Path) -> Result<(), IoError> {
    for section in &tree.sections {
        let relative = Path::new(OsStr::from_bytes(&section.path));
        let path = dir.join(relative);
        if section.node == Node::Directory {
            files::make_dirs(dir, relative)?;
            continue;
        }
        files::make_dirs(dir, relative.parent().unwrap_or(Path::new("")))?;
        match &section.node {
            Node::File(content) => files::create_file(&path, content, section.mode)?,
            Node::Symlink(target) => {
                symlink(OsStr::from_bytes(target), &path).context("create", &path)?;
            }
            Node::Fifo => {
                mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).context("create", &path)?;
                files::set_mode(&path, section.mode)?;
            }
            Node::Directory | Node::Socket | Node::Device => {
                return Err(io::Error::other("sockets and devices are not made from a tree, but env.sh may make them"))
                    .context("create", &path);
            }
        }
    }
    // Last and in reverse order, because the mode of a directory may deny access to its owner.
    let mut directories: Vec<_> = tree.sections.iter().filter(|section| section.node == Node::Directory).collect();
    directories.sort_unstable_by(|a, b| b.path.cmp(&a.path));
    for section in directories {
        let path = dir.join(OsStr::from_bytes(&section.path));
        files::set_mode(&path, section.mode)?;
    }
    Ok(())
}

/// Returns the files below a directory in the text format. See [`Tree::read`] for order and omissions.
///
/// # Errors
///
/// If anything below `dir` cannot be read.
pub fn dump(dir: &Path) -> Result<Vec<u8>, IoError> {
    Tree::read(dir).map(|tree| tree.to_bytes())
}

/// Parses the text of a `source-tree` or `expected-tree`.
///
/// # Errors
///
/// If a section is malformed, or its path is absolute, contains `..`, occurs twice, or leads through a symlink or file
/// of the same tree.
pub fn parse(text: &[u8]) -> Result<Tree, ParseError> {
    let mut tree = Tree::default();
    let mut header_lines = Vec::new();
    let mut lines = (1..).zip(text.lines_with_terminator());
    while let Some((number, line)) = lines.next() {
        let header = line.trim_end_with(|letter| letter == '\n');
        if header.is_empty() {
            continue;
        }
        let (path, mode, type_name) = parse_header(header).map_err(|problem| problem.at(number))?;
        let mut content = BString::default();
        loop {
            let (_, line) = lines.next().ok_or(Problem::Unclosed.at(number))?;
            if line.strip_suffix(b"\n").unwrap_or(line) == DASHES {
                break;
            }
            content.extend_from_slice(line);
        }
        let node = parse_node(type_name, content).map_err(|problem| problem.at(number))?;
        if path.ends_with(b"/") && node != Node::Directory {
            let type_name = node.type_name();
            let path = path.to_owned();
            return Err(Problem::Slash { path, type_name }.at(number));
        }
        tree.sections.push(Section { path: parse_path(path).map_err(|problem| problem.at(number))?, mode, node });
        header_lines.push(number);
    }
    tree.check_paths(&header_lines)?;
    Ok(tree)
}

/// Splits a header into path, mode and type.
fn parse_header(header: &[u8]) -> Result<(&BStr, u32, &BStr), Problem> {
    let malformed = || Problem::Header(header.into());
    let (type_name, rest) = header.split_once_str(" ").ok_or_else(malformed)?;
    let rest = rest.trim_start_with(|letter| letter == ' ');
    let (digits, path) = rest.split_once_str(" ").ok_or_else(malformed)?;
    if type_name.is_empty() || path.is_empty() {
        return Err(malformed());
    }
    let mode = digits
        .to_str()
        .ok()
        .filter(|digits| digits.len() <= 4 && digits.bytes().all(|digit| digit.is_ascii_digit()))
        .and_then(|digits| u32::from_str_radix(digits, 8).ok())
        .ok_or_else(|| Problem::Mode(digits.into()))?;
    Ok((path.as_bstr(), mode, type_name.as_bstr()))
}

/// Creates a node from a section's type and content.
fn parse_node(type_name: &BStr, mut content: BString) -> Result<Node, Problem> {
    let node = match type_name.as_bytes() {
        b"file" => return Ok(Node::File(content)),
        b"symlink" => {
            content.pop();
            return match content.find_byte(0) {
                Some(_) => Err(Problem::Nul),
                None if content.is_empty() => Err(Problem::NoTarget),
                None => Ok(Node::Symlink(content)),
            };
        }
        b"directory" => Node::Directory,
        b"fifo" => Node::Fifo,
        b"socket" => Node::Socket,
        b"device" => Node::Device,
        _ => return Err(Problem::Type(type_name.to_owned())),
    };
    if content.is_empty() { Ok(node) } else { Err(Problem::Content(node.type_name())) }
}

/// Converts a path to the form of [`Section::path`].
fn parse_path(path: &BStr) -> Result<BString, Problem> {
    if path.starts_with(b"/") {
        return Err(Problem::Absolute(path.to_owned()));
    }
    if path.contains(&0) {
        return Err(Problem::Nul);
    }
    let mut names = Vec::new();
    for name in path.split_str("/") {
        match name {
            b"" | b"." => {}
            b".." => return Err(Problem::Parent(path.to_owned())),
            name => names.push(name),
        }
    }
    if names.is_empty() {
        return Err(Problem::Root(path.to_owned()));
    }
    Ok(bstr::join("/", names).into())
}

impl Tree {
    /// Checks that no path occurs twice, or leads through a file that is not a directory.
    fn check_paths(&self, lines: &[usize]) -> Result<(), ParseError> {
        let mut known = BTreeMap::new();
        for (section, &line) in self.sections.iter().zip(lines) {
            let path = section.path.as_bstr();
            if let Some((_, first)) = known.insert(path, (&section.node, line)) {
                return Err(Problem::Duplicate { path: path.to_owned(), first }.at(line));
            }
        }
        for (section, &line) in self.sections.iter().zip(lines) {
            let parents = section.path.find_iter("/").filter_map(|end| section.path.get(..end));
            for parent in parents.map(ByteSlice::as_bstr) {
                let Some(&(node, parent_line)) = known.get(parent) else {
                    continue;
                };
                let path = section.path.clone();
                let problem = match node {
                    Node::Directory => continue,
                    Node::Symlink(_) => Problem::ThroughSymlink { path, parent: parent.to_owned(), line: parent_line },
                    _ => Problem::BelowFile { path, parent: parent.to_owned(), line: parent_line },
                };
                return Err(problem.at(line));
            }
        }
        Ok(())
    }
}
