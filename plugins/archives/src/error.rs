//! Errors of work on an archive.

use crate::download::DownloadError;
use crate::extract::ExtractError;
use holo_change::Unmanageable;
use holo_change::error::{PathError, reason};
use holo_plugin::ForceTo;
use std::io;
use std::path::PathBuf;

/// A reason for not bringing an archive into its desired state.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    /// Changes of a user would be lost, and `--force` is not given.
    #[error("changes of a user would be lost")]
    NeedsForce(ForceTo),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Unmanageable(#[from] Unmanageable),
    #[error("{}", reason(.0))]
    Io(#[from] io::Error),
    #[error(transparent)]
    Download(#[from] DownloadError),
    #[error(transparent)]
    Extract(#[from] ExtractError),
    #[error("cannot extract {archive}: {problem}")]
    NotExtracted { archive: PathBuf, problem: Box<ArchiveError> },
    /// The owner or the group is not known, or the accounts cannot be read.
    #[error("{0}")]
    Account(String),
    /// The record of another archive cannot be read.
    #[error("{0}")]
    UnreadableRecord(String),
    #[error("{0} is not text")]
    NotText(PathBuf),
    #[error("{0} is not a manageable file")]
    NotManageable(PathBuf),
    #[error("{0} has several names")]
    SeveralNames(PathBuf),
    #[error("{0} was not created")]
    NotCreated(String),
    #[error("the archive brings this path itself")]
    ContainsItself,
    #[error("the server says that what is missing is unmodified")]
    MissingIsUnmodified,
    #[error("{path} is brought by both {first} and {second}{}", and_more(*.more))]
    BroughtByBoth {
        path: PathBuf,
        first: String,
        second: String,
        /// The number of other paths with the same problem.
        more: usize,
    },
    #[error("{0} is a directory")]
    IsDirectory(PathBuf),
    #[error("{0} is a directory that is not empty")]
    DirectoryNotEmpty(PathBuf),
    #[error("{path} is {obstacle}: what was there before cannot be put back")]
    BaseNotRestored { path: PathBuf, obstacle: &'static str },
    #[error("{0} has resource files, and would not be a file any more")]
    HasOverlay(PathBuf),
    /// After everything was done, something is not as desired.
    #[error("{}", .0.join("; "))]
    NotAsDesired(Vec<String>),
}

impl ArchiveError {
    /// Adds the archive that was to be extracted, except to a demand for force.
    pub(crate) fn extracting(self, archive: PathBuf) -> ArchiveError {
        match self {
            ArchiveError::NeedsForce(to) => ArchiveError::NeedsForce(to),
            problem => ArchiveError::NotExtracted { archive, problem: Box::new(problem) },
        }
    }
}

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(", and so are {more} more paths") }
}

/// A reason for not putting a version into place.
#[derive(Debug)]
pub(crate) enum InstallError {
    /// Changes of a user at these paths would be lost.
    LosesChanges(Vec<PathBuf>),
    Failed(ArchiveError),
}

impl<E> From<E> for InstallError
where
    ArchiveError: From<E>,
{
    fn from(error: E) -> Self {
        InstallError::Failed(error.into())
    }
}
