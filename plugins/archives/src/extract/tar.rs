//! Extracting tar archives.

use super::error::{EntryError, ExtractError};
use super::names;
use super::staging::Staging;
use std::io::{self, Read};
use std::path::Path;
use tar::EntryType;

/// The prefix of PAX headers with the map of a sparse file.
const SPARSE: &[u8] = b"GNU.sparse.";

pub(super) fn read(unpacked: impl Read, staging: &mut Staging<'_, '_>) -> Result<(), ExtractError> {
    let allowance = staging.allowance;
    let mut archive = tar::Archive::new(allowance.metered(unpacked));
    let mut entries = archive.entries().map_err(ExtractError::Unreadable)?;
    loop {
        allowance.begin_headers();
        let entry = entries.next();
        allowance.begin_content();
        let Some(entry) = entry else { break };
        let mut entry = entry.map_err(ExtractError::Unreadable)?;
        extract(&mut entry, staging)?;
        // The rest of the content would be counted as headers.
        io::copy(&mut entry, &mut io::sink()).map_err(ExtractError::Unreadable)?;
    }
    // A compressed tar that is truncated here, or damaged later, is incomplete.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(ExtractError::Unreadable)?;
    Ok(())
}

fn extract(entry: &mut tar::Entry<'_, impl Read>, staging: &mut Staging<'_, '_>) -> Result<(), ExtractError> {
    // The name and the map of a sparse file are in the headers.
    let sparse = sparse_name(entry).map_err(ExtractError::Unreadable)?;
    let kind = entry.header().entry_type();
    if matches!(kind, EntryType::XGlobalHeader) || kind.as_byte() == b'V' {
        // Global attributes and volume labels are not entries.
        return Ok(());
    }
    let name = sparse.clone().unwrap_or_else(|| entry.path_bytes().into_owned());
    let Some(path) = staging.destination(&name)? else { return Ok(()) };
    if sparse.is_some() {
        return Err(EntryError::Sparse.in_entry(&name));
    }
    extract_to(&path, kind, &name, entry, staging).map_err(|error| error.in_entry(&name))
}

fn extract_to(
    path: &Path,
    kind: EntryType,
    name: &[u8],
    entry: &mut tar::Entry<'_, impl Read>,
    staging: &mut Staging<'_, '_>,
) -> Result<(), EntryError> {
    let mode = entry.header().mode()?;
    match kind {
        EntryType::Directory => staging.directory(path, mode),
        // Before types were introduced, a trailing slash indicated a directory.
        EntryType::Regular if name.ends_with(b"/") => staging.directory(path, mode),
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            let (size, modified) = (Some(entry.size()), entry.header().mtime().ok());
            staging.file(path, mode, size, modified, entry)
        }
        EntryType::Symlink => {
            let target = entry.link_name_bytes().map(std::borrow::Cow::into_owned).unwrap_or_default();
            staging.symlink(path, &target)
        }
        EntryType::Link => {
            let target = entry.link_name_bytes().map(std::borrow::Cow::into_owned).unwrap_or_default();
            match names::destination(&target, staging.extraction.strip).map_err(EntryError::HardLinkName)? {
                Some(target) => staging.hard_link(path, &target),
                None => Err(EntryError::HardLinkToStripped),
            }
        }
        EntryType::Char | EntryType::Block | EntryType::Fifo => Err(EntryError::Special),
        other => Err(EntryError::UnknownType(char::from(other.as_byte()))),
    }
}

/// Returns the name of an entry if it is a sparse file in PAX format.
fn sparse_name(entry: &mut tar::Entry<'_, impl Read>) -> io::Result<Option<Vec<u8>>> {
    let own_name = entry.path_bytes().into_owned();
    let Some(extensions) = entry.pax_extensions()? else { return Ok(None) };
    let mut found = None;
    for extension in extensions {
        let extension = extension?;
        if extension.key_bytes() == b"GNU.sparse.name" {
            found = Some(extension.value_bytes().to_vec());
        } else if extension.key_bytes().starts_with(SPARSE) {
            found.get_or_insert_with(|| own_name.clone());
        }
    }
    Ok(found)
}
