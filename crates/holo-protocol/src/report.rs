//! The scan report: which entities there are, as lines `KEY: VALUE`.

use crate::environment::API_VERSION_4;
use bstr::{BStr, BString, ByteSlice};
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

/// The edges between an entity and others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// Comes after these entities, where they are in the run (`AFTER`).
    pub after: Vec<BString>,
    /// Comes before these entities, where they are in the run (`BEFORE`).
    pub before: Vec<BString>,
    /// Comes after these entities, and only if they are in their desired state (`REQUIRES`).
    pub requires: Vec<BString>,
    /// Comes after these entities, and is refreshed when one of them changed (`SUBSCRIBES`).
    pub subscribes: Vec<BString>,
    /// Comes before these entities, and refreshes them when it changed (`NOTIFIES`).
    pub notifies: Vec<BString>,
    /// Assets that others may need (`PROVIDES`).
    pub provides: Vec<Asset>,
    /// Assets that some other entity may provide (`NEEDS`).
    pub needs: Vec<Asset>,
    /// Assets that only this entity may define (`OWNS`): canonical names, as two entities that own the same thing are both in error.
    pub owns: Vec<Asset>,
    /// Paths where a change may mean drift (`WATCH`).
    pub watch: Vec<BString>,
    /// IDs among those above that a person has written, and their locations (`WRITTEN`): if there is no such entity, it is a slip.
    pub written: Vec<Written>,
    /// True if nothing defines the entity any more (`ORPHAN: yes`): then what needed it goes first.
    pub orphan: bool,
    /// True if lists of entities leave it out unless it is asked for (`LISTED: no`).
    pub unlisted: bool,
    /// True if the entity is something to be done rather than a state, so that it is done at every apply (`ALWAYS: yes`).
    pub always: bool,
}

/// Something that an entity provides, needs or owns: a word that says of which kind it is, and which one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asset {
    /// Such as `path`, `user`, `package`. Only `path` has a meaning beyond being equal: what is needed is provided by the nearest
    /// ancestor that anybody provides.
    pub kind: BString,
    /// Such as `/etc/motd`.
    pub value: BString,
}

/// An entity ID that a person has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file and line, such as `/usr/share/holo/exec/01.toml:12`.
    pub location: BString,
    /// The ID.
    pub id: BString,
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
const ORPHAN: &str = "ORPHAN";
const ALWAYS: &str = "ALWAYS";
const WRITTEN: &str = "WRITTEN";
const LISTED: &str = "LISTED";

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

impl Edges {
    /// No edges at all.
    pub const NONE: Edges = Edges {
        after: Vec::new(),
        before: Vec::new(),
        requires: Vec::new(),
        subscribes: Vec::new(),
        notifies: Vec::new(),
        provides: Vec::new(),
        needs: Vec::new(),
        owns: Vec::new(),
        watch: Vec::new(),
        written: Vec::new(),
        orphan: false,
        unlisted: false,
        always: false,
    };

    /// Gives back the memory that lists were given beyond what they hold.
    pub fn shrink_to_fit(&mut self) {
        let Edges { after, before, requires, subscribes, notifies, provides, needs, owns, watch, written, .. } = self;
        written.shrink_to_fit();
        [after, before, requires, subscribes, notifies, watch].into_iter().for_each(Vec::shrink_to_fit);
        [provides, needs, owns].into_iter().for_each(Vec::shrink_to_fit);
    }

    /// Returns the lists of paths and entity IDs, with their keys.
    fn lists(&self) -> [(&'static str, &Vec<BString>); 6] {
        let Edges { after, before, requires, subscribes, notifies, watch, .. } = self;
        [
            ("AFTER", after),
            ("BEFORE", before),
            ("REQUIRES", requires),
            ("SUBSCRIBES", subscribes),
            ("NOTIFIES", notifies),
            ("WATCH", watch),
        ]
    }

    fn list_mut(&mut self, key: &BStr) -> Option<&mut Vec<BString>> {
        match key.to_str().ok()? {
            "AFTER" => Some(&mut self.after),
            "BEFORE" => Some(&mut self.before),
            "REQUIRES" => Some(&mut self.requires),
            "SUBSCRIBES" => Some(&mut self.subscribes),
            "NOTIFIES" => Some(&mut self.notifies),
            "WATCH" => Some(&mut self.watch),
            _ => None,
        }
    }

    fn assets_mut(&mut self, key: &BStr) -> Option<&mut Vec<Asset>> {
        match key.to_str().ok()? {
            "PROVIDES" => Some(&mut self.provides),
            "NEEDS" => Some(&mut self.needs),
            "OWNS" => Some(&mut self.owns),
            _ => None,
        }
    }

    fn write(&self, line: &mut impl FnMut(&[u8], &[u8])) {
        if self.orphan {
            line(ORPHAN.as_bytes(), b"yes");
        }
        if self.unlisted {
            line(LISTED.as_bytes(), b"no");
        }
        if self.always {
            line(ALWAYS.as_bytes(), b"yes");
        }
        for (key, values) in self.lists() {
            values.iter().for_each(|value| line(key.as_bytes(), value));
        }
        for (key, assets) in [("PROVIDES", &self.provides), ("NEEDS", &self.needs), ("OWNS", &self.owns)] {
            for Asset { kind, value } in assets {
                line(key.as_bytes(), &[&kind[..], b" ", value].concat());
            }
        }
        for Written { location, id } in &self.written {
            line(WRITTEN.as_bytes(), &[&location[..], b": ", id].concat());
        }
    }

    /// Takes a line if it is one of version 4. Returns true if it was.
    fn take(&mut self, key: &BStr, value: &BStr) -> Result<bool, ReportErrorKind> {
        if let Some(list) = self.list_mut(key) {
            list.push(value.into());
        } else if let Some(assets) = self.assets_mut(key) {
            assets.push(Asset::parse(value).ok_or_else(|| ReportErrorKind::Asset(key.into(), value.into()))?);
        } else if key == WRITTEN {
            self.written.push(Written::parse(value).ok_or_else(|| ReportErrorKind::Written(value.into()))?);
        } else if key == ORPHAN {
            self.orphan = value == "yes";
        } else if key == LISTED {
            self.unlisted = value == "no";
        } else if key == ALWAYS {
            self.always = value == "yes";
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

impl Asset {
    /// Returns an asset of a kind.
    #[must_use]
    pub fn new(kind: impl Into<BString>, value: impl Into<BString>) -> Asset {
        Asset { kind: kind.into(), value: value.into() }
    }

    fn parse(text: &BStr) -> Option<Asset> {
        let (kind, value) = text.split_once_str(" ")?;
        (!kind.is_empty() && !value.is_empty()).then(|| Asset::new(kind, value))
    }
}

impl Written {
    fn parse(text: &BStr) -> Option<Written> {
        let (location, id) = text.split_once_str(": ")?;
        (!location.is_empty() && !id.is_empty()).then(|| Written { location: location.into(), id: id.into() })
    }
}

/// A line of a report.
enum Line<'a> {
    /// It begins an entity.
    Entity(&'a BStr),
    /// It belongs to the entity that was begun last.
    Attribute { key: &'a BStr, value: &'a BStr, whole: &'a BStr },
}

impl<'a> Line<'a> {
    /// Understands a line; an empty one is nothing.
    fn parse(line: &'a [u8]) -> Result<Option<Line<'a>>, ReportErrorKind> {
        if line.is_empty() {
            return Ok(None);
        }
        let (key, value) = split_line(line).ok_or_else(|| ReportErrorKind::Syntax(line.into()))?;
        let attribute = Line::Attribute { key, value, whole: line.into() };
        Ok(Some(if key == ENTITY { Line::Entity(value) } else { attribute }))
    }

    fn outside_entity(&self) -> ReportErrorKind {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(report: &str) -> Result<Vec<EntityReport>, Vec<String>> {
        EntityReport::parse_all(report.as_bytes(), 3).map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn reads_what_it_writes() {
        let report = "ENTITY: file:/etc/motd\nACTION: Scrubbing (target was deleted)\nSOURCE: /a\nSOURCE: /b\ndelete: /c\n\
                      ENTITY: x\nACTION: Executing\n";
        let entities = parse(report).unwrap();
        let mut text = Vec::new();
        entities.iter().for_each(|entity| entity.write(&mut text, 3));
        assert_eq!(text.as_bstr(), report);
    }

    #[test]
    fn understands_the_special_keys() {
        let entity =
            &parse("ENTITY: a:b\n  found in: x: y \nSOURCE: /s\nACTION: Removing (no (longer) wanted)\n").unwrap()[0];
        assert_eq!(entity.id, "a:b");
        assert_eq!(entity.sources, ["/s"]);
        assert_eq!(entity.action, Action::because("Removing", "no (longer) wanted"));
        assert_eq!(entity.information, [Information { key: "found in".into(), value: "x: y ".into() }]);
    }

    #[test]
    fn edges_are_keys_of_version_4() {
        let report = "ENTITY: a\nORPHAN: yes\nLISTED: no\nALWAYS: yes\nAFTER: b\nBEFORE: c\nREQUIRES: d\nREQUIRES: e f\nSUBSCRIBES: g\nNOTIFIES: h\n\
                      WATCH: /i\nPROVIDES: path /j k\nNEEDS: user l\nOWNS: path /j k\nWRITTEN: /x/y:3: b: c\nfound in: m\n";
        let entities = EntityReport::parse_all(report.as_bytes(), 4).unwrap();
        let edges = &entities[0].edges;
        assert!(edges.orphan && edges.unlisted && edges.always);
        assert_eq!(edges.requires, ["d", "e f"]);
        assert_eq!(edges.provides, [Asset::new("path", "/j k")]);
        assert_eq!(edges.owns, [Asset::new("path", "/j k")]);
        assert_eq!(entities[0].information.len(), 1);
        let mut text = Vec::new();
        entities[0].write(&mut text, 4);
        assert_eq!(text.as_bstr(), report);
        let as_version_3 = &parse(report).unwrap()[0];
        assert_eq!(as_version_3.edges, Edges::default());
        assert_eq!(as_version_3.information.len(), 15);
        let errors = EntityReport::parse_all(b"ENTITY: a\nNEEDS: user\n", 4).unwrap_err();
        assert_eq!(errors[0].to_string(), "line 2: expected \"NEEDS: KIND VALUE\" (value was \"user\")");
    }

    #[test]
    fn an_action_without_a_whole_parenthesis_is_a_verb() {
        for value in ["Executing", "Executing (now", "now)", "(now)", "Executing(now)"] {
            let entities = parse(&format!("ENTITY: a\nACTION: {value}\n")).unwrap();
            assert_eq!(entities[0].action, Action { verb: value.into(), reason: None });
        }
    }

    #[test]
    fn the_lines_of_an_entity_alone_make_it_again() {
        let report = b"\n ENTITY: a\nSOURCE: /s\n\nAFTER: b\nENTITY: a\nx: y\r\nENTITY: c";
        for version in [3, 4] {
            let mut pieces = Vec::new();
            EntityReport::parse_each(report, version, |range, entity| pieces.push((range, entity))).unwrap();
            let all = EntityReport::parse_all(report, version).unwrap();
            assert_eq!(pieces.iter().map(|(_, entity)| entity).collect::<Vec<_>>(), all.iter().collect::<Vec<_>>());
            for (range, entity) in pieces {
                assert_eq!(EntityReport::parse_all(&report[range], version), Ok(vec![entity]));
            }
        }
    }

    #[test]
    fn reports_every_bad_line() {
        assert_eq!(
            parse("\nfound in: x\nnonsense\nENTITY:x\nENTITY: \nENTITY: a\n: no key\n"),
            Err(vec![
                "line 2: expected entity ID, found attribute \"found in: x\"".into(),
                "line 3: parse error (line was \"nonsense\")".into(),
                "line 4: parse error (line was \"ENTITY:x\")".into(),
                "line 5: parse error (line was \"ENTITY: \")".into(),
                "line 7: parse error (line was \": no key\")".into(),
            ])
        );
    }

    #[test]
    fn an_empty_report_has_no_entities() {
        assert_eq!(parse(""), Ok(vec![]));
        assert_eq!(parse("\n\n"), Ok(vec![]));
    }

    #[test]
    fn ids_need_not_be_utf8() {
        let entities = EntityReport::parse_all(b"ENTITY: file:/caf\xe9\n", 3).unwrap();
        assert_eq!(entities[0].id, &b"file:/caf\xe9"[..]);
    }
}
