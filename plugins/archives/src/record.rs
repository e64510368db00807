//! What is remembered of an archive, and where.

use crate::checksum::sha256;
use crate::download::Validators;
use crate::known::Known;
use holo_plugin::error::Result;
use holo_plugin::memory::Memory;
use holo_plugin::{Durability, Host, Image, Place, Tree, Unmanageable};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

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
    /// The directories that something was extracted to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) trees: Vec<String>,
    /// The directories that we made above those and above the path, the topmost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) directories: Vec<String>,
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
        *self == Record::default()
    }
}

/// Where everything is.
pub(crate) struct Store {
    pub(crate) root: Arc<Tree>,
    pub(crate) memory: Memory,
    pub(crate) known: Known,
    state: Arc<Tree>,
}

const KEPT: &str = "kept";
const TREES: &str = "trees";
const KNOWN: &str = "known";
const TEMPORARY: &str = ".new";

impl Store {
    /// That of an entity.
    pub(crate) fn open(host: &Host, id: &str) -> Result<Store> {
        let state = Tree::open(host.state_dir())?;
        let known = Known::at(state.place(&Path::new(KNOWN).join(name(id, ""))), !host.verifies());
        Ok(Store { root: Tree::open(host.root())?, memory: Memory::open(host)?, known, state })
    }

    /// Where the list of what was extracted to a directory is.
    pub(crate) fn manifest(&self, id: &str, directory: &str) -> Place {
        self.state.place(&Path::new(TREES).join(name(id, directory) + ".mtree"))
    }

    /// Where what was in a directory before us is kept: there, by their paths below that directory.
    pub(crate) fn kept(&self, id: &str, directory: &str) -> Place {
        self.state.place(&Path::new(KEPT).join(name(id, directory)))
    }

    /// Where the file is kept that was at the path before us.
    pub(crate) fn kept_download(&self, id: &str) -> Place {
        self.state.place(&Path::new(KEPT).join(name(id, "")))
    }

    /// A place below another one.
    pub(crate) fn below(&self, folder: &Place, path: &Path) -> Place {
        self.state.place(&folder.path().join(path))
    }

    /// Removes what is kept at a place, with the folders that are empty then.
    pub(crate) fn let_go(place: &Place) -> Result<()> {
        if place.looks()?.is_some() {
            place.remove_all()?;
            Durability::Each.sync([], [place])?;
        }
        place.remove_empty_folders(Path::new(""));
        Ok(())
    }
}

fn name(id: &str, directory: &str) -> String {
    sha256(format!("{id}\0{directory}").as_bytes()).chars().take(32).collect()
}

/// Keeps a copy of what is at a place; whoever keeps many syncs them together.
///
/// # Errors
/// If it cannot be copied.
pub(crate) fn keep(place: &Place, kept: &Place) -> std::result::Result<(), Unmanageable> {
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
pub(crate) fn is_kept(place: &Place, kept: &Place) -> Result<bool> {
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
pub(crate) fn put_back(kept: &Place, place: &Place) -> std::result::Result<(), Unmanageable> {
    let Some(image) = Image::load(kept)? else { return Ok(()) };
    place.create_folder()?;
    let temporary = place.temporary(RESTORED);
    image.write_to(&temporary)?;
    Durability::Each.sync([&temporary], [])?;
    temporary.rename_to(place)?;
    Ok(())
}
