//! Errors of archive operations.

use crate::extract::ExtractError;
use crate::signature::SignatureError;
use holo_change::Unmanageable;
use holo_change::error::{PathError, reason};
use holo_change::tracked::Unmanaged;
use holo_change::tree_store::TreeError;
use holo_download::{Address, DownloadError};
use holo_plugin::{AccountError, ForceTo};
use std::io;
use std::path::PathBuf;

/// An archive could not be brought into its desired state.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    /// Manual changes would be lost, and `--force` was not given.
    #[error("changes of a user would be lost")]
    NeedsForce(ForceTo),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Unmanageable(#[from] Unmanageable),
    #[error(transparent)]
    Unmanaged(#[from] Unmanaged),
    /// The path is claimed by another entity, or is below a claimed path.
    #[error("{path} is made by {own}, and ruled by {other}; one of both has to go")]
    Ruled { path: String, own: String, other: String },
    #[error("{}", reason(.0))]
    Io(#[from] io::Error),
    #[error(transparent)]
    Download(#[from] DownloadError),
    #[error(transparent)]
    Extract(#[from] ExtractError),
    #[error("cannot extract {archive}: {problem}")]
    NotExtracted { archive: PathBuf, problem: Box<ArchiveError> },
    /// The owner or group is unknown, or the accounts cannot be read.
    #[error("{0}")]
    Account(AccountError),
    /// The record of another archive cannot be read.
    #[error("{0}")]
    UnreadableRecord(String),
    #[error("{0} is not text")]
    NotText(PathBuf),
    #[error("{0} is not a manageable file")]
    NotManageable(PathBuf),
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error("{0} has several names")]
    SeveralNames(PathBuf),
    #[error("{0} was not created")]
    NotCreated(String),
    #[error(transparent)]
    Signature(#[from] SignatureError),
    #[error("{address}: {problem}")]
    NotAuthentic { address: String, problem: Box<ArchiveError> },
    #[error("{list} has no checksum of {name}")]
    NotListed { name: String, list: String },
    #[error("{list}: lines {first} and {second} have different checksums of {name}; state the right one in checksum")]
    Contradictory { list: String, first: usize, second: usize, name: String },
    #[error("the archive brings this path itself")]
    ContainsItself,
    #[error("the server reports a missing file as unmodified")]
    MissingIsUnmodified,
    /// The state is not the desired one after all operations.
    #[error("{}", .0.join("; "))]
    NotAsDesired(Vec<String>),
}

impl ArchiveError {
    /// Adds the address to an error of a signature.
    pub(crate) fn of(self, address: &Address) -> ArchiveError {
        match self {
            problem @ ArchiveError::Signature(_) => {
                ArchiveError::NotAuthentic { address: address.to_string(), problem: Box::new(problem) }
            }
            other => other,
        }
    }

    /// Adds the path of the archive, except for `NeedsForce`.
    pub(crate) fn extracting(self, archive: PathBuf) -> ArchiveError {
        match self {
            ArchiveError::NeedsForce(to) => ArchiveError::NeedsForce(to),
            problem => ArchiveError::NotExtracted { archive, problem: Box::new(problem) },
        }
    }
}
