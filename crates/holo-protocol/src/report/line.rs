//! The lines of a scan report.

use super::{ENTITY, ReportErrorKind};
use bstr::{BStr, ByteSlice};

/// A line of a report.
pub(super) enum Line<'a> {
    /// It begins an entity.
    Entity(&'a BStr),
    /// It belongs to the entity that was begun last.
    Attribute { key: &'a BStr, value: &'a BStr, whole: &'a BStr },
}

impl<'a> Line<'a> {
    /// Parses a line; an empty one is nothing.
    pub(super) fn parse(line: &'a [u8]) -> Result<Option<Line<'a>>, ReportErrorKind> {
        if line.is_empty() {
            return Ok(None);
        }
        let (key, value) = split_line(line).ok_or_else(|| ReportErrorKind::Syntax(line.into()))?;
        let attribute = Line::Attribute { key, value, whole: line.into() };
        Ok(Some(if key == ENTITY { Line::Entity(value) } else { attribute }))
    }

    /// Returns the lines of a text that can be parsed.
    pub(super) fn each(text: &'a [u8]) -> impl Iterator<Item = Line<'a>> {
        text.split(|&byte| byte == b'\n').filter_map(|line| Line::parse(line).ok().flatten())
    }

    /// Returns the error of a line that belongs to no entity.
    pub(super) fn outside_entity(&self) -> ReportErrorKind {
        let (Line::Entity(line) | Line::Attribute { whole: line, .. }) = *self;
        ReportErrorKind::OutsideEntity(line.into())
    }
}

/// Splits a line as `^\s*([^:]+): (.+)\s*$` does, which is how version 3 defines it: a value keeps its trailing blanks.
fn split_line(line: &[u8]) -> Option<(&BStr, &BStr)> {
    let colon = line.find_byte(b':')?;
    let (key, rest) = line.split_at(colon);
    let value = rest.strip_prefix(b": ")?;
    let trimmed = key.trim_ascii_start();
    // A key of blanks only is still a key, of its last blank.
    let key = if trimmed.is_empty() { key.get(key.len().checked_sub(1)?..)? } else { trimmed };
    (!value.is_empty()).then(|| (key.as_bstr(), value.as_bstr()))
}
