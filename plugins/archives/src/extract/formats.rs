//! Readers of the archive formats: tar and zip archives, and single compressed files.

use super::staging::Staging;
use super::{EntryError, ExtractError, names};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tar::EntryType;
use zip::ZipArchive;
use zip::read::ZipFile;

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

/// The file type bits of a Unix mode.
const TYPE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
/// The maximum length of a symlink's target.
const TARGET_LENGTH: u64 = 4096;

pub(super) fn read_zip(file: &File, staging: &mut Staging<'_, '_>) -> Result<(), ExtractError> {
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(ExtractError::Zip)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| ExtractError::ZipEntry(index, error))?;
        let name = entry.name_raw().to_owned();
        if let Some(path) = staging.destination(&name)? {
            extract_zip(&path, &name, &mut entry, staging).map_err(|error| error.in_entry(&name))?;
        }
    }
    Ok(())
}

fn extract_zip(
    path: &Path,
    name: &[u8],
    entry: &mut ZipFile<'_, impl Read>,
    staging: &mut Staging<'_, '_>,
) -> Result<(), EntryError> {
    let mode = entry.unix_mode();
    let is_directory = name.ends_with(b"/");
    match mode.map_or(0, |mode| mode & TYPE) {
        0 | DIRECTORY if is_directory => staging.directory(path, mode.unwrap_or(0o755)),
        DIRECTORY => staging.directory(path, mode.unwrap_or(0o755)),
        0 | REGULAR if !is_directory => {
            let size = Some(entry.size());
            staging.file(path, mode.unwrap_or(0o644), size, None, entry)
        }
        SYMLINK => {
            let mut target = Vec::new();
            entry.take(TARGET_LENGTH).read_to_end(&mut target)?;
            staging.symlink(path, &target)
        }
        _ => Err(EntryError::UnknownZipType),
    }
}

/// The suffixes that are removed from the name of a compressed file.
const ENDINGS: [&str; 4] = ["gz", "xz", "zst", "bz2"];

/// Returns the file name for a download with this path; `None` if its suffix is not that of a compressed file.
pub(crate) fn name(download: &Path) -> Option<PathBuf> {
    let is_ending = |ending: &str| ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known));
    download.extension()?.to_str().filter(|ending| is_ending(ending))?;
    let stem = Path::new(download.file_stem()?);
    // A file that is named like a tar, but is none, is damaged.
    let is_tar = stem.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("tar"));
    (!is_tar).then(|| stem.to_owned())
}

pub(super) fn read_single(unpacked: impl Read, staging: &mut Staging<'_, '_>) -> Result<(), ExtractError> {
    let Some(path) = name(staging.extraction.download) else { return Err(ExtractError::UnnamedFile) };
    let in_entry = |error: EntryError| error.in_entry(path.as_os_str().as_bytes());
    if !staging.extraction.selection.has(&path).map_err(|error| in_entry(error.into()))? {
        return Ok(());
    }
    let mut content = staging.allowance.metered(unpacked);
    let mode = staging.extraction.mode;
    staging.file(&path, mode, None, None, &mut content).map_err(in_entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_loses_its_ending() {
        let name = |path: &str| name(Path::new(path));
        for (path, expected) in [("/srv/tool.gz", "tool"), ("/srv/a.b.XZ", "a.b"), ("/x.zst", "x"), ("/x.bz2", "x")] {
            assert_eq!(name(path), Some(expected.into()), "{path}");
        }
        for path in ["/srv/tool", "/srv/a.tar.gz", "/srv/a.tgz", "/srv/.gz", "/srv/a.zip"] {
            assert_eq!(name(path), None, "{path}");
        }
    }
}
