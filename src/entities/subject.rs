//! Entities and paths as users name them on the command line, without knowing which of the two it is.

use crate::host::root::{Root, normalise};
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::Edges;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// An entity ID, a name shared by one or more entities, or a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The text as given.
    pub given: BString,
    /// The absolute path below the root, if the text is a path.
    pub path: BString,
}

impl Subject {
    /// Parses a subject. A relative path is relative to the working directory; an absolute one may include the root.
    #[must_use]
    pub fn new(given: &OsString, root: &Root) -> Subject {
        let absolute = |path: &Path| std::path::absolute(path).map(|path| normalise(&path)).unwrap_or_default();
        let (path, base) = (absolute(Path::new(given)), absolute(&root.join("")));
        let path = path.strip_prefix(&base).map_or(path.clone(), |below| Path::new("/").join(below));
        Subject { given: given.clone().into_vec().into(), path: path.as_os_str().as_bytes().into() }
    }

    /// Returns the path below the root.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        OsStr::from_bytes(&self.path).into()
    }

    /// Returns true if the text can only be a path.
    #[must_use]
    pub fn is_path(&self) -> bool {
        let has_kind = self.given.split_once_str(":").is_some_and(|(kind, _)| !kind.contains(&b'/'));
        self.given.contains(&b'/') && !has_kind
    }

    /// Returns the names by which plugins may know it.
    #[must_use]
    pub fn names(&self) -> Vec<BString> {
        let mut names = vec![self.given.clone()];
        if self.path != self.given {
            names.push(self.path.clone());
        }
        names
    }

    /// Returns true if an entity with this ID and these edges matches.
    #[must_use]
    pub fn is_of(&self, id: &BStr, edges: &Edges<&BStr>) -> bool {
        let name = id.split_once_str(":").map_or(id, |(_, name)| name.as_bstr());
        let has = |value: &&BStr| **value == self.path;
        id == self.given
            || name == self.given
            || name == self.path
            || edges.provides.iter().chain(&edges.owns).any(|asset| has(&asset.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_matches_id_name_or_path() {
        let root = Root::new(Some("/srv/root".into()));
        let subject = |given: &str| Subject::new(&given.into(), &root);
        let is_of = |given: &str, id: &str, lines: &str| {
            let report =
                holo_protocol::EntityReport::parse_all(format!("ENTITY: {id}\n{lines}").as_bytes(), 4).unwrap();
            subject(given).is_of(id.into(), &report[0].edges.borrowed())
        };
        assert!(is_of("nginx", "package:nginx", "") && is_of("package:nginx", "package:nginx", ""));
        assert!(!is_of("nginx", "package:nginx-common", "") && !is_of("package", "package:nginx", ""));
        for path in ["/etc/motd", "/srv/root/etc/motd", "/srv/root/etc/../etc//motd"] {
            assert!(is_of(path, "file:/etc/motd", "") && is_of(path, "x:y", "PROVIDES: path /etc/motd\n"), "{path}");
        }
        assert!(subject("/etc/motd").is_path() && subject("./x").is_path());
        assert!(!subject("file:/etc/motd").is_path() && !subject("nginx").is_path());
        assert_eq!(subject("/srv/root").path, "/");
    }
}
