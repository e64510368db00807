//! Parses the text format.

use super::{DASHES, Node, ParseError, Problem, Section, Tree};
use bstr::{BStr, BString, ByteSlice};
use std::collections::BTreeMap;

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
