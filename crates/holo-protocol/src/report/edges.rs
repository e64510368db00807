//! The edges between entities, as a scan report declares them.

use super::ReportErrorKind;
use super::line::Line;
use crate::environment::API_VERSION_4;
use crate::sent::is_name;
use bstr::{BStr, BString, ByteSlice};

const ORPHAN: &str = "ORPHAN";
const ALWAYS: &str = "ALWAYS";
const WRITTEN: &str = "WRITTEN";
const LISTED: &str = "LISTED";
const RECEIVES: &str = "RECEIVES";

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
    /// Keys whose values other entities send, after which it comes (`RECEIVES`).
    pub receives: Vec<Receipt>,
    /// The names by which it can send values (`SENDS`).
    pub sends: Vec<BString>,
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

/// A key of an entity whose value another one sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The key, such as `content`.
    pub key: BString,
    /// The ID of the entity that sends it.
    pub sender: BString,
    /// The name by which that does.
    pub name: BString,
}

/// An entity ID that a person has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file and line, such as `/usr/share/holo/exec/01.toml:12`.
    pub location: BString,
    /// The ID.
    pub id: BString,
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
        receives: Vec::new(),
        sends: Vec::new(),
        watch: Vec::new(),
        written: Vec::new(),
        orphan: false,
        unlisted: false,
        always: false,
    };

    /// Returns the IDs of other entities that are named.
    pub fn named(&self) -> impl Iterator<Item = &BString> {
        let Edges { after, before, requires, subscribes, notifies, receives, .. } = self;
        let senders = receives.iter().map(|receipt| &receipt.sender);
        [after, before, requires, subscribes, notifies].into_iter().flatten().chain(senders)
    }

    /// Gives back the memory that lists were given beyond what they hold.
    pub fn shrink_to_fit(&mut self) {
        let Edges {
            after,
            before,
            requires,
            subscribes,
            notifies,
            provides,
            needs,
            owns,
            receives,
            sends,
            watch,
            written,
            ..
        } = self;
        written.shrink_to_fit();
        receives.shrink_to_fit();
        [after, before, requires, subscribes, notifies, watch, sends].into_iter().for_each(Vec::shrink_to_fit);
        [provides, needs, owns].into_iter().for_each(Vec::shrink_to_fit);
    }

    /// Returns the lists of paths and entity IDs, with their keys.
    fn lists(&self) -> [(&'static str, &Vec<BString>); 7] {
        let Edges { after, before, requires, subscribes, notifies, sends, watch, .. } = self;
        [
            ("AFTER", after),
            ("BEFORE", before),
            ("REQUIRES", requires),
            ("SUBSCRIBES", subscribes),
            ("NOTIFIES", notifies),
            ("SENDS", sends),
            ("WATCH", watch),
        ]
    }

    /// Writes the lines of all edges.
    pub(super) fn write(&self, line: &mut impl FnMut(&[u8], &[u8])) {
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
        for Receipt { key, sender, name } in &self.receives {
            line(RECEIVES.as_bytes(), &[&key[..], b" ", sender, b"#", name].concat());
        }
        for Written { location, id } in &self.written {
            line(WRITTEN.as_bytes(), &[&location[..], b": ", id].concat());
        }
    }

    /// Returns the edges of an entity of version 4, given the lines of its [`Outline`](super::Outline).
    #[must_use]
    pub fn from_lines(lines: &[u8]) -> Edges {
        let mut edges = Edges::NONE;
        for line in Line::each(lines) {
            if let Line::Attribute { key, value, .. } = line
                && let Ok(Some(edge)) = EdgeLine::parse(key, value)
            {
                edges.take(&edge);
            }
        }
        edges
    }

    /// Takes a line.
    pub(super) fn take(&mut self, line: &EdgeLine<'_>) {
        let Edges { after, before, requires, subscribes, notifies, watch, provides, needs, owns, .. } = self;
        match *line {
            EdgeLine::After(id) => after.push(id.into()),
            EdgeLine::Before(id) => before.push(id.into()),
            EdgeLine::Requires(id) => requires.push(id.into()),
            EdgeLine::Subscribes(id) => subscribes.push(id.into()),
            EdgeLine::Notifies(id) => notifies.push(id.into()),
            EdgeLine::Watch(path) => watch.push(path.into()),
            EdgeLine::Provides(kind, value) => provides.push(Asset::new(kind, value)),
            EdgeLine::Needs(kind, value) => needs.push(Asset::new(kind, value)),
            EdgeLine::Owns(kind, value) => owns.push(Asset::new(kind, value)),
            EdgeLine::Written(location, id) => {
                self.written.push(Written { location: location.into(), id: id.into() });
            }
            EdgeLine::Sends(name) => self.sends.push(name.into()),
            EdgeLine::Receives(key, sender, name) => {
                self.receives.push(Receipt { key: key.into(), sender: sender.into(), name: name.into() });
            }
            EdgeLine::Orphan(orphan) => self.orphan = orphan,
            EdgeLine::Unlisted(unlisted) => self.unlisted = unlisted,
            EdgeLine::Always(always) => self.always = always,
        }
    }
}

/// A line about edges.
#[derive(Clone, Copy)]
pub(super) enum EdgeLine<'a> {
    After(&'a BStr),
    Before(&'a BStr),
    Requires(&'a BStr),
    Subscribes(&'a BStr),
    Notifies(&'a BStr),
    Watch(&'a BStr),
    Provides(&'a BStr, &'a BStr),
    Needs(&'a BStr, &'a BStr),
    Owns(&'a BStr, &'a BStr),
    Sends(&'a BStr),
    Receives(&'a BStr, &'a BStr, &'a BStr),
    Written(&'a BStr, &'a BStr),
    Orphan(bool),
    Unlisted(bool),
    Always(bool),
}

impl<'a> EdgeLine<'a> {
    /// Parses a line if its key is one of this version.
    pub(super) fn of_version(
        version: u32,
        key: &'a BStr,
        value: &'a BStr,
    ) -> Result<Option<EdgeLine<'a>>, ReportErrorKind> {
        if version >= API_VERSION_4 { EdgeLine::parse(key, value) } else { Ok(None) }
    }

    /// Parses a line if its key is one of version 4.
    fn parse(key: &'a BStr, value: &'a BStr) -> Result<Option<EdgeLine<'a>>, ReportErrorKind> {
        let asset = || {
            let (kind, value_of_kind) = value.split_at(value.find_byte(b' ')?);
            let asset = value_of_kind.get(1..)?;
            (!kind.is_empty() && !asset.is_empty()).then(|| (kind.as_bstr(), asset.as_bstr()))
        };
        let asset = || asset().ok_or_else(|| ReportErrorKind::Asset(key.into(), value.into()));
        Ok(Some(match key.as_bytes() {
            b"AFTER" => EdgeLine::After(value),
            b"BEFORE" => EdgeLine::Before(value),
            b"REQUIRES" => EdgeLine::Requires(value),
            b"SUBSCRIBES" => EdgeLine::Subscribes(value),
            b"NOTIFIES" => EdgeLine::Notifies(value),
            b"WATCH" => EdgeLine::Watch(value),
            b"PROVIDES" => asset().map(|(kind, value)| EdgeLine::Provides(kind, value))?,
            b"NEEDS" => asset().map(|(kind, value)| EdgeLine::Needs(kind, value))?,
            b"OWNS" => asset().map(|(kind, value)| EdgeLine::Owns(kind, value))?,
            b"SENDS" if is_name(value) => EdgeLine::Sends(value),
            b"SENDS" => return Err(ReportErrorKind::Name(value.into())),
            b"RECEIVES" => {
                let receipt = || {
                    let (key, rest) = value.split_once_str(" ").filter(|(key, _)| !key.is_empty())?;
                    let (sender, name) = rest.rsplit_once_str("#")?;
                    (is_name(name.as_bstr()) && !sender.is_empty()).then_some((key, sender, name))
                };
                let (key, sender, name) = receipt().ok_or_else(|| ReportErrorKind::Receipt(value.into()))?;
                EdgeLine::Receives(key.as_bstr(), sender.as_bstr(), name.as_bstr())
            }
            b"WRITTEN" => {
                let written =
                    value.split_once_str(": ").filter(|(location, id)| !location.is_empty() && !id.is_empty());
                let (location, id) = written.ok_or_else(|| ReportErrorKind::Written(value.into()))?;
                EdgeLine::Written(location.as_bstr(), id.as_bstr())
            }
            b"ORPHAN" => EdgeLine::Orphan(value == "yes"),
            b"LISTED" => EdgeLine::Unlisted(value == "no"),
            b"ALWAYS" => EdgeLine::Always(value == "yes"),
            _ => return Ok(None),
        }))
    }
}

impl Asset {
    /// Returns an asset of a kind.
    #[must_use]
    pub fn new(kind: impl Into<BString>, value: impl Into<BString>) -> Asset {
        Asset { kind: kind.into(), value: value.into() }
    }
}
