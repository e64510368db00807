//! Outlines of entities, found while a report is received.

use super::edges::EdgeLine;
use super::{Edges, Line, ReportError, ReportErrorKind};
use crate::controls::Controls;
use crate::environment::API_VERSION_4;
use bstr::{BStr, BString, ByteSlice};
use std::collections::HashSet;
use std::ops::Range;

/// The outline of an entity in a report.
///
/// There may be very many entities, so only outlines are kept, and the lines are parsed on demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The range of its lines in the report, which are sufficient to rebuild the entity.
    pub lines: Range<usize>,
    /// The range of its ID in the report.
    pub id: Range<usize>,
    /// True if it has a key of version 4 that references other entities or controls how it is handled.
    pub has_edges: bool,
    /// True if it has controls.
    pub has_controls: bool,
    /// True if lists of entities include it.
    pub is_listed: bool,
}

/// Reads a scan report incrementally.
#[derive(Debug)]
pub struct ReportReader {
    text: Vec<u8>,
    outliner: Outliner,
}

/// A complete, valid scan report.
#[derive(Clone, Debug, Default)]
pub struct OutlinedReport {
    /// Its text.
    pub text: Vec<u8>,
    /// The outlines of the entities, in the order of the text.
    pub outlines: Vec<Outline>,
}

/// Builds outlines from a growing text.
#[derive(Debug)]
struct Outliner {
    version: u32,
    /// The number of bytes read.
    read: usize,
    lines: usize,
    outlines: Vec<Outline>,
    errors: Vec<ReportError>,
}

impl ReportReader {
    /// Returns a reader for reports of a plugin that uses this version.
    #[must_use]
    pub fn new(version: u32) -> ReportReader {
        ReportReader { text: Vec::new(), outliner: Outliner::new(version) }
    }

    /// Reads the next piece, which need not consist of whole lines.
    pub fn take(&mut self, piece: &[u8]) {
        // The report is not used any more.
        if self.outliner.errors.len() >= MAX_ERRORS {
            return;
        }
        make_room(&mut self.text, piece.len());
        self.text.extend_from_slice(piece);
        if let Some(last) = piece.rfind_byte(b'\n') {
            let end = self.text.len() - piece.len() + last + 1;
            self.outliner.read_to(&self.text, end);
        }
    }

    /// Returns the complete report, with outlines in order.
    ///
    /// # Errors
    /// The first invalid lines, in order.
    pub fn finish(self) -> Result<OutlinedReport, Vec<ReportError>> {
        let ReportReader { mut text, outliner } = self;
        let outlines = outliner.finish(&text)?;
        text.shrink_to_fit();
        Ok(OutlinedReport { text, outlines })
    }
}

/// The maximum number of entities in a report.
const MAX_ENTITIES: usize = 1_000_000;
/// The number of invalid lines after which the rest of a report is not read.
const MAX_ERRORS: usize = 100;

/// The size in bytes at which a list is expected to become large.
const MANY: usize = 1 << 16;
/// The capacity in bytes reserved for a large list. Allocators map blocks of this size separately, so that they grow
/// without copying and leave no holes.
const VERY_MANY: usize = 1 << 22;

/// Reserves space in a list that may become very long.
fn make_room<T>(list: &mut Vec<T>, more: usize) {
    let many = VERY_MANY / size_of::<T>().max(1);
    if list.len() + more > list.capacity() && list.capacity() < many && size_of_val(list.as_slice()) >= MANY {
        list.reserve(many.saturating_sub(list.len()).max(more));
    }
}

impl OutlinedReport {
    /// Returns the IDs of the entities.
    pub fn ids(&self) -> impl Iterator<Item = &BStr> {
        self.outlines.iter().map(|outline| self.text.get(outline.id.clone()).unwrap_or_default().as_bstr())
    }

    /// Returns the ID and edges of each entity.
    pub fn edges(&self) -> impl Iterator<Item = (&BStr, Edges<&BStr>)> {
        let edges = |outline: &Outline| Edges::from_lines(self.text.get(outline.lines.clone()).unwrap_or_default());
        self.ids().zip(self.outlines.iter().map(edges))
    }

    /// Adds those entities of another report of the same plugin that are missing from this one.
    pub fn add(&mut self, other: &OutlinedReport) {
        let known: HashSet<BString> = self.ids().map(ToOwned::to_owned).collect();
        for (id, outline) in other.ids().zip(&other.outlines).filter(|(id, _)| !known.contains(*id)) {
            if !self.text.is_empty() && !self.text.ends_with(b"\n") {
                self.text.push(b'\n');
            }
            let begin = self.text.len();
            self.text.extend_from_slice(other.text.get(outline.lines.clone()).unwrap_or_default());
            let id_begin = begin + outline.id.start - outline.lines.start;
            let (lines, id) = (begin..self.text.len(), id_begin..id_begin + id.len());
            self.outlines.push(Outline { lines, id, ..*outline });
        }
    }
}

/// Returns true if a line is a control.
fn is_control(key: &BStr, value: &BStr) -> Result<bool, ReportErrorKind> {
    Controls::default().take(key, value).map_err(|error| ReportErrorKind::Control {
        key: key.into(),
        value: value.into(),
        error,
    })
}

/// The meaning of an attribute.
pub(super) enum Meaning<'a> {
    Edge(EdgeLine<'a>),
    Control,
    Information,
}

impl<'a> Meaning<'a> {
    /// Returns the meaning in this version.
    pub(super) fn of(key: &'a BStr, value: &'a BStr, version: u32) -> Result<Meaning<'a>, ReportErrorKind> {
        Ok(match EdgeLine::of_version(version, key, value)? {
            Some(edge) => Meaning::Edge(edge),
            None if version >= API_VERSION_4 && is_control(key, value)? => Meaning::Control,
            None => Meaning::Information,
        })
    }
}

/// Returns the outlines of a complete report.
pub(super) fn whole(report: &[u8], version: u32) -> Result<Vec<Outline>, Vec<ReportError>> {
    Outliner::new(version).finish(report)
}

impl Outliner {
    fn new(version: u32) -> Outliner {
        Outliner { version, read: 0, lines: 0, outlines: Vec::new(), errors: Vec::new() }
    }

    fn finish(mut self, text: &[u8]) -> Result<Vec<Outline>, Vec<ReportError>> {
        self.read_to(text, text.len());
        self.end_entity(text.len());
        self.outlines.shrink_to_fit();
        if self.errors.is_empty() { Ok(self.outlines) } else { Err(self.errors) }
    }

    /// Reads lines up to the end of a line or of the text.
    fn read_to(&mut self, text: &[u8], end: usize) {
        while self.read < end && self.errors.len() < MAX_ERRORS {
            let rest = text.get(self.read..end).unwrap_or_default();
            // Only a newline ends a line: file names, and therefore IDs, may end with a carriage return.
            let length = rest.find_byte(b'\n').unwrap_or(rest.len());
            self.lines += 1;
            if let Err(kind) = self.read_line(rest.get(..length).unwrap_or_default()) {
                self.errors.push(ReportError { line: self.lines, kind });
            }
            self.read += length + 1;
        }
    }

    fn read_line(&mut self, line: &[u8]) -> Result<(), ReportErrorKind> {
        match Line::parse(line)? {
            Some(Line::Entity(id)) => {
                self.end_entity(self.read);
                if self.outlines.len() == MAX_ENTITIES {
                    return Err(ReportErrorKind::TooMany(MAX_ENTITIES));
                }
                let end = self.read + line.len();
                let lines = self.read..end;
                let id = end - id.len()..end;
                make_room(&mut self.outlines, 1);
                self.outlines.push(Outline { lines, id, has_edges: false, has_controls: false, is_listed: true });
                Ok(())
            }
            Some(line @ Line::Attribute { key, value, .. }) => {
                let outline = self.outlines.last_mut().ok_or_else(|| line.outside_entity())?;
                match Meaning::of(key, value, self.version)? {
                    Meaning::Edge(edge) => {
                        outline.has_edges = true;
                        if let EdgeLine::Unlisted(is_unlisted) = edge {
                            outline.is_listed = !is_unlisted;
                        }
                    }
                    Meaning::Control => outline.has_controls = true,
                    Meaning::Information => {}
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Marks the end of the last entity, if any.
    fn end_entity(&mut self, end: usize) {
        if let Some(outline) = self.outlines.last_mut() {
            outline.lines.end = end;
        }
    }
}
