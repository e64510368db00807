//! Versions of files that people have edited, kept before an apply overwrites them, and originals that are kept when their
//! entity is forgotten.
//!
//! A record in the state database describes each version. Contents are stored as for entities, large ones in the engine's
//! directory. All of it is only accessible to its owner.

use crate::base_store::readable;
use crate::error::{PathError, Result};
use crate::locations::Locations;
use crate::path_handle::{PathHandle, Tree};
use crate::paths::path_bytes;
use crate::tracked::{Contents, Digest, State, Tracker, Tracks, Unmanaged};
use bstr::ByteSlice;
use holo_protocol::Text;
use holo_state::{Durability, RecordChange};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The store of the records. No plugin has this ID.
const STORE: &str = ".edited";
/// The directory for large contents, next to the state directories of the plugins.
const CONTENTS: &str = ".engine/edited";

/// A version of a file that a person has edited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditedVersion {
    /// The entity that has overwritten it, or of which it is an original.
    pub entity: Text,
    /// The path below the root.
    pub path: Text,
    /// When it was overwritten, in microseconds since the epoch.
    pub time: u64,
    /// The content and attributes of the file, or the target of a symlink.
    pub state: State,
    /// The size of the content in bytes.
    pub size: u64,
    /// True if the content must not be displayed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

impl EditedVersion {
    /// Returns the path below the root.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.path.0.to_path_lossy().into_owned()
    }

    /// Returns the key of its record. A version that was made several times is kept once.
    fn key(&self) -> String {
        let state = serde_json::to_vec(&self.state).unwrap_or_default();
        Digest::of_bytes(&[&self.entity.0[..], b"\0", &self.path.0[..], b"\0", &state[..]].concat()).as_str().to_owned()
    }
}

/// The edited versions of a system.
#[derive(Debug)]
pub struct EditedVersions<'a>(&'a Locations);

impl<'a> EditedVersions<'a> {
    /// Returns the versions of the system to which these locations belong.
    #[must_use]
    pub fn of(locations: &'a Locations) -> EditedVersions<'a> {
        EditedVersions(locations)
    }

    fn contents(&self) -> Result<Contents> {
        let state = self.0.state_dir();
        let tree = Tree::open(state.parent().unwrap_or(state))?;
        Ok(Contents::new(self.0.database(), STORE, &tree, CONTENTS.into()))
    }

    /// Keeps what is at a path. When this returns, it is on disk. `path` is relative to the root.
    ///
    /// Returns the state that was kept. The path must only be changed if it still is in this state.
    ///
    /// # Errors
    /// If the path cannot be read, or its version cannot be kept.
    pub fn keep(
        &self,
        entity: &[u8],
        path: &Path,
        place: &PathHandle,
        sensitive: bool,
    ) -> std::result::Result<State, Unmanaged> {
        let state = State::of(place)?;
        let size = place.raw_stat()?.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or_default());
        match state.content() {
            _ if state == State::Absent => return Ok(state),
            Some(content) if self.contents()?.keep(place)? != *content => {
                return Err(Unmanaged::Meanwhile(place.shown().display().to_string()));
            }
            Some(_) | None => {}
        }
        self.record(entity, path, (&state, size), sensitive)?;
        Ok(state)
    }

    /// Keeps the originals of the paths in a record, except for those that are in place. Returns the paths of the others.
    /// When this returns, the originals are on disk.
    ///
    /// # Errors
    /// If an original cannot be read or kept.
    pub fn keep_bases(
        &self,
        entity: &[u8],
        tracker: &Tracker,
        tracks: &Tracks,
    ) -> std::result::Result<Vec<PathBuf>, Unmanaged> {
        let mut kept = Vec::new();
        for (path, track) in tracks.iter() {
            let base = &track.base;
            let has_content = matches!(base, State::File { .. } | State::Symlink { .. }) && !track.attributes_only;
            if !has_content || tracker.state_of(tracks, &path).is_ok_and(|current| current == *base) {
                continue;
            }
            let mut size = 0;
            if let Some(content) = base.content() {
                self.contents()?.add(&mut tracker.open_content(content)?, &path)?;
                let counted = io::copy(&mut tracker.open_content(content)?, &mut io::sink());
                size = counted.map_err(|error| PathError::new("read", &path, error))?;
            }
            self.record(entity, &path, (base, size), track.sensitive)?;
            kept.push(path);
        }
        Ok(kept)
    }

    /// Records a version whose content is kept.
    fn record(&self, entity: &[u8], path: &Path, (state, size): (&State, u64), sensitive: bool) -> Result<()> {
        let time = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        let (entity, path) = (Text(entity.into()), Text(path_bytes(path)));
        let version = EditedVersion { entity, path, time, state: state.clone(), size, sensitive };
        let value = serde_json::to_string(&version).map_err(|error| self.invalid(error.into()))?;
        let change = RecordChange { store: STORE.to_owned(), key: version.key(), value: Some(value) };
        // The content, which was written before, is then on disk as well.
        let written = self.0.database().lock().write_records(&[change], Durability::Disk);
        written.map_err(PathError::of_state)
    }

    /// Returns all versions, the latest first. Damaged records are left out.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn all(&self) -> Result<Vec<EditedVersion>> {
        let mut all = Vec::new();
        let read = self.0.database().lock().each_record(STORE, "", |_, value| {
            all.extend(serde_json::from_str::<EditedVersion>(value));
        });
        readable(read)?;
        all.sort_by(|one, other| {
            (other.time, &one.entity.0, &one.path.0).cmp(&(one.time, &other.entity.0, &other.path.0))
        });
        Ok(all)
    }

    /// Opens the content of a version; `None` unless it is a file.
    ///
    /// # Errors
    /// If the content is missing, or cannot be opened.
    pub fn content(&self, version: &EditedVersion) -> Result<Option<Box<dyn Read>>> {
        version.state.content().map(|digest| self.contents()?.open(digest)).transpose()
    }

    /// Removes versions from before a time, in microseconds since the epoch, and the oldest ones while all together have more
    /// than `size` bytes. Damaged records are removed too.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn retain(&self, oldest: Option<u64>, size: u64) -> Result<()> {
        let keys = self.0.database().lock().record_keys(STORE);
        let keys = readable(keys)?;
        if keys.is_empty() {
            return Ok(());
        }
        let mut total: u64 = 0;
        let mut all = self.all()?;
        all.retain(|version| {
            total = total.saturating_add(version.size);
            total <= size && oldest.is_none_or(|oldest| version.time >= oldest)
        });
        let kept: BTreeSet<String> = all.iter().map(EditedVersion::key).collect();
        let removed = keys.into_iter().filter(|key| !kept.contains(key));
        let removed: Vec<RecordChange> =
            removed.map(|key| RecordChange { store: STORE.to_owned(), key, value: None }).collect();
        if !removed.is_empty() {
            let written = self.0.database().lock().write_records(&removed, Durability::Process);
            written.map_err(PathError::of_state)?;
        }
        self.contents()?.keep_only(&all.iter().filter_map(|version| version.state.content().cloned()).collect())
    }

    fn invalid(&self, error: io::Error) -> PathError {
        PathError::new("write", self.0.database().lock().path(), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn versions_are_kept_once_until_they_exceed_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state/p");
        fs::create_dir_all(&state).unwrap();
        let locations = Locations::new(folder.path().to_owned(), state, PathBuf::new());
        let versions = EditedVersions::of(&locations);
        let tree = Tree::open(folder.path()).unwrap();
        let keep = |content: &[u8]| {
            fs::write(folder.path().join("file"), content).unwrap();
            let place = tree.place(Path::new("file"));
            let kept = versions.keep(b"p:x", Path::new("/file"), &place, false).unwrap();
            assert_eq!(kept, State::of(&place).unwrap());
        };
        let large = vec![7; (1 << 20) + 1];
        for content in [b"one".as_slice(), b"two", b"one", &large] {
            keep(content);
        }
        let contents = || -> BTreeSet<Vec<u8>> {
            let read = |version: &EditedVersion| {
                let mut bytes = Vec::new();
                versions.content(version).unwrap().unwrap().read_to_end(&mut bytes).unwrap();
                bytes
            };
            versions.all().unwrap().iter().map(read).collect()
        };
        assert_eq!(contents(), BTreeSet::from([b"one".to_vec(), b"two".to_vec(), large.clone()]));
        assert_eq!(fs::read_dir(folder.path().join("state").join(CONTENTS)).unwrap().count(), 1);
        versions.retain(Some(0), 1 << 30).unwrap();
        assert_eq!(contents().len(), 3);
        versions.retain(Some(0), 6).unwrap();
        assert!(contents().iter().all(|content| content.len() == 3));
        assert!(!folder.path().join("state").join(CONTENTS).exists(), "the large content has gone too");
        versions.retain(Some(u64::MAX), 1 << 30).unwrap();
        assert!(contents().is_empty());
    }
}
