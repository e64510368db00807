//! Edges between entities, as declared in scan reports.

use super::{Asset, Line, ReportErrorKind};
use crate::environment::API_VERSION_4;
use crate::sent::is_name;
use bstr::{BStr, BString, ByteSlice};
use thin_vec::ThinVec;

const ORPHAN: &str = "ORPHAN";
const ALWAYS: &str = "ALWAYS";
const WRITTEN: &str = "WRITTEN";
const LISTED: &str = "LISTED";
const RECEIVES: &str = "RECEIVES";

/// The edges between an entity and others.
///
/// There may be very many entities, most of which have few edges. Therefore an empty list takes only one word, and the
/// text can be borrowed from the report (`S` is `&BStr` then).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges<S = BString> {
    /// Entities that come before this one if they are in the run (`AFTER`).
    pub after: ThinVec<S>,
    /// Entities that come after this one if they are in the run (`BEFORE`).
    pub before: ThinVec<S>,
    /// Entities that come before this one and must be in their desired state (`REQUIRES`).
    pub requires: ThinVec<S>,
    /// Entities that come before this one and refresh it when they change (`SUBSCRIBES`).
    pub subscribes: ThinVec<S>,
    /// Entities that come after this one and that it refreshes when it changes (`NOTIFIES`).
    pub notifies: ThinVec<S>,
    /// Assets that other entities may need (`PROVIDES`).
    pub provides: ThinVec<Asset<S>>,
    /// Assets that other entities may provide (`NEEDS`).
    pub needs: ThinVec<Asset<S>>,
    /// Assets that only this entity may define (`OWNS`). Their names are canonical, as two entities that own the same
    /// asset are both in error.
    pub owns: ThinVec<Asset<S>>,
    /// Values that other entities send, and that come before this one (`RECEIVES`).
    pub receives: ThinVec<Receipt<S>>,
    /// The names of the values that the entity can send (`SENDS`).
    pub sends: ThinVec<S>,
    /// Paths where a change may mean drift (`WATCH`).
    pub watch: ThinVec<S>,
    /// Those of the IDs above that a person wrote, with their locations (`WRITTEN`): an error is reported if there is
    /// no such entity.
    pub written: ThinVec<Written<S>>,
    /// True if the entity has no definition any more (`ORPHAN: yes`). Entities that needed it are then removed first.
    pub orphan: bool,
    /// True if lists of entities omit this one unless it is requested (`LISTED: no`).
    pub unlisted: bool,
    /// True if the entity is an action rather than a state, and so runs at every apply (`ALWAYS: yes`).
    pub always: bool,
}

/// A key of an entity that receives the value that another entity sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt<S = BString> {
    /// The key, such as `content`.
    pub key: S,
    /// The ID of the entity that sends it.
    pub sender: S,
    /// The name under which the sender sends it.
    pub name: S,
}

/// An entity ID written by a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written<S = BString> {
    /// The file and line number, such as `/usr/share/holo/exec/01.toml:12`.
    pub location: S,
    /// The ID.
    pub id: S,
}

impl<S> Edges<S> {
    /// No edges.
    pub const NONE: Edges<S> = Edges {
        after: ThinVec::new(),
        before: ThinVec::new(),
        requires: ThinVec::new(),
        subscribes: ThinVec::new(),
        notifies: ThinVec::new(),
        provides: ThinVec::new(),
        needs: ThinVec::new(),
        owns: ThinVec::new(),
        receives: ThinVec::new(),
        sends: ThinVec::new(),
        watch: ThinVec::new(),
        written: ThinVec::new(),
        orphan: false,
        unlisted: false,
        always: false,
    };

    /// Returns the IDs of the referenced entities.
    pub fn named(&self) -> impl Iterator<Item = &S> {
        let Edges { after, before, requires, subscribes, notifies, receives, .. } = self;
        let senders = receives.iter().map(|receipt| &receipt.sender);
        [after, before, requires, subscribes, notifies].into_iter().flatten().chain(senders)
    }

    /// Frees excess capacity of the lists.
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
        [after, before, requires, subscribes, notifies, watch, sends].into_iter().for_each(ThinVec::shrink_to_fit);
        [provides, needs, owns].into_iter().for_each(ThinVec::shrink_to_fit);
    }
}

impl Edges {
    /// Returns these edges with borrowed text.
    #[must_use]
    pub fn borrowed(&self) -> Edges<&BStr> {
        fn each<'a, T, B>(list: &'a ThinVec<T>, borrow: impl Fn(&'a T) -> B) -> ThinVec<B> {
            list.iter().map(borrow).collect()
        }
        let ids = |list| each(list, |id: &BString| id.as_bstr());
        let assets =
            |list| each(list, |Asset { kind, value }: &Asset| Asset { kind: kind.as_bstr(), value: value.as_bstr() });
        Edges {
            after: ids(&self.after),
            before: ids(&self.before),
            requires: ids(&self.requires),
            subscribes: ids(&self.subscribes),
            notifies: ids(&self.notifies),
            provides: assets(&self.provides),
            needs: assets(&self.needs),
            owns: assets(&self.owns),
            receives: each(&self.receives, |receipt| Receipt {
                key: receipt.key.as_bstr(),
                sender: receipt.sender.as_bstr(),
                name: receipt.name.as_bstr(),
            }),
            sends: ids(&self.sends),
            watch: ids(&self.watch),
            written: each(&self.written, |written| Written {
                location: written.location.as_bstr(),
                id: written.id.as_bstr(),
            }),
            orphan: self.orphan,
            unlisted: self.unlisted,
            always: self.always,
        }
    }

    /// Returns the lists of paths and entity IDs with their keys.
    fn lists(&self) -> [(&'static str, &ThinVec<BString>); 7] {
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
}

impl<'a, S: From<&'a BStr>> Edges<S> {
    /// Returns the edges of an entity of version 4, given the lines of its [`Outline`](super::Outline).
    #[must_use]
    pub fn from_lines(lines: &'a [u8]) -> Edges<S> {
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

    /// Adds the edge of a line.
    pub(super) fn take(&mut self, line: &EdgeLine<'a>) {
        let Edges { after, before, requires, subscribes, notifies, watch, provides, needs, owns, .. } = self;
        match *line {
            EdgeLine::After(id) => add(after, id.into()),
            EdgeLine::Before(id) => add(before, id.into()),
            EdgeLine::Requires(id) => add(requires, id.into()),
            EdgeLine::Subscribes(id) => add(subscribes, id.into()),
            EdgeLine::Notifies(id) => add(notifies, id.into()),
            EdgeLine::Watch(path) => add(watch, path.into()),
            EdgeLine::Provides(kind, value) => add(provides, Asset { kind: kind.into(), value: value.into() }),
            EdgeLine::Needs(kind, value) => add(needs, Asset { kind: kind.into(), value: value.into() }),
            EdgeLine::Owns(kind, value) => add(owns, Asset { kind: kind.into(), value: value.into() }),
            EdgeLine::Written(location, id) => {
                add(&mut self.written, Written { location: location.into(), id: id.into() });
            }
            EdgeLine::Sends(name) => add(&mut self.sends, name.into()),
            EdgeLine::Receives(key, sender, name) => {
                add(&mut self.receives, Receipt { key: key.into(), sender: sender.into(), name: name.into() });
            }
            EdgeLine::Orphan(orphan) => self.orphan = orphan,
            EdgeLine::Unlisted(unlisted) => self.unlisted = unlisted,
            EdgeLine::Always(always) => self.always = always,
        }
    }
}

/// Adds an item to a list, without spare capacity: most lists have only one item.
fn add<T>(list: &mut ThinVec<T>, item: T) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
    list.push(item);
}

/// A line that declares an edge.
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
    /// Parses a line, or returns `None` if this version has no such key.
    pub(super) fn of_version(
        version: u32,
        key: &'a BStr,
        value: &'a BStr,
    ) -> Result<Option<EdgeLine<'a>>, ReportErrorKind> {
        if version >= API_VERSION_4 { EdgeLine::parse(key, value) } else { Ok(None) }
    }

    /// Parses a line, or returns `None` if version 4 has no such key.
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

impl Receipt<&BStr> {
    /// Returns a receipt with owned text.
    #[must_use]
    pub fn to_owned(&self) -> Receipt {
        Receipt { key: self.key.to_owned(), sender: self.sender.to_owned(), name: self.name.to_owned() }
    }
}
