//! Reads zips.

use super::{Staging, at};
use holo_change::error::reason;
use std::fs::File;
use std::io::{BufReader, Read};
use zip::ZipArchive;

/// The bits of a Unix mode that say of which type a file is.
const TYPE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
/// How long the target of a symlink may be.
const TARGET_LENGTH: u64 = 4096;

pub(super) fn read(file: &File, staging: &mut Staging<'_, '_>) -> Result<(), String> {
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| format!("cannot read it: {error}"))?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| format!("cannot read entry {index}: {error}"))?;
        let name = entry.name_raw().to_owned();
        let Some(path) = staging.destination(&name)? else { continue };
        let mode = entry.unix_mode();
        let is_directory = name.ends_with(b"/");
        match mode.map_or(0, |mode| mode & TYPE) {
            0 | DIRECTORY if is_directory => staging.directory(path, mode.unwrap_or(0o755))?,
            DIRECTORY => staging.directory(path, mode.unwrap_or(0o755))?,
            0 | REGULAR if !is_directory => {
                let size = entry.size();
                staging.file(path, mode.unwrap_or(0o644), size, None, &mut entry)?;
            }
            SYMLINK => {
                let mut target = Vec::new();
                let read = (&mut entry).take(TARGET_LENGTH).read_to_end(&mut target);
                read.map_err(|error| at(&name, reason(&error)))?;
                staging.symlink(path, &target)?;
            }
            _ => return Err(at(&name, "it is neither a file, a directory nor a symlink")),
        }
    }
    Ok(())
}
