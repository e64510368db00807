//! The lines of a scan report.

use super::{ENTITY, ReportErrorKind};
use bstr::{BStr, ByteSlice};

/// A line of a report.
pub(super) enum Line<'a> {
    /// The start of an entity.
    Entity(&'a BStr),
    /// An attribute of the current entity.
    Attribute { key: &'a BStr, value: &'a BStr, whole: &'a BStr },
}

impl<'a> Line<'a> {
    /// Parses a line. Returns `None` for an empty one.
    pub(super) fn parse(line: &'a [u8]) -> Result<Option<Line<'a>>, ReportErrorKind> {
        if line.is_empty() {
            return Ok(None);
        }
        let (key, value) = split_line(line).ok_or_else(|| ReportErrorKind::Syntax(line.into()))?;
        let attribute = Line::Attribute { key, value, whole: line.into() };
        Ok(Some(if key == ENTITY { Line::Entity(value) } else { attribute }))
    }

    /// Returns the valid lines of a text.
    pub(super) fn each(text: &'a [u8]) -> impl Iterator<Item = Line<'a>> {
        text.split(|&byte| byte == b'\n').filter_map(|line| Line::parse(line).ok().flatten())
    }

    /// Returns the error for a line outside of any entity.
    pub(super) fn outside_entity(&self) -> ReportErrorKind {
        let (Line::Entity(line) | Line::Attribute { whole: line, .. }) = *self;
        ReportErrorKind::OutsideEntity(line.into())
    }
}

/// Splits a line like `^\s*([^:]+): (.+)\s*$`, which is the definition in version 3: a value keeps its trailing blanks.
fn split_line(line: &[u8]) -> Option<(&BStr, &BStr)> {
    let colon = line.find_byte(b':')?;
    let (key, rest) = line.split_at(colon);
    let value = rest.strip_prefix(b": ")?;
    let trimmed = key.trim_ascii_start();
    // A key of only blanks is valid too: its last blank is the key.
    let key = if trimmed.is_empty() { key.get(key.len().checked_sub(1)?..)? } else { trimmed };
    (!value.is_empty()).then(|| (key.as_bstr(), value.as_bstr()))
}
