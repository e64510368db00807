//! Line numbers of values in files, determined on demand.

use crate::document;
use crate::key;
use crate::yaml::{self, Node};
use std::fmt::{self, Display};
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// The location of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing<'a> {
    /// The file, as shown to the user.
    pub file: &'a Path,
    /// The line number of its key, for TOML and YAML.
    pub line: Option<usize>,
}

impl Display for Standing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// A file in which line numbers can be looked up, except for JSON.
pub(super) enum Lines<'a> {
    None,
    Toml(&'a str, DeTable<'a>),
    Yaml(Node),
}

impl<'a> Lines<'a> {
    /// Parses the text of a file with this name.
    pub(super) fn from_text(path: &Path, text: Option<&'a str>) -> Lines<'a> {
        let found = match (path.extension().and_then(|extension| extension.to_str()), text) {
            (Some("toml"), Some(text)) => DeTable::parse(text).ok().map(|table| Lines::Toml(text, table.into_inner())),
            (Some("yaml" | "yml"), Some(text)) => yaml::parse(text).ok().map(Lines::Yaml),
            _ => None,
        };
        found.unwrap_or(Lines::None)
    }

    /// Returns the line number of this key's value.
    pub(super) fn find(&self, key: &str) -> Option<usize> {
        let parts = key::parts(key).ok()?;
        let (text, table) = match self {
            Lines::None => return None,
            Lines::Yaml(node) => return node.line(&parts),
            Lines::Toml(text, table) => (text, table),
        };
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
        let lines = Lines::from_text(Path::new("x.toml"), Some(text));
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
        assert_eq!(Lines::from_text(Path::new("x.json"), Some("{\"a\": 1}")).find("a"), None);
        let lines = Lines::from_text(Path::new("x.yml"), Some("a: 1\nt:\n  b.c: 2\n"));
        assert_eq!((lines.find("a"), lines.find("t.\"b.c\"")), (Some(1), Some(3)));
    }
}
