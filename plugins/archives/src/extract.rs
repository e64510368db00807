//! Extracting archives into a staging directory. Files in use are not modified.

mod contents;
mod error;
mod names;
mod selection;
pub(crate) mod single;
mod staging;
mod tar;
mod zip;

use crate::format::Format;
use crate::limits::{Allowance, Limits};
use holo_change::Tree;
use holo_change::manifest::{ManifestEntry, Ownership};
use holo_change::tree_store::StagedTree;
use holo_download::{BUFFER_SIZE, ChecksumCache};
use holo_plugin::{Meter, Output, Silence};
use staging::{Progress, Staging};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use contents::{Contents, MAX_SHOWN};
pub(crate) use error::ExtractError;
pub(crate) use selection::Selection;

/// The options of an extraction.
#[derive(Clone, Copy)]
pub(crate) struct Extraction<'a> {
    /// The final path of the tree, which absolute symlinks may refer to.
    pub(crate) top: &'a Path,
    pub(crate) strip: u32,
    pub(crate) selection: &'a Selection<'a>,
    /// The path of the download, and the mode for a single compressed file.
    pub(crate) download: &'a Path,
    pub(crate) mode: u32,
    pub(crate) limits: Limits,
    pub(crate) owner: Ownership,
    /// The cache that stores the digests of files.
    pub(crate) checksums: &'a ChecksumCache,
}

/// Extracts an archive into an empty directory, and lists its entries. The files are not synced.
///
/// # Errors
/// If the archive is invalid, or a file cannot be written.
pub(crate) fn extract(
    file: &mut File,
    into: &mut StagedTree,
    extraction: Extraction<'_>,
    output: &mut Output<'_>,
) -> Result<(), ExtractError> {
    let target = Target { tree: Some(Arc::clone(into.tree())), entries: &mut into.entries, contents: None };
    read(file, target, extraction, output)
}

/// Returns the entries that an extraction would create.
///
/// # Errors
/// If the archive is invalid.
pub(crate) fn list(
    file: &mut File,
    extraction: Extraction<'_>,
) -> Result<BTreeMap<PathBuf, ManifestEntry>, ExtractError> {
    let mut entries = BTreeMap::new();
    let target = Target { tree: None, entries: &mut entries, contents: None };
    read(file, target, extraction, &mut Output::new(&mut Silence))?;
    Ok(entries)
}

/// Finds the contents of files, if they are small.
///
/// # Errors
/// If the archive is invalid. Contents that were found before the error are valid.
pub(crate) fn find(file: &mut File, contents: &mut Contents, extraction: Extraction<'_>) -> Result<(), ExtractError> {
    let target = Target { tree: None, entries: &mut BTreeMap::new(), contents: Some(contents) };
    read(file, target, extraction, &mut Output::new(&mut Silence))
}

/// The destinations of the entries of an archive.
struct Target<'a> {
    /// The staging directory; `None` if only the entries are needed.
    tree: Option<Arc<Tree>>,
    entries: &'a mut BTreeMap<PathBuf, ManifestEntry>,
    /// The contents to be found, if any.
    contents: Option<&'a mut Contents>,
}

fn read(
    file: &mut File,
    target: Target<'_>,
    extraction: Extraction<'_>,
    output: &mut Output<'_>,
) -> Result<(), ExtractError> {
    let size = file.metadata().map_err(ExtractError::Unreadable)?.len();
    let allowance = Allowance::new(extraction.limits, size);
    let progress = Progress {
        file: file.try_clone().map_err(ExtractError::Unreadable)?,
        meter: Meter::of_bytes("extracting", Some(size)),
        output,
    };
    let buffer = vec![0; BUFFER_SIZE];
    let mut staging = Staging { target, extraction, allowance: &allowance, progress, buffer, last_directory: None };
    match Format::detect(file).map_err(ExtractError::Unreadable)? {
        None => return Err(ExtractError::UnknownFormat),
        Some(Format::Tar(compression)) => {
            tar::read(compression.reader(file).map_err(ExtractError::Unreadable)?, &mut staging)?;
        }
        Some(Format::Zip) => zip::read(file, &mut staging)?,
        Some(Format::Single(compression)) => {
            single::read(compression.reader(file).map_err(ExtractError::Unreadable)?, &mut staging)?;
        }
    }
    staging.finish()
}
