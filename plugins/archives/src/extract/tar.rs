//! Reads tars.

use super::{Staging, at, entry};
use holo_change::error::reason;
use std::io::{self, Read};
use tar::EntryType;

pub(super) fn read(unpacked: impl Read, staging: &mut Staging<'_, '_>) -> Result<(), String> {
    let allowance = staging.allowance;
    let broken = |error: io::Error| format!("cannot read it: {}", reason(&error));
    let mut archive = tar::Archive::new(allowance.metered(unpacked));
    let mut entries = archive.entries().map_err(broken)?;
    loop {
        allowance.headers();
        let entry = entries.next();
        allowance.content();
        let Some(entry) = entry else { break };
        let mut entry = entry.map_err(broken)?;
        take(&mut entry, staging)?;
        // What is not read here would be taken for headers.
        io::copy(&mut entry, &mut io::sink()).map_err(broken)?;
    }
    // A compressed tar that is cut off right here, or damaged after it, is not the whole archive.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(broken)?;
    Ok(())
}

fn take(entry: &mut tar::Entry<'_, impl Read>, staging: &mut Staging<'_, '_>) -> Result<(), String> {
    if let Some(name) = sparse_name(entry).map_err(|error| format!("cannot read it: {}", reason(&error)))? {
        // Its name and its content are in the headers and in a map that stands before the content.
        let words = "it is a sparse file in PAX format, which is not supported; tar --format=gnu makes another";
        return Err(at(&name, words));
    }
    let name = entry.path_bytes().into_owned();
    let failed = |error: io::Error| at(&name, reason(&error));
    let kind = entry.header().entry_type();
    if matches!(kind, EntryType::XGlobalHeader) || kind.as_byte() == b'V' {
        // What is said of all entries, and the label of the volume: neither is an entry.
        return Ok(());
    }
    let Some(path) = staging.destination(&name)? else { return Ok(()) };
    let mode = entry.header().mode().map_err(failed)?;
    match kind {
        EntryType::Directory => staging.directory(path, mode),
        // Before there were types, a slash at the end made a directory.
        EntryType::Regular if name.ends_with(b"/") => staging.directory(path, mode),
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            let (size, modified) = (entry.size(), entry.header().mtime().ok());
            staging.file(path, mode, size, modified, entry)
        }
        EntryType::Symlink => {
            let target = entry.link_name_bytes().map(std::borrow::Cow::into_owned).unwrap_or_default();
            staging.symlink(path, &target)
        }
        EntryType::Link => {
            let target = entry.link_name_bytes().map(std::borrow::Cow::into_owned).unwrap_or_default();
            let inside = entry::destination(&target, staging.extraction.strip);
            match inside.map_err(|problem| at(&name, format!("it is a hard link, and of its target {problem}")))? {
                Some(target) => staging.hard_link(path, &target),
                None => Err(at(&name, "it is a hard link to what is not extracted")),
            }
        }
        EntryType::Char | EntryType::Block | EntryType::Fifo => Err(at(&name, "it is a device or a FIFO")),
        other => Err(at(&name, format!("it is of the unknown type {:?}", char::from(other.as_byte())))),
    }
}

/// What PAX headers with a map of a sparse file begin with.
const SPARSE: &[u8] = b"GNU.sparse.";

/// The name of an entry if it is a sparse file as PAX headers have it.
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
