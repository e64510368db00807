//! Errors of extractions.

use super::names::NameError;
use bstr::{BString, ByteSlice};
use holo_change::error::{PathError, reason};
use std::io;
use zip::result::ZipError;

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
    pub(super) fn in_entry(self, name: &[u8]) -> ExtractError {
        ExtractError::Entry { name: name.into(), error: self }
    }
}
