//! In which lines of files values stand, found out when somebody asks.

use crate::document;
use crate::key;
use std::fmt::{self, Display};
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Where a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing<'a> {
    /// The file, as the user knows it.
    pub file: &'a Path,
    /// The line of its key, in a file of TOML.
    pub line: Option<usize>,
}

impl Display for Standing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// A file of TOML, to be asked for lines; one of JSON knows none.
pub(super) struct Lines<'a>(Option<(&'a str, DeTable<'a>)>);

impl<'a> Lines<'a> {
    /// Of the text of a file of TOML, if it is one.
    pub(super) fn of(toml: Option<&'a str>) -> Lines<'a> {
        Lines(toml.and_then(|text| Some((text, DeTable::parse(text).ok()?.into_inner()))))
    }

    /// The line in which this key has its value.
    pub(super) fn find(&self, key: &str) -> Option<usize> {
        let (text, table) = self.0.as_ref()?;
        let parts = key::parts(key).ok()?;
        let (last, way) = parts.split_last()?;
        let mut table = table;
        for part in way {
            match table.get(part.as_str())?.get_ref() {
                DeValue::Table(within) => table = within,
                _ => return None,
            }
        }
        let (found, _) = table.get_key_value(last.as_str())?;
        Some(document::line(text.as_bytes(), found.span().start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_however_they_are_written() {
        let text =
            "a = 1\n\"b.c\" = 2\nd.e = [\n 1,\n]\nd.f.g = 3\n\n[t]\nx = '''\n\n'''\ny = { z = 4 }\n[t.u]\n\n[[l]]\n";
        let lines = Lines::of(Some(text));
        for (key, line) in [
            ("a", Some(1)),
            ("\"b.c\"", Some(2)),
            ("d.e", Some(3)),
            ("d.f.g", Some(6)),
            ("t.x", Some(9)),
            ("t.y.z", Some(12)),
            ("t.u", Some(13)),
            ("l", Some(15)),
            ("a.b", None),
            ("nothing", None),
        ] {
            assert_eq!(lines.find(key), line, "{key}");
        }
        assert_eq!(Lines::of(None).find("a"), None);
    }
}
