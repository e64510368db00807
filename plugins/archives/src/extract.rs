//! Extraction of archives into a staging directory. Nothing that is in use is touched.

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
use holo_change::table::Table;
use holo_change::tree_store::StagedTree;
use holo_download::{BUFFER_SIZE, ChecksumCache};
use holo_plugin::{Meter, Output, Silence};
use staging::{Progress, Staging};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

pub(crate) use contents::{Contents, MAX_SHOWN};
pub(crate) use error::ExtractError;
pub(crate) use selection::Selection;

/// The options of an extraction.
#[derive(Clone, Copy)]
pub(crate) struct Extraction<'a> {
    /// The path that the tree is going to have, as symlinks may name it.
    pub(crate) top: &'a Path,
    pub(crate) strip: u32,
    pub(crate) selection: &'a Selection<'a>,
    /// The path of the download, and the mode of a file that is compressed by itself.
    pub(crate) download: &'a Path,
    pub(crate) mode: u32,
    pub(crate) limits: Limits,
    pub(crate) owner: Ownership,
    /// Takes note of the digests of files.
    pub(crate) checksums: &'a ChecksumCache,
}

/// Extracts everything into an empty directory, and lists it. Nothing is synced.
///
/// # Errors
/// If something is wrong with the archive or the disk.
pub(crate) fn extract(
    file: &mut File,
    into: &mut StagedTree,
    extraction: Extraction<'_>,
    output: &mut Output<'_>,
) -> Result<(), ExtractError> {
    let target = Target { tree: Some(Arc::clone(into.tree())), entries: &mut into.entries, contents: None };
    read(file, target, extraction, output)
}

/// Lists the entries that extracting everything would make. Nothing is written beside the list.
///
/// # Errors
/// If something is wrong with the archive.
pub(crate) fn list(
    file: &mut File,
    entries: &mut Table<ManifestEntry>,
    extraction: Extraction<'_>,
) -> Result<(), ExtractError> {
    read(file, Target { tree: None, entries, contents: None }, extraction, &mut Output::new(&mut Silence))
}

/// Finds contents of files, as far as they are small. Nothing is written beside a list, which is for us alone.
///
/// # Errors
/// If something is wrong with the archive. What was found before that is right.
pub(crate) fn find(
    file: &mut File,
    contents: &mut Contents,
    entries: &mut Table<ManifestEntry>,
    extraction: Extraction<'_>,
) -> Result<(), ExtractError> {
    let target = Target { tree: None, entries, contents: Some(contents) };
    read(file, target, extraction, &mut Output::new(&mut Silence))
}

/// The destinations of the entries of an archive.
struct Target<'a> {
    /// The staging directory itself, unless only the entries are to be known.
    tree: Option<Arc<Tree>>,
    entries: &'a mut Table<ManifestEntry>,
    /// The contents that are to be known, too.
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
