//! Lists of the paths of an archive, as they are and as they would be: the form in which a change of one is shown.

use bstr::ByteSlice;
use holo_change::manifest::{EntryKind, ManifestEntry, Ownership};
use holo_change::path_bytes;
use holo_change::tree_store::PendingEntry;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The number of digits of a digest that are shown.
const DIGITS: usize = 16;

/// The paths that an apply would change.
#[derive(Debug, Default)]
pub(crate) struct Listing(BTreeMap<PathBuf, Change>);

#[derive(Debug)]
struct Change {
    before: Option<ManifestEntry>,
    after: After,
}

#[derive(Debug)]
enum After {
    Known(Option<ManifestEntry>),
    /// The reason why it cannot be told.
    Unknown(String),
}

impl Listing {
    /// Adds a path. What an earlier step would have made of it does not count.
    pub(crate) fn add(&mut self, PendingEntry { path, before, after }: PendingEntry) {
        self.set(path, before, After::Known(after));
    }

    /// Adds a path of which it cannot be told what it would be.
    pub(crate) fn add_unknown(&mut self, path: PathBuf, before: Option<ManifestEntry>, reason: &str) {
        self.set(path, before, After::Unknown(reason.to_owned()));
    }

    /// Adds a path that goes, unless something would be made there before.
    pub(crate) fn add_leftover(&mut self, pending: PendingEntry) {
        if !self.0.contains_key(&pending.path) {
            self.add(pending);
        }
    }

    fn set(&mut self, path: PathBuf, before: Option<ManifestEntry>, after: After) {
        let before = match self.0.remove(&path) {
            Some(change) => change.before,
            None => before,
        };
        self.0.insert(path, Change { before, after });
    }

    /// Returns both texts; none if nothing that is shown would change.
    pub(crate) fn into_texts(self) -> Option<(String, String)> {
        let (mut from, mut to) = (String::new(), String::new());
        for (path, Change { before, after }) in self.0 {
            let owner_before = before.as_ref().map(|entry| entry.owner).unwrap_or_default();
            let changed = match &after {
                After::Known(Some(entry)) => owner_before.changed_to(entry.owner),
                _ => Ownership::default(),
            };
            let shown = |entry: &ManifestEntry| {
                let Ownership { uid, gid } = entry.owner;
                let owner = Ownership {
                    uid: uid.filter(|_| changed.uid.is_some()),
                    gid: gid.filter(|_| changed.gid.is_some()),
                };
                line(&path, entry, owner)
            };
            let before = before.as_ref().map(shown).unwrap_or_default();
            let after = match &after {
                After::Known(entry) => entry.as_ref().map(shown).unwrap_or_default(),
                After::Unknown(reason) => format!("{}  ({reason})\n", name(&path)),
            };
            if before != after {
                from += &before;
                to += &after;
            }
        }
        (from != to).then_some((from, to))
    }
}

fn line(path: &Path, entry: &ManifestEntry, owner: Ownership) -> String {
    let mut line = name(path);
    // Writing to a string cannot fail.
    let _ = match &entry.kind {
        EntryKind::Directory { mode } => write!(line, "/  {mode:04o}"),
        EntryKind::File { mode, size, sha256 } => {
            let digest = sha256.get(..DIGITS).unwrap_or(sha256);
            write!(line, "  {mode:04o}  {size} bytes  sha256:{digest}")
        }
        EntryKind::Symlink { target } => write!(line, " -> {}", target.as_bstr().escape_bytes()),
    };
    let id = |id: Option<u32>| id.map(|id| id.to_string()).unwrap_or_default();
    if owner != Ownership::default() {
        let _ = write!(line, "  {}:{}", id(owner.uid), id(owner.gid));
    }
    line + "\n"
}

/// A list has a line for a path.
fn name(path: &Path) -> String {
    path_bytes(path).escape_bytes().to_string()
}
