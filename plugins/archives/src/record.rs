//! The record of an archive.

use holo_change::error::PathError;
use holo_change::tree_store::{Drift, OwnedTree, TreeOwner, TreeStore};
use holo_download::Validators;
use holo_plugin::definitions::Globs;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The record of an archive, which is on disk before the first change. Bases are stored separately.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArchiveRecord {
    /// The current or last download at the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) download: Option<DownloadRecord>,
    /// The download that is about to be moved to the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) incoming: Option<DownloadRecord>,
    /// The canonical path of the download.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    /// The canonical paths of the directories to which it was extracted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) trees: Vec<String>,
    /// The patterns for files that a user may change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) keep: Vec<String>,
    /// True if there may be directories that are no longer needed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) untidy: bool,
}

/// The record of a download.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DownloadRecord {
    pub(crate) sha256: String,
    /// The checksum in the definition that it has matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) checksum: Option<String>,
    /// The SHA-256 of the key that has verified its signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signed_by: Option<String>,
    /// The SHA-256 of the URL, which may contain secrets.
    pub(crate) source: String,
    #[serde(default, skip_serializing_if = "Validators::is_empty")]
    pub(crate) validators: Validators,
}

impl ArchiveRecord {
    /// Returns true if a file with this SHA-256 is one of the downloads.
    pub(crate) fn knows(&self, sha256: &str) -> bool {
        self.downloads().any(|download| download.sha256 == sha256)
    }

    /// Returns the possible downloads at the path, latest first.
    pub(crate) fn downloads(&self) -> impl Iterator<Item = &DownloadRecord> {
        self.incoming.iter().chain(&self.download)
    }

    /// Opens a directory to which it was extracted. Changed files that match `keep` belong to the user.
    pub(crate) fn open_tree(&self, store: &TreeStore, id: &str, directory: &Path) -> Result<OwnedTree, PathError> {
        let mut extracted = OwnedTree::open(store, id, directory)?;
        if !self.keep.is_empty() {
            let mut drift = extracted.drift()?;
            self.leave_kept(&mut extracted, &mut drift);
        }
        Ok(extracted)
    }

    /// Removes changed files that match `keep` from the manifest.
    pub(crate) fn leave_kept(&self, extracted: &mut OwnedTree, drift: &mut Drift) {
        // The patterns were validated with the definition.
        let keep = Globs::new(&self.keep).unwrap_or_default();
        extracted.leave_changed(drift, |path| keep.cover(path));
    }

    pub(crate) fn has_download(&self) -> bool {
        self.downloads().next().is_some()
    }

    /// Returns the canonical paths that the archive has used.
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

    /// Returns true if there are no changes to undo.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_download() && self.trees.is_empty() && !self.untidy
    }
}
