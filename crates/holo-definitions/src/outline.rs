//! The outline of a file that is known to be right: where its tables are, and what they are about, without reading their values.
//!
//! Most of the time of a command that is about a few of very many definitions would be spent on reading all others. The outline takes a look at
//! each statement that is only long enough to find its end, so it makes no sense of a file in which something is wrong.

/// A table of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlinedTable<'s> {
    /// The name that stands above it.
    pub table: &'s str,
    /// Its text, with the lines of the tables in it.
    pub(crate) text: &'s str,
    /// The offset of the text in the file.
    pub(crate) start: usize,
    /// True if there are tables in it.
    has_tables: bool,
}

/// A statement: a key, and the text of its value.
type Statement<'s> = (&'s str, &'s str);

impl<'s> OutlinedTable<'s> {
    /// Returns the text that a key has, if that is a string on one line without escapes.
    #[must_use]
    pub fn text_of(&self, key: &str) -> Option<&'s str> {
        let (_, value) = self.statements().find(|(found, _)| *found == key)?;
        let quote = value.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
        let text = value.strip_prefix(quote)?.strip_suffix(quote)?;
        (!text.contains([quote, '\\', '\n'])).then_some(text)
    }

    /// Returns true if it says nothing but these keys.
    #[must_use]
    pub fn has_only(&self, known: impl Fn(&str) -> bool) -> bool {
        !self.has_tables && self.statements().all(|(key, _)| known(key))
    }

    /// Returns the statements below the first line.
    fn statements(&self) -> impl Iterator<Item = Statement<'s>> + use<'s> {
        let mut lines = Lines { rest: self.text };
        lines.next();
        lines.map_while(|line| match line {
            Line::Statement(statement) => Some(statement),
            _ => None,
        })
    }
}

/// Returns the tables of a text that is valid TOML; none if there is something in it that an outline cannot show.
pub(crate) fn outline(text: &str) -> Option<Vec<OutlinedTable<'_>>> {
    let mut tables: Vec<OutlinedTable<'_>> = Vec::new();
    let mut lines = Lines { rest: text };
    loop {
        let start = text.len() - lines.blank().rest.len();
        let Some(line) = lines.next() else { break };
        let end = text.len() - lines.rest.len();
        match line {
            Line::Tables(table) => {
                tables.push(OutlinedTable { table, text: text.get(start..end)?, start, has_tables: false });
            }
            Line::Inner(outer) => {
                let last = tables.last_mut().filter(|last| last.table == outer)?;
                (last.has_tables, last.text) = (true, text.get(last.start..end)?);
            }
            Line::Statement(_) => {
                let last = tables.last_mut()?;
                last.text = text.get(last.start..end)?;
            }
            Line::Odd => return None,
        }
    }
    Some(tables)
}

/// A line, with those that its value goes on for.
enum Line<'s> {
    /// `[[TABLE]]`
    Tables(&'s str),
    /// The line above a table in a table, and the outer one's name.
    Inner(&'s str),
    Statement(Statement<'s>),
    /// Something that an outline does not know.
    Odd,
}

/// The lines of a text that are not blank.
struct Lines<'s> {
    rest: &'s str,
}

impl<'s> Lines<'s> {
    /// Passes over blank lines and comments.
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

/// Returns the length of a value, up to a comment or the end of its last line; none if it has no end.
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

/// Returns the length of a string with its quotes; none if it has no end.
fn string_length(bytes: &[u8], quote: u8) -> Option<usize> {
    let is_long = bytes.starts_with(&[quote; 3]);
    let mut at = if is_long { 3 } else { 1 };
    loop {
        match *bytes.get(at)? {
            b'\\' if quote == b'"' => at += 1,
            b'\n' if !is_long => return None,
            byte if byte == quote && !is_long => return Some(at + 1),
            byte if byte == quote && bytes.get(at..)?.starts_with(&[quote; 3]) => {
                // Up to two more quotes are a part of the text.
                let more = bytes.get(at + 3..)?.iter().take(2).take_while(|&&byte| byte == quote).count();
                return Some(at + 3 + more);
            }
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
pub(crate) mod tests;
