//! The scan report: which entities there are, as lines `KEY: VALUE`.

mod edges;
mod line;
#[cfg(test)]
mod tests;

pub use edges::{Asset, Edges, Written};

use crate::environment::API_VERSION_4;
use bstr::{BStr, BString, ByteSlice};
use line::Line;
use std::fmt;
use std::ops::Range;

/// A plugin's report on one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityReport {
    /// The entity's ID, `TYPE:NAME`.
    pub id: BString,
    /// The action that applying the entity will take.
    pub action: Action,
    /// The resource files that define it: paths that select it, not shown otherwise.
    pub sources: Vec<BString>,
    /// The edges between it and others; none under version 3.
    pub edges: Edges,
    /// Further information for people.
    pub information: Vec<Information>,
}

/// The action that applying an entity will take, in a word, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// A verb such as `Scrubbing`.
    pub verb: BString,
    /// The reason why it is not the usual action, if it isn't.
    pub reason: Option<BString>,
}

/// A line of a report that has a meaning for people only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Information {
    /// Such as `store at`.
    pub key: BString,
    /// Such as a path.
    pub value: BString,
}

/// A line that may not be where it is in a scan report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct ReportError {
    /// The line's number, from 1.
    pub line: usize,
    /// The kind of error.
    pub kind: ReportErrorKind,
}

/// The kinds of errors in a line of a scan report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportErrorKind {
    /// The line has not the form `KEY: VALUE`.
    #[error("parse error (line was \"{0}\")")]
    Syntax(BString),
    /// A provided, needed or owned asset has not the form `KIND VALUE`.
    #[error("expected \"{0}: KIND VALUE\" (value was \"{1}\")")]
    Asset(BString, BString),
    /// An ID that a person has written has not the form `LOCATION: ID`.
    #[error("expected \"WRITTEN: LOCATION: ID\" (value was \"{0}\")")]
    Written(BString),
    /// The line belongs to an entity, but no entity was begun.
    #[error("expected entity ID, found attribute \"{0}\"")]
    OutsideEntity(BString),
}

const DEFAULT_VERB: &str = "Working on";
const ENTITY: &str = "ENTITY";
const ACTION: &str = "ACTION";
const SOURCE: &str = "SOURCE";

impl EntityReport {
    /// Returns a report that says nothing but the ID.
    #[must_use]
    pub fn new(id: impl Into<BString>) -> EntityReport {
        EntityReport {
            id: id.into(),
            action: Action::default(),
            sources: Vec::new(),
            edges: Edges::default(),
            information: Vec::new(),
        }
    }

    /// Reads a whole scan report of a plugin that speaks this version: the edges are keys of version 4, and information before.
    ///
    /// # Errors
    /// All lines that are wrong, in their order.
    pub fn parse_all(report: &[u8], version: u32) -> Result<Vec<EntityReport>, Vec<ReportError>> {
        let mut entities = Vec::new();
        EntityReport::parse_each(report, version, |_, entity| entities.push(entity))?;
        Ok(entities)
    }

    /// Parses as [`parse_all`](Self::parse_all) does, but hands on one entity after the other, each with the range of its lines in the report.
    /// Those lines alone make the same entity again.
    ///
    /// # Errors
    /// All lines that are wrong, in their order.
    pub fn parse_each(
        report: &[u8],
        version: u32,
        mut on_entity: impl FnMut(Range<usize>, EntityReport),
    ) -> Result<(), Vec<ReportError>> {
        let mut current: Option<(usize, EntityReport)> = None;
        let mut errors = Vec::new();
        let mut begin = 0;
        // Only a newline ends a line: a file name, and so an ID, may well end with a carriage return.
        for (index, line) in report.split_str("\n").enumerate() {
            let next_begin = begin + line.len() + 1;
            match Line::parse(line) {
                Ok(Some(Line::Entity(id))) => {
                    let ended = current.replace((begin, EntityReport::new(id)));
                    ended.into_iter().for_each(|(from, entity)| on_entity(from..begin, entity));
                }
                Ok(Some(line)) => {
                    let entity = current.as_mut().map(|(_, entity)| entity);
                    let added = entity.map_or_else(|| Err(line.outside_entity()), |entity| entity.add(&line, version));
                    errors.extend(added.err().map(|kind| ReportError { line: index + 1, kind }));
                }
                Ok(None) => {}
                Err(kind) => errors.push(ReportError { line: index + 1, kind }),
            }
            begin = next_begin;
        }
        current.into_iter().for_each(|(from, entity)| on_entity(from..report.len(), entity));
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    fn add(&mut self, line: &Line<'_>, version: u32) -> Result<(), ReportErrorKind> {
        let Line::Attribute { key, value, .. } = *line else { return Ok(()) };
        if key == SOURCE {
            self.sources.push(value.into());
        } else if key == ACTION {
            self.action = Action::parse(value);
        } else if version >= API_VERSION_4 && self.edges.take(key, value)? {
            // It says nothing that a person has to read.
        } else {
            self.inform(key, value);
        }
        Ok(())
    }

    /// Appends the report's lines: the ID, the action unless it is the usual one, the sources, the edges if the version has them,
    /// then the information.
    pub fn write(&self, text: &mut Vec<u8>, version: u32) {
        let mut line = |key: &[u8], value: &[u8]| {
            for part in [key, b": ", value, b"\n"] {
                text.extend_from_slice(part);
            }
        };
        line(ENTITY.as_bytes(), &self.id);
        if self.action != Action::default() {
            line(ACTION.as_bytes(), self.action.to_string_lossless().as_bytes());
        }
        for source in &self.sources {
            line(SOURCE.as_bytes(), source);
        }
        if version >= API_VERSION_4 {
            self.edges.write(&mut line);
        }
        for Information { key, value } in &self.information {
            line(key, value);
        }
    }

    /// Adds a line of information.
    pub fn inform(&mut self, key: impl Into<BString>, value: impl Into<BString>) {
        self.information.push(Information { key: key.into(), value: value.into() });
    }
}

impl Action {
    /// Returns a verb with a reason.
    #[must_use]
    pub fn because(verb: impl Into<BString>, reason: impl Into<BString>) -> Action {
        Action { verb: verb.into(), reason: Some(reason.into()) }
    }

    fn parse(value: &BStr) -> Action {
        let split = value.strip_suffix(b")").and_then(|inner| inner.split_once_str(" ("));
        match split {
            Some((verb, reason)) if !verb.is_empty() && !reason.is_empty() => Action::because(verb, reason),
            _ => Action { verb: value.into(), reason: None },
        }
    }

    fn to_string_lossless(&self) -> BString {
        let mut text = self.verb.clone();
        if let Some(reason) = &self.reason {
            for part in [&b" ("[..], reason, b")"] {
                text.extend_from_slice(part);
            }
        }
        text
    }
}

impl Default for Action {
    fn default() -> Self {
        Action { verb: DEFAULT_VERB.into(), reason: None }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_string_lossless(), f)
    }
}
