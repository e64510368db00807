//! The record of an archive.

use holo_change::error::PathError;
use holo_change::tree_store::{Drift, OwnedTree, TreeOwner, TreeStore};
use holo_download::Validators;
use holo_plugin::definitions::Globs;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The record of an archive, which is on disk before the first change. The bases lie beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArchiveRecord {
    /// The download that is, or was, at the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) download: Option<DownloadRecord>,
    /// The download that is about to be moved to the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) incoming: Option<DownloadRecord>,
    /// The canonical path of the download.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    /// The canonical paths of the directories that something was extracted to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) trees: Vec<String>,
    /// The patterns for files that a user may change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) keep: Vec<String>,
    /// True if there may be directories that are of no use any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) untidy: bool,
}

/// The record of a download.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DownloadRecord {
    pub(crate) sha256: String,
    /// The checksum of the definition that it was found to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) checksum: Option<String>,
    /// The SHA-256 of the key by which its signature was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signed_by: Option<String>,
    /// The SHA-256 of the URL, which may hold secrets.
    pub(crate) source: String,
    #[serde(default, skip_serializing_if = "Validators::is_empty")]
    pub(crate) validators: Validators,
}

impl ArchiveRecord {
    /// Returns true if a file with this SHA-256 is one of the downloads.
    pub(crate) fn knows(&self, sha256: &str) -> bool {
        self.downloads().any(|download| download.sha256 == sha256)
    }

    /// Returns the downloads that may be at the path, the latest first.
    pub(crate) fn downloads(&self) -> impl Iterator<Item = &DownloadRecord> {
        self.incoming.iter().chain(&self.download)
    }

    /// Opens a directory that it was extracted to. Changed files that a user may change are the user's.
    pub(crate) fn open_tree(&self, store: &TreeStore, id: &str, directory: &Path) -> Result<OwnedTree, PathError> {
        let mut extracted = OwnedTree::open(store, id, directory)?;
        if !self.keep.is_empty() {
            let mut drift = extracted.drift()?;
            self.leave_kept(&mut extracted, &mut drift)?;
        }
        Ok(extracted)
    }

    /// Takes changed files that a user may change off the manifest.
    pub(crate) fn leave_kept(&self, extracted: &mut OwnedTree, drift: &mut Drift) -> Result<(), PathError> {
        // They were checked with the definition.
        let keep = Globs::new(&self.keep).unwrap_or_default();
        extracted.leave_changed(drift, |path| keep.cover(path))
    }

    pub(crate) fn has_download(&self) -> bool {
        self.downloads().next().is_some()
    }

    /// Returns the canonical paths that the archive has worked on.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.path.iter().chain(&self.trees).map(PathBuf::from)
    }

    /// Returns the paths that belong to the archive with this ID.
    pub(crate) fn to_owner(&self, id: &str, is_orphan: bool) -> TreeOwner {
        TreeOwner {
            id: id.to_owned(),
            trees: self.trees.iter().map(PathBuf::from).collect(),
            file: self.path.as_ref().filter(|_| self.has_download()).map(PathBuf::from),
            is_orphan,
        }
    }

    /// Returns true if there is nothing to be undone.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_download() && self.trees.is_empty() && !self.untidy
    }
}
