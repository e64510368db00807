//! What is remembered of an archive, and what is kept of others' files.

use crate::download::Validators;
use holo_change::error::PathError;
use holo_change::{Durability, Image, PathHandle, Unmanageable};
use serde::{Deserialize, Serialize};

/// What is remembered, from before the first change on. What was there before us lies beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// The download that is, or was, at the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) download: Option<Fetched>,
    /// The download that is just taking its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) incoming: Option<Fetched>,
    /// Where the download is, without symlinks on the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    /// The directories that something was extracted to, without symlinks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) trees: Vec<String>,
    /// Whether there may be directories that are of no use any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) untidy: bool,
}

/// A download.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fetched {
    pub(crate) sha256: String,
    /// The checksum that it was found to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) checksum: Option<String>,
    /// The SHA-256 of the URLs that it may have come from: they may hold secrets.
    pub(crate) source: String,
    #[serde(default, skip_serializing_if = "Validators::is_empty")]
    pub(crate) validators: Validators,
}

impl Record {
    /// Whether a content is ours.
    pub(crate) fn knows(&self, sha256: &str) -> bool {
        self.fetched().any(|fetched| fetched.sha256 == sha256)
    }

    /// The downloads that may be at the path, the latest first.
    pub(crate) fn fetched(&self) -> impl Iterator<Item = &Fetched> {
        self.incoming.iter().chain(&self.download)
    }

    /// Whether there is anything to be put back, some day.
    pub(crate) fn is_empty(&self) -> bool {
        self.fetched().next().is_none() && self.trees.is_empty() && !self.untidy
    }
}

const TEMPORARY: &str = ".new";

/// Keeps a copy of what is at a place; whoever keeps many syncs them together.
///
/// # Errors
/// If it cannot be copied.
pub(crate) fn keep(place: &PathHandle, kept: &PathHandle) -> Result<(), Unmanageable> {
    let Some(image) = Image::load(place)? else { return Ok(()) };
    kept.create_folder()?;
    let temporary = kept.temporary(TEMPORARY);
    image.write_to(&temporary)?;
    Durability::Each.sync([&temporary], [])?;
    temporary.rename_to(kept)?;
    Ok(())
}

/// Whether what is at a place is what is kept.
///
/// # Errors
/// If that cannot be told.
pub(crate) fn is_kept(place: &PathHandle, kept: &PathHandle) -> Result<bool, PathError> {
    let image = |place| match Image::load(place) {
        Ok(image) => Ok(image),
        Err(Unmanageable::WrongType) => Ok(None),
        Err(Unmanageable::Path(error)) => Err(error),
    };
    let Some(base) = image(kept)? else { return Ok(false) };
    image(place)?.map_or(Ok(false), |current| current.equals(&base))
}

/// What a new file is called before it takes its place.
const RESTORED: &str = ".holonew";

/// Puts back what is kept, in one step.
///
/// # Errors
/// If it cannot be copied.
pub(crate) fn put_back(kept: &PathHandle, place: &PathHandle) -> Result<(), Unmanageable> {
    place.create_folder()?;
    copy(kept, &place.temporary(RESTORED), place)
}

/// Puts a copy of a file in the place of another, in one step, by way of a temporary place on the same file system.
///
/// # Errors
/// If it cannot be copied.
pub(crate) fn copy(from: &PathHandle, temporary: &PathHandle, to: &PathHandle) -> Result<(), Unmanageable> {
    let Some(image) = Image::load(from)? else { return Ok(()) };
    image.write_to(temporary)?;
    Durability::Each.sync([temporary], [])?;
    temporary.rename_to(to)?;
    Ok(())
}
