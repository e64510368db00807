//! Why a bundle cannot be built, opened or installed.

use super::manifest::{HoloVersion, Version};
use crate::names::Label;
use crate::signing::SigningError;
use holo_change::PathError;
use holo_change::tree_store::TreeError;
use holo_definitions::DocumentError;
use holo_process::words::reason;
use std::io;
use std::path::{Path, PathBuf};

/// A bundle cannot be built, opened or installed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BundleError {
    /// A file cannot be read.
    #[error("{}: {}", path.display(), reason(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {}", path.display(), reason(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The description is invalid.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The name or the version is not known.
    #[error("{}: {key} is missing; write it there, or use --{key}", path.display())]
    Missing {
        /// The description.
        path: PathBuf,
        /// The key.
        key: &'static str,
    },
    /// Files cannot be part of a bundle: one line for each.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    /// There are no files.
    #[error("{}: there are no files for a bundle, such as usr/share/holo/files/web.toml", .0.display())]
    Empty(PathBuf),
    /// There are too many bytes.
    #[error("{}: more than {limit} bytes, the limit of a bundle", path.display())]
    TooLarge {
        /// The file or directory.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// A file is not the same as before.
    #[error("{}: it was changed while it was read; build the bundle again", .0.display())]
    Changed(PathBuf),
    /// The archive is not what its manifest says.
    #[error("{}: this is not a bundle: {problem}", path.display())]
    Invalid {
        /// The archive.
        path: PathBuf,
        /// The reason.
        problem: String,
    },
    /// The archive is not the one that was installed.
    #[error("{}: it is damaged; install the bundle again", .0.display())]
    Damaged(PathBuf),
    /// There is no signature.
    #[error("{}: it is not signed: there is no {}.sig; sign it with holo-fleet bundle sign", .0.display(), .0.display())]
    Unsigned(PathBuf),
    /// The signature is not accepted.
    #[error("{}: {reason}", file.display())]
    Signature {
        /// The bundle.
        file: PathBuf,
        /// The reason.
        reason: SigningError,
    },
    /// This version of holo is too old.
    #[error("{name} {version} needs holo {needed} or newer, and this is {own}; upgrade holo first")]
    NeedsNewer {
        /// The bundle.
        name: Label,
        /// Its version.
        version: Version,
        /// The version that it needs.
        needed: HoloVersion,
        /// Ours.
        own: HoloVersion,
    },
    /// Files of others are at paths of the bundle.
    #[error("{} and not from a bundle; move what is there away, or leave it out of the bundle", exist(.0))]
    Foreign(Vec<PathBuf>),
    /// Files of the installed bundle were changed.
    #[error("{} changed since the bundle was installed; keep a copy of the changes, then remove the file or put it back as it was", were(.0))]
    Edited(Vec<PathBuf>),
    /// A path cannot be changed.
    #[error(transparent)]
    Tree(TreeError),
    /// A file of ours cannot be used.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The record of what is installed is invalid.
    #[error("{}: {problem}; remove it to forget which bundle is installed", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The reason.
        problem: String,
    },
    /// There is nothing to go back to.
    #[error("no previous bundle is kept on this host")]
    NoPrevious,
}

impl From<TreeError> for BundleError {
    fn from(error: TreeError) -> BundleError {
        match error {
            TreeError::LosesChanges(paths) => {
                BundleError::Edited(paths.iter().map(|path| Path::new("/").join(path)).collect())
            }
            TreeError::Path(error) => BundleError::Path(error),
            other => BundleError::Tree(other),
        }
    }
}

impl BundleError {
    pub(super) fn reading(path: &Path) -> impl Fn(io::Error) -> BundleError {
        move |source| BundleError::Read { path: path.to_owned(), source }
    }
}

/// The number of paths that an error names.
const NAMED: usize = 10;

fn listed(paths: &[PathBuf]) -> String {
    let named: Vec<String> = paths.iter().take(NAMED).map(|path| path.display().to_string()).collect();
    let more = paths.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    named.join(", ") + &more
}

fn exist(paths: &[PathBuf]) -> String {
    listed(paths) + if paths.len() == 1 { " exists already" } else { " exist already" }
}

fn were(paths: &[PathBuf]) -> String {
    listed(paths) + if paths.len() == 1 { " was" } else { " were" }
}
