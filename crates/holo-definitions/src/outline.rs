//! The outline of a file that is known to be valid: the location and name of each table, without parsing values.
//!
//! A command that concerns a few of very many definitions would otherwise spend most of its time parsing the rest. The
//! outline only scans each statement far enough to find its end, so it is meaningless for an invalid file.

use bstr::ByteSlice;
use std::fmt;

/// A table of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlinedTable<'s> {
    /// The name in its header.
    pub table: &'s str,
    /// Its text, including nested tables.
    pub(crate) text: &'s str,
    /// The offset of the text in the file.
    pub(crate) start: usize,
    /// The text of its naming key.
    pub(crate) name: Option<&'s str>,
    /// True if any of its keys may affect other entities.
    pub(crate) may_concern_others: bool,
}

/// The role of a key of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The key names the entity.
    Name,
    /// The key affects no other entity.
    SelfContained,
    /// The key may affect other entities.
    Other,
}

/// A key and the text of its value.
type Statement<'s> = (&'s str, &'s str);

impl<'s> OutlinedTable<'s> {
    /// Returns the value of a key if it is a single-line string without escapes.
    #[must_use]
    pub fn text_of(&self, key: &str) -> Option<&'s str> {
        self.statements().find(|(found, _)| *found == key).and_then(|(_, value)| plain(value))
    }

    /// Returns true if the table itself contains a key.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.statements().any(|(found, _)| found == key)
    }

    /// Returns the statements below the header.
    fn statements(&self) -> impl Iterator<Item = Statement<'s>> + use<'s> {
        let mut lines = Lines { rest: self.text };
        lines.next();
        lines.map_while(|line| match line {
            Line::Statement(statement) => Some(statement),
            _ => None,
        })
    }
}

/// Returns the text of a single-line string without escapes.
fn plain(value: &str) -> Option<&str> {
    let quote = value.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
    let text = value.strip_prefix(quote)?.strip_suffix(quote)?;
    (!text.contains([quote, '\\', '\n'])).then_some(text)
}

/// The ID of the entity that a table defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableId<'s> {
    pub(crate) entity_type: &'static str,
    /// The key that contains the name.
    pub key: &'static str,
    /// The part after the colon.
    pub name: &'s str,
}

impl TableId<'_> {
    /// Returns true if the ID starts with this prefix.
    #[must_use]
    pub fn starts_with(&self, prefix: &[u8]) -> bool {
        let [kind, name] = [self.entity_type, self.name].map(str::as_bytes);
        match prefix.strip_prefix(kind) {
            Some([]) => true,
            Some(rest) => rest.strip_prefix(b":").is_some_and(|rest| name.starts_with(rest)),
            None => kind.starts_with(prefix),
        }
    }

    /// Returns true if the ID equals this one.
    #[must_use]
    pub fn is(&self, id: &[u8]) -> bool {
        id.len() == self.entity_type.len() + 1 + self.name.len() && self.starts_with(id)
    }
}

impl fmt::Display for TableId<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}", self.entity_type, self.name)
    }
}

/// Returns the tables of a valid TOML text, given a function from table and key to the key's role. Returns `None` if
/// the text contains syntax that outlines do not support.
pub(crate) fn outline(text: &str, role: impl Fn(&str, &str) -> Role) -> Option<Vec<OutlinedTable<'_>>> {
    let mut tables: Vec<OutlinedTable<'_>> = Vec::new();
    let mut lines = Lines { rest: text };
    loop {
        let start = text.len() - lines.blank().rest.len();
        let Some(line) = lines.next() else { break };
        let end = text.len() - lines.rest.len();
        match line {
            Line::Tables(table) => {
                let (name, may_concern_others) = Default::default();
                tables.push(OutlinedTable { table, text: text.get(start..end)?, start, name, may_concern_others });
            }
            Line::Inner(outer) => {
                let last = tables.last_mut().filter(|last| last.table == outer)?;
                (last.may_concern_others, last.text) = (true, text.get(last.start..end)?);
            }
            Line::Statement((key, value)) => {
                let last = tables.last_mut()?;
                last.text = text.get(last.start..end)?;
                // The keys of a nested table belong to the nested table.
                match role(last.table, key) {
                    Role::Name if !last.may_concern_others => last.name = plain(value),
                    Role::Name | Role::SelfContained => {}
                    Role::Other => last.may_concern_others = true,
                }
            }
            Line::Odd => return None,
        }
    }
    Some(tables)
}

/// A line, including the following lines that continue its value.
enum Line<'s> {
    /// `[[TABLE]]`
    Tables(&'s str),
    /// The header of a nested table, with the name of the outer table.
    Inner(&'s str),
    Statement(Statement<'s>),
    /// Syntax that outlines do not support.
    Odd,
}

/// The non-blank lines of a text.
struct Lines<'s> {
    rest: &'s str,
}

impl<'s> Lines<'s> {
    /// Skips blank lines and comments.
    fn blank(&mut self) -> &mut Lines<'s> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
            let Some(comment) = self.rest.strip_prefix('#') else { return self };
            self.rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
        }
    }

    fn take(&mut self, length: usize) -> Option<&'s str> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn read(&mut self) -> Option<Line<'s>> {
        let bytes = self.rest.as_bytes();
        if bytes.starts_with(b"[") {
            let length = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
            let length = self.rest.get(..length)?.trim_end().len();
            let header = self.take(length)?;
            let header = header.split('#').next().unwrap_or_default().trim();
            let name = header.trim_start_matches('[').trim_end_matches(']').trim();
            let table = name.split(['.', ' ', '\t']).next().filter(|table| is_bare(table))?;
            return Some(match header.strip_prefix("[[").and_then(|rest| rest.strip_suffix("]]")) {
                Some(_) if table == name => Line::Tables(table),
                _ if name.contains('.') => Line::Inner(table),
                _ => Line::Odd,
            });
        }
        let length = bytes.iter().position(|byte| !is_of_bare_key(*byte))?;
        let key = self.take(length).filter(|key| !key.is_empty())?;
        self.rest = self.rest.trim_start_matches([' ', '\t']).strip_prefix('=')?;
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        let length = value_length(self.rest.as_bytes())?;
        let length = self.rest.get(..length)?.trim_end().len();
        Some(Line::Statement((key, self.take(length)?)))
    }
}

impl<'s> Iterator for Lines<'s> {
    type Item = Line<'s>;

    fn next(&mut self) -> Option<Line<'s>> {
        if self.blank().rest.is_empty() {
            return None;
        }
        Some(self.read().unwrap_or(Line::Odd))
    }
}

fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(is_of_bare_key)
}

fn is_of_bare_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Returns the length of a value, up to a comment or the end of its last line; `None` if the value has no end.
fn value_length(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' | b'\'' => {
                at += string_length(bytes.get(at..)?, byte)?;
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.checked_sub(1)?,
            b'\n' | b'#' if depth == 0 => return Some(at),
            b'#' => {
                at += bytes.get(at..)?.iter().position(|&byte| byte == b'\n')?;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    (depth == 0).then_some(at)
}

/// Returns the length of a string including its quotes; `None` if the string has no end.
fn string_length(bytes: &[u8], quote: u8) -> Option<usize> {
    let is_long = bytes.starts_with(&[quote; 3]);
    let mut at = if is_long { 3 } else { 1 };
    loop {
        let (start, rest) = (at, bytes.get(at..)?);
        at += rest.find_byte(quote)?;
        let before = bytes.get(start..at)?;
        if !is_long && before.contains(&b'\n') {
            return None;
        }
        // Backslashes before the opening quote do not count.
        let backslashes = before.iter().rev().take_while(|&&byte| byte == b'\\').count();
        if quote == b'"' && backslashes % 2 == 1 {
            at += 1;
        } else if !is_long {
            return Some(at + 1);
        } else if bytes.get(at..)?.starts_with(&[quote; 3]) {
            // Up to two further quotes are part of the text.
            let more = bytes.get(at + 3..)?.iter().take(2).take_while(|&&byte| byte == quote).count();
            return Some(at + 3 + more);
        } else {
            at += 1;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
