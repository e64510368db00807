//! The bundle that is installed on this host, and the previous one.
//!
//! Both archives and their signatures are kept below `var/lib/holo-fleet`. A change is recorded before its first file is
//! moved: the record names the bundle that comes in, and the engine for changes on disk knows which files may be of
//! which version. So a run that was killed is finished, or has changed nothing.

use super::archive::sha256;
use super::error::BundleError;
use super::manifest::{HoloVersion, Member, Version};
use super::{Bundle, signature_path};
use crate::config::Root;
use crate::names::BundleId;
use crate::names::Label;
use holo_change::claims::Claims;
use holo_change::manifest::{EntryKind, FileDigests, ManifestEntry, Ownership};
use holo_change::tree_store::{NewVersion, OwnedTree, PathOwners, TreeError, TreeStore};
use holo_change::{Locations, OnDisk, PathError, PathHandle, Stamp, Tree, set_ownership};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Our directory. It has a state database of its own, because a bundle is not an entity of a plugin.
const DIRECTORY: &str = "var/lib/holo-fleet";
const RECORD: &str = "installed.json";
const ARCHIVES: &str = "bundles";
/// The name of the tree in our state database, and of its directory.
const TREE: &str = "bundle";

/// A bundle on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Installed {
    /// The name.
    pub(crate) name: Label,
    /// The version.
    pub(crate) version: Version,
    /// The SHA-256 of the archive.
    pub(crate) digest: String,
    /// Whose key has signed it.
    pub(crate) signed_by: Option<String>,
}

/// The bundles on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The one that is installed.
    pub(crate) installed: Option<Installed>,
    /// The one before it.
    pub(crate) previous: Option<Installed>,
    /// The one whose installation has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) incoming: Option<Installed>,
}

impl Installed {
    /// Returns what names it on a server.
    pub(crate) fn id(&self) -> BundleId {
        BundleId { name: self.name.clone(), version: self.version.to_string(), digest: self.digest.clone() }
    }
}

impl Record {
    /// Reads the record; it is empty if no bundle was installed.
    ///
    /// # Errors
    /// If it cannot be read, or is invalid.
    pub(crate) fn read(root: &Root) -> Result<Record, BundleError> {
        let path = root.join(DIRECTORY).join(RECORD);
        match fs::read(&path) {
            Ok(text) => {
                serde_json::from_slice(&text).map_err(|error| BundleError::Record { path, problem: error.to_string() })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Record::default()),
            Err(error) => Err(BundleError::reading(&path)(error)),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Installed> {
        self.installed.iter().chain(&self.previous).chain(&self.incoming)
    }

    /// Makes the incoming bundle the installed one.
    fn promote(&mut self) {
        let Some(incoming) = self.incoming.take() else { return };
        if self.installed.as_ref().is_none_or(|installed| installed.digest != incoming.digest) {
            self.previous = self.installed.replace(incoming);
        }
    }
}

/// Installs a bundle in place of the installed one, which is kept for a rollback.
///
/// # Errors
/// If it needs a newer version of holo, a file of another owner is in its way, or a person has changed a file of the
/// installed bundle. That one is unchanged then. If writing fails in between, the next call finishes the installation.
pub(crate) fn install(bundle: &Bundle, root: &Root) -> Result<Record, BundleError> {
    reject_newer(bundle)?;
    Installation::open(root)?.install(bundle)
}

fn reject_newer(bundle: &Bundle) -> Result<(), BundleError> {
    let own = HoloVersion::own();
    if let Some(needed) = bundle.manifest.min_holo.clone().filter(|needed| *needed > own) {
        let (name, version) = (bundle.name().clone(), bundle.version().clone());
        return Err(BundleError::NeedsNewer { name, version, needed, own });
    }
    Ok(())
}

/// Installs the previous bundle again.
///
/// # Errors
/// If there is none, and those of [`install`].
pub(crate) fn rollback(root: &Root) -> Result<Record, BundleError> {
    let mut installation = Installation::open(root)?;
    let previous = installation.record.previous.clone().ok_or(BundleError::NoPrevious)?;
    let bundle = installation.reopen(&previous)?;
    // Holo itself may have become older.
    reject_newer(&bundle)?;
    installation.install(&bundle)
}

/// Unpacks a bundle to a directory, for a preview of its installation. Returns the files that the installation would
/// remove.
///
/// # Errors
/// If it would be refused, and if the bundle cannot be unpacked.
pub(crate) fn lay_out(bundle: &Bundle, root: &Root, directory: &Path) -> Result<Vec<PathBuf>, BundleError> {
    reject_newer(bundle)?;
    let entries = entries(bundle);
    let installation = Installation::open(root)?;
    installation.reject_foreign(bundle)?;
    let losses = installation.tree.losses(&entries, &PathOwners::default(), &Claims::default())?;
    if !losses.is_empty() {
        return Err(TreeError::LosesChanges(losses).into());
    }
    let installed = installation.tree.manifest().into_iter().flat_map(|manifest| manifest.entries.keys());
    let is_file = |path: &Path| root.join(path).symlink_metadata().is_ok_and(|found| !found.is_dir());
    let dropped = installed.filter(|path| !entries.contains_key(*path) && is_file(path)).cloned().collect();
    // Another bundle may be installed meanwhile.
    drop(installation);
    let tree = Tree::open(directory)?;
    bundle.unpack(|path, member, content| write(&tree, path, member, content))?;
    Ok(dropped)
}

/// Finishes an installation that was interrupted.
///
/// # Errors
/// Those of [`install`].
pub(crate) fn resume(root: &Root) -> Result<Record, BundleError> {
    if Record::read(root)?.incoming.is_none() {
        return Record::read(root);
    }
    let mut installation = Installation::open(root)?;
    let Some(incoming) = installation.record.incoming.clone() else { return Ok(installation.record) };
    let bundle = installation.reopen(&incoming)?;
    installation.install(&bundle)
}

/// What is installed, while no other process changes it.
struct Installation {
    directory: Arc<Tree>,
    record: Record,
    store: TreeStore,
    tree: OwnedTree,
    _held: OwnedFd,
}

impl Installation {
    fn open(root: &Root) -> Result<Installation, BundleError> {
        let directory = root.join(DIRECTORY);
        let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(directory.join(TREE));
        made.map_err(|source| BundleError::Write { path: directory.clone(), source })?;
        let tree = Tree::open(&directory)?;
        let held = tree.hold()?;
        let state = directory.join(TREE);
        let locations = Locations::new(root.path().to_owned(), state.clone(), state);
        let store = TreeStore::open(&locations, Rc::new(Digests), &Arc::default(), &Arc::default())?;
        let owned = OwnedTree::open(&store, TREE, Path::new("/"))?;
        let record = Record::read(root)?;
        let mut installation = Installation { directory: tree, record, store, tree: owned, _held: held };
        installation.settle()?;
        Ok(installation)
    }

    /// Finishes the record of a run that was killed before or after it has moved files, and removes what it has left.
    fn settle(&mut self) -> Result<(), BundleError> {
        self.tree.clear_staging()?;
        self.store.tidy()?;
        self.directory.place(Path::new(RECORD)).replacement().remove()?;
        if let Some(incoming) = &self.record.incoming
            && !self.tree.is_unfinished()
        {
            if self.tree.manifest().is_some_and(|manifest| manifest.recipe == incoming.digest) {
                self.record.promote();
            } else {
                self.record.incoming = None;
            }
            self.write_record()?;
        }
        self.remove_archives()
    }

    fn install(&mut self, bundle: &Bundle) -> Result<Record, BundleError> {
        self.reject_foreign(bundle)?;
        let before = self.record.clone();
        let archive = self.archive(&bundle.digest);
        archive.replace(&bundle.bytes, 0o600, OnDisk::New)?;
        let signature = self.directory.place(&signature_path(archive.path()));
        match &bundle.signature {
            Some(text) => signature.replace(text.as_bytes(), 0o600, OnDisk::New)?,
            None => signature.remove()?,
        }
        self.record.incoming = Some(Installed {
            name: bundle.name().clone(),
            version: bundle.version().clone(),
            digest: bundle.digest.clone(),
            signed_by: bundle.signed_by.clone(),
        });
        self.write_record()?;
        let has_begun = Rc::new(Cell::new(false));
        if let Err(error) = self.replace_files(bundle, &has_begun) {
            let _ = self.tree.clear_staging();
            if !has_begun.get() {
                // The error is more useful than one from the cleanup, which the next run repeats.
                self.record = before;
                let _ = self.write_record();
                let _ = self.remove_archives();
            }
            return Err(error);
        }
        self.record.promote();
        self.write_record()?;
        self.remove_archives()?;
        Ok(self.record.clone())
    }

    fn replace_files(&mut self, bundle: &Bundle, has_begun: &Rc<Cell<bool>>) -> Result<(), BundleError> {
        let mut staged = self.tree.staging()?;
        bundle.unpack(|path, member, content| write(staged.tree(), path, member, content))?;
        staged.entries = entries(bundle);
        let version = NewVersion { staged: Some(staged), recipe: bundle.digest.clone(), ..NewVersion::default() };
        self.tree.install(version, &Rc::default(), has_begun)?;
        self.tree.remove_dropped_bases(|| Ok::<_, PathError>(PathOwners::default()))?;
        Ok(())
    }

    /// Fails if there are files that no bundle has installed. They belong to a person or a package.
    fn reject_foreign(&self, bundle: &Bundle) -> Result<(), BundleError> {
        let owners = PathOwners::default();
        let with_parents = |path| Path::new(path).ancestors().filter(|path| !path.as_os_str().is_empty());
        let paths: BTreeSet<&Path> = bundle.manifest.files.keys().flat_map(with_parents).collect();
        let mut foreign = Vec::new();
        for path in paths {
            if self.tree.is_foreign(path, &owners)? {
                foreign.push(Path::new("/").join(path));
            }
        }
        if foreign.is_empty() { Ok(()) } else { Err(BundleError::Foreign(foreign)) }
    }

    fn reopen(&self, installed: &Installed) -> Result<Bundle, BundleError> {
        Bundle::reopen(&self.archive(&installed.digest).shown(), installed)
    }

    fn archive(&self, digest: &str) -> PathHandle {
        self.directory.place(&Path::new(ARCHIVES).join(format!("{digest}.tar.zst")))
    }

    fn write_record(&self) -> Result<(), BundleError> {
        // Strings always can be written.
        let text = serde_json::to_vec_pretty(&self.record).unwrap_or_default();
        Ok(self.directory.place(Path::new(RECORD)).replace(&text, 0o644, OnDisk::New)?)
    }

    /// Removes the archives that are not needed any more.
    fn remove_archives(&self) -> Result<(), BundleError> {
        let archives = self.directory.place(&Path::new(ARCHIVES).join("x"));
        let names = match archives.siblings() {
            Err(error) if error.is_missing() => return Ok(()),
            names => names?,
        };
        for name in names {
            let is_of = |installed: &Installed| {
                let archive = PathBuf::from(format!("{}.tar.zst", installed.digest));
                name == *archive || name == *signature_path(&archive)
            };
            if !self.record.all().any(is_of) {
                archives.sibling(&name).remove()?;
            }
        }
        Ok(())
    }
}

/// Returns the entries of a bundle's tree: its files, and the directories above them.
fn entries(bundle: &Bundle) -> BTreeMap<PathBuf, ManifestEntry> {
    let owner = Ownership::default();
    let mut entries = BTreeMap::new();
    for (path, member) in &bundle.manifest.files {
        let kind = match member {
            Member::Symlink { target } => EntryKind::Symlink { target: target.as_bytes().into() },
            Member::File { sha256, size, .. } => {
                EntryKind::File { mode: member.mode(), size: *size, sha256: sha256.clone() }
            }
        };
        for directory in above(path) {
            let kind = EntryKind::Directory { mode: 0o755 };
            entries.insert(directory.to_owned(), ManifestEntry { kind, owner });
        }
        entries.insert(path.into(), ManifestEntry { kind, owner });
    }
    entries
}

/// Returns the directories above a path, the innermost first.
fn above(path: &str) -> impl Iterator<Item = &Path> {
    Path::new(path).ancestors().skip(1).filter(|path| !path.as_os_str().is_empty())
}

/// Writes a member below a directory. The directories above it get their modes at their final paths.
fn write(tree: &Arc<Tree>, path: &str, member: &Member, content: &mut dyn Read) -> Result<(), BundleError> {
    let above: Vec<&Path> = above(path).collect();
    for directory in above.into_iter().rev() {
        tree.place(directory).create_directory(0o700)?;
    }
    let place = tree.place(Path::new(path));
    if let Member::Symlink { target } = member {
        return Ok(place.create_symlink(target.as_bytes())?);
    }
    let mut file = place.create()?;
    let shown = place.shown();
    io::copy(content, &mut file).map_err(|source| BundleError::Write { path: shown.clone(), source })?;
    Ok(set_ownership(&file, &shown, None, None, member.mode())?)
}

/// Digests of files, which are read each time: a bundle is small, and rarely installed.
struct Digests;

impl FileDigests for Digests {
    fn sha256(&self, file: &PathHandle, _: &Stamp) -> Result<String, PathError> {
        sha256(file.open()?).map_err(|error| PathError::new("read", file.shown(), error))
    }
}
