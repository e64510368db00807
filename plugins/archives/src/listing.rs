//! Lists of the paths of an archive in two states, for displaying changes.

use bstr::ByteSlice;
use holo_change::manifest::{EntryKind, ManifestEntry, Ownership};
use holo_change::path_bytes;
use holo_change::tree_store::PendingEntry;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The number of displayed digits of a digest.
const DIGITS: usize = 16;

/// Paths with differing states.
#[derive(Debug, Default)]
pub(crate) struct Listing(BTreeMap<PathBuf, Change>);

#[derive(Debug)]
struct Change {
    before: Side,
    after: Side,
    /// The lines of both files, if displayed.
    texts: (String, String),
}

#[derive(Debug)]
enum Side {
    Known(Option<ManifestEntry>),
    /// A description of an unknown state.
    Unknown(String),
}

impl Listing {
    /// Adds a path. The result of an earlier operation on the same path is replaced.
    pub(crate) fn add(&mut self, PendingEntry { path, before, after }: PendingEntry) {
        self.set(path, Side::Known(before), Side::Known(after));
    }

    /// Adds a path with an unknown resulting state.
    pub(crate) fn add_unknown(&mut self, path: PathBuf, before: Option<ManifestEntry>, reason: &str) {
        self.set(path, Side::Known(before), Side::Unknown(reason.to_owned()));
    }

    /// Adds the path of a download whose file has changed.
    pub(crate) fn add_download(&mut self, path: PathBuf, sha256: &str, after: Option<ManifestEntry>) {
        self.set(path, Side::Unknown(format!("sha256:{}", beginning(sha256))), Side::Known(after));
    }

    /// Adds a path that is removed, unless an earlier operation creates it.
    pub(crate) fn add_leftover(&mut self, pending: PendingEntry) {
        if !self.0.contains_key(&pending.path) {
            self.add(pending);
        }
    }

    /// Adds the contents of a path that is already in the list, each line prefixed with its name. Only texts are
    /// displayed.
    pub(crate) fn add_contents(&mut self, path: &Path, before: Option<&[u8]>, after: Option<&[u8]>) {
        if let Some(change) = self.0.get_mut(path) {
            let lines = |content: Option<&[u8]>| content.and_then(as_text).map(|text| quoted(path, text));
            change.texts = (lines(before).unwrap_or_default(), lines(after).unwrap_or_default());
        }
    }

    fn set(&mut self, path: PathBuf, before: Side, after: Side) {
        let before = match self.0.remove(&path) {
            Some(change) => change.before,
            None => before,
        };
        self.0.insert(path, Change { before, after, texts: Default::default() });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns both texts; `None` if there are no visible changes.
    pub(crate) fn into_texts(self) -> Option<(String, String)> {
        let (mut from, mut to) = (String::new(), String::new());
        for (path, Change { before, after, texts }) in self.0 {
            let owner_before = match &before {
                Side::Known(Some(entry)) => entry.owner,
                _ => Ownership::default(),
            };
            let changed = match &after {
                Side::Known(Some(entry)) => owner_before.changed_to(entry.owner),
                _ => Ownership::default(),
            };
            let shown = |side: &Side| match side {
                Side::Unknown(reason) => format!("{}  ({reason})\n", name(&path)),
                Side::Known(None) => String::new(),
                Side::Known(Some(entry)) => {
                    let Ownership { uid, gid } = entry.owner;
                    let owner = Ownership {
                        uid: uid.filter(|_| changed.uid.is_some()),
                        gid: gid.filter(|_| changed.gid.is_some()),
                    };
                    line(&path, entry, owner)
                }
            };
            let (before, after) = (shown(&before), shown(&after));
            if before != after {
                from += &(before + &texts.0);
                to += &(after + &texts.1);
            }
        }
        (from != to).then_some((from, to))
    }
}

/// Returns a content as text, if it is text.
pub(crate) fn as_text(content: &[u8]) -> Option<&str> {
    std::str::from_utf8(content).ok().filter(|text| !text.contains('\0'))
}

/// Returns the lines of a text, each prefixed with its file name.
fn quoted(path: &Path, text: &str) -> String {
    let name = name(path);
    let mut lines: String = text.split_inclusive('\n').map(|line| format!("{name}| {line}")).collect();
    if !lines.is_empty() && !lines.ends_with('\n') {
        lines += "\\ without a newline at the end\n";
    }
    lines
}

/// Returns the displayed digits of a digest.
fn beginning(sha256: &str) -> &str {
    sha256.get(..DIGITS).unwrap_or(sha256)
}

fn line(path: &Path, entry: &ManifestEntry, owner: Ownership) -> String {
    let mut line = name(path);
    // Writing to a string cannot fail.
    let _ = match &entry.kind {
        EntryKind::Directory { mode } => write!(line, "/  {mode:04o}"),
        EntryKind::File { mode, size, sha256 } => {
            write!(line, "  {mode:04o}  {size} bytes  sha256:{}", beginning(sha256))
        }
        EntryKind::Symlink { target } => write!(line, " -> {}", target.as_bstr().escape_bytes()),
    };
    let id = |id: Option<u32>| id.map(|id| id.to_string()).unwrap_or_default();
    if owner != Ownership::default() {
        let _ = write!(line, "  {}:{}", id(owner.uid), id(owner.gid));
    }
    line + "\n"
}

/// Returns a path as a single line.
fn name(path: &Path) -> String {
    path_bytes(path).escape_bytes().to_string()
}
