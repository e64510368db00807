//! Scan reports, which list entities as lines `KEY: VALUE`.

mod edges;
mod outline;
use crate::controls::{ControlError, Controls};
use crate::environment::API_VERSION_4;
use crate::words::one_line;
use bstr::{BStr, BString, ByteSlice};
use edges::EdgeLine;
use outline::Meaning;
use std::fmt;

pub use edges::{Edges, Receipt, Written};
pub use outline::{Outline, OutlinedReport, ReportReader};

/// A plugin's report on one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityReport {
    /// The entity's ID, `TYPE:NAME`.
    pub id: BString,
    /// The action that applying the entity will take.
    pub action: Action,
    /// The resource files that define the entity. Their paths select it, and are not shown otherwise.
    pub sources: Vec<BString>,
    /// The edges to other entities; none under version 3.
    pub edges: Edges,
    /// Limits on when, and how often, the entity may be checked or changed; none under version 3.
    pub controls: Controls,
    /// Additional information for users.
    pub information: Vec<Information>,
}

/// The action that applying an entity will take, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// A verb such as `Scrubbing`.
    pub verb: BString,
    /// The reason for an unusual action.
    pub reason: Option<BString>,
}

/// A line of a report that is only shown to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Information {
    /// A key such as `store at`.
    pub key: BString,
    /// A value such as a path.
    pub value: BString,
}

/// An invalid line of a scan report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct ReportError {
    /// The line number, counted from 1.
    pub line: usize,
    /// The kind of error.
    pub kind: ReportErrorKind,
}

/// The kinds of errors in scan reports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportErrorKind {
    /// The line does not have the form `KEY: VALUE`.
    #[error("parse error (line was \"{0}\")")]
    Syntax(BString),
    /// A provided, needed or owned asset does not have the form `KIND VALUE`.
    #[error("expected \"{0}: KIND VALUE\" (value was \"{1}\")")]
    Asset(BString, BString),
    /// The ID and location of a reference do not have the form `LOCATION: ID`.
    #[error("expected \"WRITTEN: LOCATION: ID\" (value was \"{0}\")")]
    Written(BString),
    /// A control has an invalid value.
    #[error("{error} (line was \"{key}: {value}\")")]
    Control {
        /// The key.
        key: BString,
        /// The value.
        value: BString,
        /// The reason why the value is invalid.
        error: ControlError,
    },
    /// A received value does not have the form `KEY ENTITY#NAME`.
    #[error("expected \"RECEIVES: KEY ENTITY#NAME\" (value was \"{0}\")")]
    Receipt(BString),
    /// A name is not valid for a sent value.
    #[error("expected a name of letters, digits and _ after \"SENDS: \" (value was \"{0}\")")]
    Name(BString),
    /// An attribute of an entity occurs before the first entity.
    #[error("expected entity ID, found attribute \"{0}\"")]
    OutsideEntity(BString),
    /// There are more entities than this.
    #[error("a plugin cannot have more than {0} entities")]
    TooMany(usize),
}

const DEFAULT_VERB: &str = "Working on";
const ENTITY: &str = "ENTITY";
const ACTION: &str = "ACTION";
const SOURCE: &str = "SOURCE";

impl EntityReport {
    /// Returns a report that only contains the ID.
    #[must_use]
    pub fn new(id: impl Into<BString>) -> EntityReport {
        EntityReport {
            id: id.into(),
            action: Action::default(),
            sources: Vec::new(),
            edges: Edges::default(),
            controls: Controls::NONE,
            information: Vec::new(),
        }
    }

    /// Parses a complete scan report of a plugin that uses this version. Before version 4, edges are mere information.
    ///
    /// # Errors
    /// All invalid lines, in order.
    pub fn parse_all(report: &[u8], version: u32) -> Result<Vec<EntityReport>, Vec<ReportError>> {
        let lines = |outline: Outline| report.get(outline.lines).unwrap_or_default();
        Ok(outline::whole(report, version)?
            .into_iter()
            .map(|of| EntityReport::from_lines(lines(of), version))
            .collect())
    }

    /// Returns the report on one entity, given the lines of its [`Outline`].
    #[must_use]
    pub fn from_lines(lines: &[u8], version: u32) -> EntityReport {
        let mut report = EntityReport::new("");
        for line in Line::each(lines) {
            match line {
                Line::Entity(id) => report.id = id.into(),
                Line::Attribute { key, value, .. } => report.add(key, value, version),
            }
        }
        report
    }

    fn add(&mut self, key: &BStr, value: &BStr, version: u32) {
        if key == SOURCE {
            self.sources.push(value.into());
        } else if key == ACTION {
            self.action = Action::parse(value);
        } else if let Some(edge) = EdgeLine::of_version(version, key, value).ok().flatten() {
            self.edges.take(&edge);
        } else if version < API_VERSION_4 || !self.controls.take(key, value).unwrap_or_default() {
            self.inform(key, value);
        }
    }

    /// Appends the report's lines: the ID, the action unless it is the usual one, the sources, the edges if the version
    /// supports them, and the information.
    ///
    /// Every line is valid, whatever the values are: line breaks are written as `\n`, and lines that would be invalid,
    /// such as those without a value, are omitted. A report without an ID has no lines.
    pub fn write(&self, text: &mut Vec<u8>, version: u32) {
        if self.id.is_empty() {
            return;
        }
        let mut line = |key: &[u8], value: &[u8]| {
            let is_key = !key.is_empty() && key.find_byteset(b":\n").is_none();
            if is_key && !value.is_empty() {
                for part in [key, b": ", &one_line(value), b"\n"] {
                    text.extend_from_slice(part);
                }
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
            let mut valid_line = |key: &[u8], value: &[u8]| {
                if Meaning::of(key.as_bstr(), value.as_bstr(), version).is_ok() {
                    line(key, value);
                }
            };
            self.edges.write(&mut valid_line);
            self.controls.write(&mut valid_line);
        }
        for Information { key, value } in &self.information {
            let meant = key.trim_start().as_bstr();
            let is_special = [ENTITY, ACTION, SOURCE].iter().any(|special| meant == special);
            if !is_special && matches!(Meaning::of(meant, value.as_ref(), version), Ok(Meaning::Information)) {
                line(key, value);
            }
        }
    }

    /// Adds a line of information.
    pub fn inform(&mut self, key: impl Into<BString>, value: impl Into<BString>) {
        self.information.push(Information { key: key.into(), value: value.into() });
    }
}

/// Returns the controls of an entity of version 4, given the lines of its [`Outline`].
#[must_use]
pub fn controls(lines: &[u8]) -> Controls {
    let mut controls = Controls::NONE;
    for line in Line::each(lines) {
        if let Line::Attribute { key, value, .. } = line {
            // Errors have been reported when the report was read.
            let _ = controls.take(key, value);
        }
    }
    controls
}

/// Returns the resource files of an entity, given the lines of its [`Outline`].
pub fn sources(lines: &[u8]) -> impl Iterator<Item = &BStr> {
    Line::each(lines).filter_map(|line| match line {
        Line::Attribute { key, value, .. } if key == SOURCE => Some(value),
        _ => None,
    })
}

impl Action {
    /// Returns an action with a reason.
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

/// An asset that an entity provides, needs or owns, identified by its kind and value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asset<S = BString> {
    /// A kind such as `path`, `user` or `package`. Assets of most kinds match if they are equal; a needed `path` is
    /// provided by its nearest ancestor that any entity provides.
    pub kind: S,
    /// A value such as `/etc/motd`.
    pub value: S,
}

impl Asset {
    /// Returns an asset of this kind.
    #[must_use]
    pub fn new(kind: impl Into<BString>, value: impl Into<BString>) -> Asset {
        Asset { kind: kind.into(), value: value.into() }
    }

    /// Copies an asset of a report.
    #[must_use]
    pub fn owned(asset: &Asset<&BStr>) -> Asset {
        Asset::new(asset.kind, asset.value)
    }

    /// Returns the text of an asset: its kind, a blank and its value.
    #[must_use]
    pub fn to_text(&self) -> BString {
        [&self.kind[..], b" ", &self.value].concat().into()
    }

    /// Parses the text of an asset. Returns `None` if the kind or the value is missing.
    #[must_use]
    pub fn from_text(text: &[u8]) -> Option<Asset> {
        let (kind, value) = text.split_once_str(" ").filter(|(kind, value)| !kind.is_empty() && !value.is_empty())?;
        Some(Asset::new(kind, value))
    }

    /// Returns true if this asset equals the other one, or is a path below it.
    #[must_use]
    pub fn is_within(&self, other: &Asset) -> bool {
        if self.kind != other.kind || self.kind != "path" {
            return self == other;
        }
        // Fast path: most paths are already normalised.
        self.value == other.value || parts(&self.value).starts_with(&parts(&other.value))
    }
}

/// Returns the components of a path, normalised lexically.
pub(crate) fn parts(path: &[u8]) -> Vec<&BStr> {
    let mut parts = Vec::new();
    for part in path.split_str("/") {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part.as_bstr()),
        }
    }
    parts
}

/// A line of a report.
enum Line<'a> {
    /// The start of an entity.
    Entity(&'a BStr),
    /// An attribute of the current entity.
    Attribute { key: &'a BStr, value: &'a BStr, whole: &'a BStr },
}

impl<'a> Line<'a> {
    /// Parses a line. Returns `None` for an empty one.
    fn parse(line: &'a [u8]) -> Result<Option<Line<'a>>, ReportErrorKind> {
        if line.is_empty() {
            return Ok(None);
        }
        let (key, value) = split_line(line).ok_or_else(|| ReportErrorKind::Syntax(line.into()))?;
        let attribute = Line::Attribute { key, value, whole: line.into() };
        Ok(Some(if key == ENTITY { Line::Entity(value) } else { attribute }))
    }

    /// Returns the valid lines of a text.
    fn each(text: &'a [u8]) -> impl Iterator<Item = Line<'a>> {
        text.split(|&byte| byte == b'\n').filter_map(|line| Line::parse(line).ok().flatten())
    }

    /// Returns the error for a line outside of any entity.
    fn outside_entity(&self) -> ReportErrorKind {
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

#[cfg(test)]
mod tests;
