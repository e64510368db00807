//! Extracting archives into a staging directory, or only the contents of small files, to be displayed. Files in use are not modified.

pub(crate) mod formats;
mod names;
mod staging;

use crate::definition::Archive;
use crate::format::Format;
use crate::limits::{Allowance, Limits};
use bstr::{BString, ByteSlice};
use holo_change::Tree;
use holo_change::error::{PathError, reason};
use holo_change::manifest::{ManifestEntry, Ownership};
use holo_change::tree_store::StagedTree;
use holo_download::{BUFFER_SIZE, ChecksumCache};
use holo_plugin::definitions::Globs;
use holo_plugin::{Meter, Output, Silence};
use names::NameError;
use staging::{Progress, Staging};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zip::result::ZipError;

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
            formats::read(compression.reader(file).map_err(ExtractError::Unreadable)?, &mut staging)?;
        }
        Some(Format::Zip) => formats::read_zip(file, &mut staging)?,
        Some(Format::Single(compression)) => {
            formats::read_single(compression.reader(file).map_err(ExtractError::Unreadable)?, &mut staging)?;
        }
    }
    staging.finish()
}

/// An archive could not be extracted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExtractError {
    #[error("it is none of tar, tar.gz, tar.xz, tar.zst, tar.bz2, zip, gz, xz, zst, bz2")]
    UnknownFormat,
    #[error(
        "it is a compressed file and no archive, and its path does not end in .gz, .xz, .zst or .bz2, which would name it"
    )]
    UnnamedFile,
    #[error("it contains no file that include matches")]
    NothingIncluded,
    #[error("cannot read it: {}", reason(.0))]
    Unreadable(io::Error),
    #[error("cannot read it: {0}")]
    Zip(ZipError),
    #[error("cannot read entry {0}: {1}")]
    ZipEntry(usize, ZipError),
    #[error("{}", reason(.0))]
    TooMany(io::Error),
    /// The name may contain any bytes, so it is displayed as a string literal.
    #[error("{:?}: {error}", .name.as_bstr())]
    Entry { name: BString, error: EntryError },
}

/// The error of an entry.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EntryError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("{}", reason(.0))]
    Io(#[from] io::Error),
    #[error("{}", reason(&.0.error))]
    Path(#[from] PathError),
    #[error("its parent is not a directory")]
    ParentNotDirectory,
    #[error("it is a directory too")]
    AlsoDirectory,
    #[error("it ends after {actual} of {size} bytes")]
    Truncated { actual: u64, size: u64 },
    #[error("it is a symlink without a target")]
    EmptySymlink,
    #[error("it is a symlink that leads out, to {:?}", .0.as_bstr())]
    LeadsOut(BString),
    #[error("it is a hard link to no file of the archive")]
    HardLinkToMissing,
    #[error("it is a hard link to a file that is not extracted")]
    HardLinkToStripped,
    #[error("it is a hard link, and of its target {0}")]
    HardLinkName(NameError),
    #[error("it is a sparse file in PAX format, which is not supported; tar --format=gnu makes another")]
    Sparse,
    #[error("it is a device or a FIFO")]
    Special,
    #[error("it is of the unknown type {0:?}")]
    UnknownType(char),
    #[error("it is neither a file, a directory nor a symlink")]
    UnknownZipType,
}

impl EntryError {
    /// Adds the name of the entry.
    fn in_entry(self, name: &[u8]) -> ExtractError {
        ExtractError::Entry { name: name.into(), error: self }
    }
}

/// Returns true if there is a user's file at a path.
type IsUsers<'a> = &'a dyn Fn(&Path) -> Result<bool, PathError>;

/// The selection of entries.
pub(crate) struct Selection<'a> {
    include: Globs,
    exclude: Globs,
    keep: Globs,
    is_users: IsUsers<'a>,
    /// True if any entry is included.
    has_any: Cell<bool>,
}

impl<'a> Selection<'a> {
    /// Creates the selection for a definition.
    pub(crate) fn new(archive: &Archive, is_users: IsUsers<'a>) -> Selection<'a> {
        // The patterns were validated.
        let globs = |texts: &[String]| Globs::new(texts).unwrap_or_default();
        let (include, exclude) = (globs(&archive.include), globs(&archive.exclude));
        Selection { include, exclude, keep: globs(&archive.keep), is_users, has_any: Cell::new(false) }
    }

    /// Returns true if the entry with this path is extracted.
    ///
    /// # Errors
    /// If it depends on an existing file that cannot be read.
    fn has(&self, path: &Path) -> Result<bool, PathError> {
        if !self.include.is_empty() && !self.include.cover(path) {
            return Ok(false);
        }
        self.has_any.set(true);
        Ok(!self.exclude.cover(path) && (!self.keep.cover(path) || !(self.is_users)(path)?))
    }

    /// Returns true if there are include patterns, but no entry matches them.
    fn includes_nothing(&self) -> bool {
        !self.include.is_empty() && !self.has_any.get()
    }
}

/// The maximum length of a displayed content.
pub(crate) const MAX_SHOWN: usize = 64 << 10;
/// The maximum total length of all contents.
const MAX_TOGETHER: usize = 4 << 20;

/// Contents by their SHA-256. Contents that are too long are dropped while they are read, so that no file is in memory
/// completely.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    wanted: BTreeMap<String, Option<Vec<u8>>>,
    length: usize,
}

impl Contents {
    /// Creates an empty collection for contents with these digests.
    pub(crate) fn new(wanted: impl IntoIterator<Item = String>) -> Contents {
        Contents { wanted: wanted.into_iter().map(|sha256| (sha256, None)).collect(), length: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Returns the content with this digest, if it was found.
    pub(crate) fn get(&self, sha256: &str) -> Option<&[u8]> {
        self.wanted.get(sha256)?.as_deref()
    }

    /// Stores a content if it is wanted.
    fn offer(&mut self, sha256: &str, content: Vec<u8>) {
        if let Some(wanted @ None) = self.wanted.get_mut(sha256)
            && self.length + content.len() <= MAX_TOGETHER
        {
            self.length += content.len();
            *wanted = Some(content);
        }
    }
}

/// A copy of a content that is being read, until it is too long.
struct ShortCopy(Option<Vec<u8>>);

impl ShortCopy {
    /// Creates a copy; disabled unless it is wanted.
    fn new(is_wanted: bool) -> ShortCopy {
        ShortCopy(is_wanted.then(Vec::new))
    }

    fn add(&mut self, bytes: &[u8]) {
        let has_room = |copy: &Vec<u8>| copy.len() + bytes.len() <= MAX_SHOWN;
        self.0 = self.0.take().filter(has_room).map(|mut copy| {
            copy.extend_from_slice(bytes);
            copy
        });
    }

    /// Returns the complete content, if it is short.
    fn into_content(self) -> Option<Vec<u8>> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn no_archive_makes_the_extraction_panic() {
        let definition: Archive =
            toml::from_str("path = '/srv/x.gz'\nurl = 'http://x/'\nextract_to = '/opt/x'").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let state = Tree::open(folder.path()).unwrap();
        let checksums = ChecksumCache::open(state.place(Path::new("known/x")), true);
        let fuzzed = holo_testing::fuzz::Target::new(env!("CARGO_MANIFEST_DIR"), "archives").inputs(1000);
        fuzzed.run(|input| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(input).unwrap();
            let extraction = Extraction {
                top: Path::new("/opt/x"),
                strip: 0,
                selection: &Selection::new(&definition, &|_| Ok(false)),
                download: Path::new("/srv/x.gz"),
                mode: 0o644,
                limits: Limits::default(),
                owner: Ownership::default(),
                checksums: &checksums,
            };
            drop(list(&mut file, extraction));
        });
    }

    #[test]
    fn a_copy_ends_where_a_content_is_too_long() {
        let mut copy = ShortCopy::new(true);
        copy.add(&[b'x'; MAX_SHOWN]);
        copy.add(b"");
        assert_eq!(copy.into_content().map(|content| content.len()), Some(MAX_SHOWN));
        let mut copy = ShortCopy::new(true);
        copy.add(&[b'x'; MAX_SHOWN]);
        copy.add(b"y");
        copy.add(b"z");
        assert_eq!(copy.into_content(), None);
        assert_eq!(ShortCopy::new(false).into_content(), None);
    }

    #[test]
    fn what_is_wanted_is_kept_once_and_not_without_end() {
        let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let mut contents = Contents::new(names.clone());
        contents.offer("other", vec![0]);
        contents.offer("0", vec![1]);
        contents.offer("0", vec![2]);
        assert_eq!((contents.get("other"), contents.get("0")), (None, Some(&[1][..])));
        names.iter().for_each(|name| contents.offer(name, vec![0; MAX_SHOWN]));
        assert_eq!(names.iter().filter(|name| contents.get(name).is_some()).count(), 64);
    }
}
