//! The edges between entities, as a scan report declares them.

use super::ReportErrorKind;
use bstr::{BStr, BString, ByteSlice};

const ORPHAN: &str = "ORPHAN";
const ALWAYS: &str = "ALWAYS";
const WRITTEN: &str = "WRITTEN";
const LISTED: &str = "LISTED";

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
        for Written { location, id } in &self.written {
            line(WRITTEN.as_bytes(), &[&location[..], b": ", id].concat());
        }
    }

    /// Takes a line if it is one of version 4. Returns true if it was.
    pub(super) fn take(&mut self, key: &BStr, value: &BStr) -> Result<bool, ReportErrorKind> {
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
