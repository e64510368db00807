//! The differences between the download and its extracted files, and their current state.

use super::{ArchiveEntity, Desired};
use crate::definition::Ensure;
use crate::error::ArchiveError;
use crate::extract::{Contents, MAX_SHOWN};
use crate::listing::{Listing, as_text};
use crate::store::{ArchiveRecord, Store};
use holo_change::manifest::{EntryKind, ManifestEntry};
use holo_change::tree_store::{ChangedEntry, PendingEntry};
use holo_plugin::{Entity, FilePair, Host, Preview, Shown};
use std::io::Read;
use std::path::Path;

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
pub(crate) fn add_download(
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
    Some(FilePair::new(copy, there).with_applied_label(&entity.id).with_modes())
}

/// Returns the installed content, if it is known and differs from the current one.
pub(crate) fn content<'c>(entry: &ChangedEntry, contents: &'c Contents) -> Option<&'c [u8]> {
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

pub(crate) fn sha256(entry: Option<&ManifestEntry>) -> Option<&str> {
    match &entry?.kind {
        EntryKind::File { sha256, .. } => Some(sha256),
        _ => None,
    }
}
