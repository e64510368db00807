//! Manifests: lists of the paths that an entity has created in a directory.

use crate::base_store::{BaseStore, RecordChange};
use crate::error::Result;
use crate::image::Stamp;
use crate::path_handle::{FileStat, Kind, PathHandle};
use crate::paths::path_bytes;
use bstr::ByteSlice;
use holo_protocol::Text;
use holo_state::Durability;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The paths that an entity has created in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// All inputs that determine the tree, such as the digest of an archive and the options for its extraction.
    pub recipe: String,
    /// True if a version may be partly installed. Each path is then in one of its listed states, or equal to its base.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
    /// The possible states of each path, by its path relative to the directory.
    #[serde(with = "entries")]
    pub entries: BTreeMap<PathBuf, Vec<ManifestEntry>>,
    /// Paths that no longer belong to the entity and were restored, whose bases can be removed.
    #[serde(default, with = "paths", skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<PathBuf>,
    /// The paths that the new version does not contain, while it is partly installed. Other entities may create them.
    #[serde(default, with = "paths", skip_serializing_if = "BTreeSet::is_empty")]
    pub leaving: BTreeSet<PathBuf>,
    /// The paths that the version does not contain, and that are kept while an overlay covers them. Other entities may
    /// create them too.
    #[serde(default, with = "paths", skip_serializing_if = "BTreeSet::is_empty")]
    pub waiting: BTreeSet<PathBuf>,
}

/// The record of a manifest in the state database.
#[derive(Clone, Debug)]
pub struct ManifestRecord {
    records: BaseStore,
    key: String,
}

impl ManifestRecord {
    /// Returns the record for an entity and a directory.
    pub(crate) fn new(records: &BaseStore, id: &str, directory: &Path) -> ManifestRecord {
        // A path need not be UTF-8.
        let key = format!("{id} {}", path_bytes(directory).escape_bytes());
        ManifestRecord { records: records.clone(), key }
    }

    /// Returns true if the record exists.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn exists(&self) -> Result<bool> {
        Ok(self.records.text(&self.key)?.is_some())
    }

    /// Reads the manifest; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read, or is invalid.
    pub fn load(&self) -> Result<Option<Manifest>> {
        self.records.value(&self.key)
    }

    /// Writes the manifest. When this returns, it is on disk.
    ///
    /// # Errors
    /// If it cannot be written. The old one remains unchanged then.
    pub fn save(&self, manifest: &Manifest) -> Result<()> {
        self.records.write(&[self.saved(manifest)?], Durability::Disk)
    }

    /// Returns the change that writes the manifest.
    pub(crate) fn saved(&self, manifest: &Manifest) -> Result<RecordChange> {
        self.records.kept(&self.key, manifest)
    }

    /// Removes the manifest. When this returns, the removal is on disk.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self) -> Result<()> {
        self.records.forget(&self.key)
    }

    /// Moves a manifest to another record, replacing one there. When this returns, the change is on disk.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn move_to(&self, other: &ManifestRecord, manifest: &Manifest) -> Result<()> {
        self.records.write(&[self.records.forgotten(&self.key), other.saved(manifest)?], Durability::Disk)
    }
}

impl Manifest {
    /// Removes a path that belongs to another entity now; the recipe is cleared, so that the tree is compared again.
    /// Unless `keeps_base` is set, its base is no longer needed. Returns true if the path was listed.
    pub fn release(&mut self, path: &Path, keeps_base: bool) -> bool {
        let is_listed = self.entries.remove(path).is_some();
        if is_listed {
            self.dropped.extend((!keeps_base).then(|| path.to_owned()));
            self.recipe.clear();
        }
        is_listed
    }

    /// Keeps only some of the entries. Directories do not wait for overlays on files that are gone.
    pub fn keep_only(&mut self, is_kept: impl Fn(&Path) -> bool) {
        self.entries.retain(|path, _| is_kept(path));
        let is_file = |states: &[ManifestEntry]| !states.iter().any(ManifestEntry::is_directory);
        let files: Vec<&PathBuf> =
            self.entries.iter().filter(|(_, states)| is_file(states)).map(|(path, _)| path).collect();
        self.waiting.retain(|path| files.iter().any(|file| file.starts_with(path)));
    }

    /// Allows other entities to create all of the paths.
    pub fn leave_all(&mut self) {
        self.leaving = self.entries.keys().cloned().collect();
    }
}

/// Returns a path of a record. The records are our own, but a path must never lead out of the directory.
fn sound<E: serde::de::Error>(text: &Text) -> std::result::Result<PathBuf, E> {
    let path = text.0.to_path_lossy().into_owned();
    let is_sound = path.components().all(|part| matches!(part, Component::Normal(_))) && path != Path::new("");
    if is_sound { Ok(path) } else { Err(E::custom(format!("{} is not a path in the directory", path.display()))) }
}

/// Paths are written as [`Text`], because they need not be UTF-8.
mod paths {
    use super::{Deserialize, PathBuf, Serialize, Text, path_bytes, sound};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<'a, C, S: Serializer>(paths: &'a C, to: S) -> Result<S::Ok, S::Error>
    where
        &'a C: IntoIterator<Item = &'a PathBuf>,
    {
        paths.into_iter().map(|path| Text(path_bytes(path))).collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, C: FromIterator<PathBuf>, D: Deserializer<'de>>(from: D) -> Result<C, D::Error> {
        Vec::<Text>::deserialize(from)?.iter().map(sound).collect()
    }
}

/// Entries are written as pairs of a path and its possible states.
mod entries {
    use super::{BTreeMap, Deserialize, ManifestEntry, PathBuf, Text, path_bytes, sound};
    use serde::{Deserializer, Serializer};

    type Entries = BTreeMap<PathBuf, Vec<ManifestEntry>>;

    pub(super) fn serialize<S: Serializer>(entries: &Entries, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(entries.iter().map(|(path, states)| (Text(path_bytes(path)), states)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Entries, D::Error> {
        let entries = Vec::<(Text, Vec<ManifestEntry>)>::deserialize(from)?;
        entries.into_iter().map(|(path, states)| Ok((sound(&path)?, states))).collect()
    }
}

/// A source of file digests, which may be cached.
pub trait FileDigests {
    /// Returns the SHA-256 of the content of a file with this stamp, as hexadecimal digits.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn sha256(&self, file: &PathHandle, stamp: &Stamp) -> Result<String>;
}

/// The requested owner. If the user is not set, it is the current user of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ownership {
    /// The user ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The group ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

impl Ownership {
    /// Returns the parts of the owner `after` that differ from the requested ones, or from the defaults for new files.
    #[must_use]
    pub fn changed_to(self, after: Ownership) -> Ownership {
        let own_user = rustix::process::geteuid().as_raw();
        let own_group = rustix::process::getegid().as_raw();
        Ownership {
            uid: after.uid.filter(|uid| *uid != self.uid.unwrap_or(own_user)),
            gid: after.gid.filter(|gid| *gid != self.gid.unwrap_or(own_group)),
        }
    }

    /// Returns true if a file has this owner. A group that was not requested is ignored, because it may be inherited
    /// from the directory.
    #[must_use]
    pub fn matches(self, stat: &FileStat) -> bool {
        let uid = self.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
        uid == stat.uid && self.gid.is_none_or(|gid| gid == stat.gid)
    }
}

/// A created file, directory or symlink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// The type and its properties.
    #[serde(flatten)]
    pub kind: EntryKind,
    /// The owner.
    #[serde(flatten)]
    pub owner: Ownership,
}

/// The type of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum EntryKind {
    /// A directory.
    Directory {
        /// The mode.
        mode: u32,
    },
    /// A file.
    File {
        /// The mode.
        mode: u32,
        /// The length.
        size: u64,
        /// The SHA-256 of the content.
        sha256: String,
    },
    /// A symlink.
    Symlink {
        /// The target.
        target: Text,
    },
}

impl ManifestEntry {
    /// Returns true for a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        matches!(self.kind, EntryKind::Directory { .. })
    }

    /// Returns the entry for the current state of a file or symlink; `None` if it is neither.
    ///
    /// # Errors
    /// If the path cannot be read.
    pub fn of(path: &PathHandle, digests: &dyn FileDigests) -> Result<Option<ManifestEntry>> {
        let Some(stamp) = Stamp::of(path)? else { return Ok(None) };
        let stat = stamp.stat();
        let kind = match stat.kind {
            Kind::File => EntryKind::File { mode: stat.mode, size: stat.size, sha256: digests.sha256(path, &stamp)? },
            Kind::Symlink => EntryKind::Symlink { target: path.read_link()?.into() },
            Kind::Directory | Kind::Other => return Ok(None),
        };
        Ok(Some(ManifestEntry { kind, owner: Ownership { uid: Some(stat.uid), gid: Some(stat.gid) } }))
    }

    /// Returns true if a path matches the entry. Mode and owner of directories are ignored, because users may change
    /// them.
    ///
    /// # Errors
    /// If the path cannot be read.
    pub fn is_at(&self, path: &PathHandle, digests: &dyn FileDigests) -> Result<bool> {
        Stamp::of(path)?.map_or(Ok(false), |stamp| self.matches(path, &stamp, digests))
    }

    /// Like [`is_at`](ManifestEntry::is_at), for a path with a known stamp.
    ///
    /// # Errors
    /// If the path cannot be read.
    pub fn matches(&self, path: &PathHandle, stamp: &Stamp, digests: &dyn FileDigests) -> Result<bool> {
        let stat = stamp.stat();
        match &self.kind {
            EntryKind::Directory { .. } => Ok(stat.kind == Kind::Directory),
            EntryKind::Symlink { target } => {
                Ok(stat.kind == Kind::Symlink && self.owner.matches(&stat) && *target.0 == path.read_link()?)
            }
            EntryKind::File { mode, size, sha256 } => {
                let is_alike =
                    stat.kind == Kind::File && (stat.mode, stat.size) == (*mode, *size) && self.owner.matches(&stat);
                Ok(is_alike && *sha256 == digests.sha256(path, stamp)?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locations::Locations;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    fn record(folder: &Path) -> ManifestRecord {
        let locations = Locations::new("/".into(), folder.join("p"), "x".into());
        ManifestRecord::new(&BaseStore::open_kind(&locations, "trees"), "a:one", Path::new("/srv"))
    }

    #[test]
    fn manifest_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let record = record(folder.path());
        assert!(!record.exists().unwrap() && record.load().unwrap().is_none());
        let file = EntryKind::File { mode: 0o640, size: 3, sha256: "00ff".to_owned() };
        let link = EntryKind::Symlink { target: b"../a b\n\xff".into() };
        let owner = Ownership { uid: Some(0), gid: None };
        let strange = PathBuf::from(OsStr::from_bytes(b"a b/#c\\\n\xfe=d"));
        let directory = ManifestEntry { kind: EntryKind::Directory { mode: 0o755 }, owner };
        let states =
            vec![ManifestEntry { kind: file, owner }, ManifestEntry { kind: link, owner: Ownership::default() }];
        let manifest = Manifest {
            recipe: "sha256:0 strip=1".to_owned(),
            unfinished: true,
            entries: [(PathBuf::from("a b"), vec![directory]), (strange.clone(), states)].into(),
            dropped: vec!["gone".into(), strange],
            leaving: [PathBuf::from("a b")].into(),
            waiting: [PathBuf::from("waits")].into(),
        };
        record.save(&manifest).unwrap();
        assert_eq!(record.load().unwrap(), Some(manifest));
        record.remove().unwrap();
        assert!(!record.exists().unwrap());
    }

    #[test]
    fn paths_that_lead_out_of_the_directory_are_rejected() {
        let load = |path: &str| {
            let text = format!(r#"{{"recipe":"","entries":[["{path}",[{{"is":"directory","mode":493}}]]]}}"#);
            serde_json::from_str::<Manifest>(&text).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(load("a/b"), Ok(()));
        for wrong in ["", "/etc", "../a", "a/../../b"] {
            let error = load(wrong).unwrap_err();
            assert!(error.contains("is not a path in the directory"), "{wrong}: {error}");
        }
    }
}
