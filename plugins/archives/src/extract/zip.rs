//! Extracting zip archives.

use super::error::{EntryError, ExtractError};
use super::staging::Staging;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use zip::ZipArchive;
use zip::read::ZipFile;

/// The file type bits of a Unix mode.
const TYPE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
/// The maximum length of a symlink's target.
const TARGET_LENGTH: u64 = 4096;

pub(super) fn read(file: &File, staging: &mut Staging<'_, '_>) -> Result<(), ExtractError> {
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(ExtractError::Zip)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| ExtractError::ZipEntry(index, error))?;
        let name = entry.name_raw().to_owned();
        if let Some(path) = staging.destination(&name)? {
            extract(&path, &name, &mut entry, staging).map_err(|error| error.in_entry(&name))?;
        }
    }
    Ok(())
}

fn extract(
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
