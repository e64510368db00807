//! The differences between the download and its extracted files, and lists of the paths of an archive in two states, for displaying
//! changes.

use super::entity::{ArchiveEntity, Desired};
use crate::definition::Ensure;
use crate::error::ArchiveError;
use crate::extract::{Contents, MAX_SHOWN};
use crate::store::{ArchiveRecord, Store};
use bstr::ByteSlice;
use holo_change::manifest::{EntryKind, ManifestEntry, Ownership};
use holo_change::path_bytes;
use holo_change::tree_store::{ChangedEntry, PendingEntry};
use holo_plugin::{Entity, FilePair, Host, Preview, Shown};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Returns the two files, if the archive was applied. If only the content of one short text has changed, they are that
/// file. Otherwise each lists all differing paths, with the lines of short texts.
pub(super) fn find(entity: &ArchiveEntity, host: &Host) -> Result<Option<FilePair>, ArchiveError> {
    let store = entity.store(host)?;
    let Some(record) = store.memory.recall::<ArchiveRecord>(&entity.id)?.map(|remembered| remembered.base) else {
        return Ok(None);
    };
    let mut changed = Vec::new();
    for directory in &record.trees {
        changed.extend(record.open_tree(&store.trees, &entity.id, Path::new(directory))?.changed()?);
    }
    let contents = contents(entity, host, (&store, &record), &changed);
    let mut listing = Listing::default();
    add_download(entity, (&store, &record), &mut listing)?;
    if let ([entry], true) = (&changed[..], listing.is_empty())
        && let Some(pair) = pair(entity, host, entry, &contents)
    {
        return Ok(Some(pair));
    }
    for entry in changed {
        let (made, found) = (content(&entry, &contents).map(<[u8]>::to_vec), short_content(&entry));
        let ChangedEntry { path, made: before, found: after, .. } = entry;
        let has_other_content = sha256(Some(&before)) != sha256(after.as_ref());
        listing.add(PendingEntry { path: path.clone(), before: Some(before), after });
        if has_other_content {
            listing.add_contents(&path, made.as_deref(), found.as_deref());
        }
    }
    let (from, to) = listing.into_texts().unwrap_or_default();
    Ok(Preview::texts(host, &entity.id, &from, &to).ok().map(|pair| pair.with_applied_label(&entity.id)))
}

/// Adds the path of the download to a list, if its file has changed.
fn add_download(
    entity: &ArchiveEntity,
    (store, record): (&Store, &ArchiveRecord),
    listing: &mut Listing,
) -> Result<(), ArchiveError> {
    let (Some(path), Some(recorded)) = (&record.path, &record.download) else { return Ok(()) };
    let found = store.trees.entry(&store.trees.root().place(Path::new(path)))?;
    let is_kept = match &entity.desired {
        Desired::Defined(archive, _) => archive.ensure == Ensure::Present && !archive.cleanup,
        Desired::Undefined(_) => false,
    };
    let is_known = match &found {
        Some(entry) => sha256(Some(entry)).is_some_and(|sha256| record.knows(sha256)),
        // It is not recorded whether the download existed at the end of the apply.
        None => !is_kept,
    };
    if !is_known {
        listing.add_download(path.into(), &recorded.sha256, found);
    }
    Ok(())
}

/// Returns the original contents of changed files from the archive, if they are short. If the archive is unavailable,
/// the list contains no lines of files.
fn contents(
    entity: &ArchiveEntity,
    host: &Host,
    (store, record): (&Store, &ArchiveRecord),
    changed: &[ChangedEntry],
) -> Contents {
    let is_changed = |entry: &&ChangedEntry| sha256(Some(&entry.made)) != sha256(entry.found.as_ref());
    let wanted = changed.iter().filter(is_changed).filter(|entry| is_short(&entry.made));
    let mut contents = Contents::new(wanted.filter_map(|entry| sha256(Some(&entry.made)).map(str::to_owned)));
    if let (Desired::Defined(archive, timeout), false) = (&entity.desired, contents.is_empty()) {
        let report = entity.report();
        let deployment = entity.deployment((host, store), archive, *timeout, &report);
        // Contents that were found before an error are valid.
        let _ = deployment.find_contents(record, &mut contents);
    }
    contents
}

/// Returns the two files for a path, if they show all differences.
fn pair(entity: &ArchiveEntity, host: &Host, entry: &ChangedEntry, contents: &Contents) -> Option<FilePair> {
    let (EntryKind::File { mode, .. }, made) = (&entry.made.kind, content(entry, contents)?) else { return None };
    as_text(made)?;
    match &entry.found {
        Some(_) => drop(as_text(&short_content(entry)?)?),
        // A file that cannot be read must not be shown as missing.
        None if entry.location.as_ref().is_some_and(|location| !matches!(location.stat(), Ok(None))) => return None,
        None => {}
    }
    let preview = Preview::new(host, entity.id.as_bytes()).ok()?;
    let copy = preview.from(Path::new("text"));
    Shown::File { content: made.to_vec(), mode: *mode }.write(&copy).ok()?;
    let there = entry.location.as_ref().map_or_else(|| host.below_root(&entry.path), holo_change::PathHandle::shown);
    Some(FilePair::new(copy, there).with_applied_label(&entity.id))
}

/// Returns the installed content, if it is known and differs from the current one.
fn content<'c>(entry: &ChangedEntry, contents: &'c Contents) -> Option<&'c [u8]> {
    let made = sha256(Some(&entry.made))?;
    contents.get(made).filter(|_| sha256(entry.found.as_ref()) != Some(made))
}

/// Returns the current content, if it is short.
fn short_content(entry: &ChangedEntry) -> Option<Vec<u8>> {
    entry.found.as_ref().filter(|found| is_short(found))?;
    let file = entry.location.as_ref()?.open_if_file().ok()??;
    let mut content = Vec::new();
    // The file may have grown in the meantime.
    file.take(MAX_SHOWN as u64 + 1).read_to_end(&mut content).ok()?;
    (content.len() <= MAX_SHOWN).then_some(content)
}

fn is_short(entry: &ManifestEntry) -> bool {
    matches!(entry.kind, EntryKind::File { size, .. } if size <= MAX_SHOWN as u64)
}

fn sha256(entry: Option<&ManifestEntry>) -> Option<&str> {
    match &entry?.kind {
        EntryKind::File { sha256, .. } => Some(sha256),
        _ => None,
    }
}

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
fn as_text(content: &[u8]) -> Option<&str> {
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
