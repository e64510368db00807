//! Records of the metadata of paths: the original values, and those that were set.

use super::Access;
use crate::paths::path_bytes;
use crate::tracked::Decision;
use bstr::{BString, ByteSlice};
use holo_protocol::Text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The mode bits that a change of the owner clears on files.
const ID_BITS: u32 = 0o6000;

/// The paths whose metadata an entity has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(Text, AccessTrack)>", into = "Vec<(Text, AccessTrack)>")]
pub struct AccessTracks(BTreeMap<BString, AccessTrack>);

impl From<Vec<(Text, AccessTrack)>> for AccessTracks {
    fn from(tracks: Vec<(Text, AccessTrack)>) -> Self {
        AccessTracks(tracks.into_iter().map(|(path, track)| (path.0, track)).collect())
    }
}

impl From<AccessTracks> for Vec<(Text, AccessTrack)> {
    fn from(tracks: AccessTracks) -> Self {
        tracks.0.into_iter().map(|(path, track)| (Text(path), track)).collect()
    }
}

impl AccessTracks {
    /// Returns the record of a path.
    #[must_use]
    pub fn get(&self, path: &Path) -> Option<&AccessTrack> {
        self.0.get(&path_bytes(path))
    }

    /// Returns the record of a path, which is created from `base` if it does not exist.
    pub fn get_or_insert(&mut self, path: &Path, base: impl FnOnce() -> Access) -> &mut AccessTrack {
        self.0.entry(path_bytes(path)).or_insert_with(|| AccessTrack::new(base()))
    }

    /// Returns all paths in order, with their records.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (PathBuf, &AccessTrack)> {
        self.0.iter().map(|(path, track)| (path.to_path_lossy().into_owned(), track))
    }

    /// Returns true if no path has a record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the records of another entity; existing ones take precedence.
    pub fn take_over(&mut self, other: AccessTracks) {
        for (path, track) in other.0 {
            self.0.entry(path).or_insert(track);
        }
    }
}

/// The metadata of a path: the original values, and those that were set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessTrack {
    /// The metadata before the first change.
    pub base: Access,
    /// The metadata that was set last, or was about to be set.
    pub made: Access,
    /// The metadata that was set before `made`.
    #[serde(default, skip_serializing_if = "Access::is_empty")]
    pub before: Access,
}

impl AccessTrack {
    /// Creates the record of an unchanged path.
    #[must_use]
    pub fn new(base: Access) -> AccessTrack {
        AccessTrack { made: base.clone(), base, before: Access::default() }
    }

    /// Records the metadata that is about to be set on a path with the metadata `current`.
    pub fn intend(&mut self, current: &Access, desired: &Access) {
        self.base = self.base.or(&current.limited_to(desired));
        self.before = std::mem::take(&mut self.made);
        self.made = desired.or(&self.before);
    }

    /// Decides on a change to the desired metadata: values that were neither set by us nor found originally are manual
    /// changes.
    ///
    /// `modes` are the modes that the path was given as part of its state: a chmod to one of them also changes the ACL.
    #[must_use]
    pub fn decide(&self, current: &Access, desired: &Access, modes: &[u32]) -> Decision {
        let missing = desired.missing_in(current);
        if missing.is_empty() {
            return Decision::Nothing;
        }
        // Fields that were never managed cannot be manual changes of managed values.
        let ours = current.limited_to(&missing).limited_to(&self.made);
        let known = [&self.base, &self.made, &self.before];
        let is_known = |is_so: &dyn Fn(&Access) -> bool| known.iter().any(|known| is_so(known));
        let ours_alone = (ours.uid.is_none() || is_known(&|known| known.uid == ours.uid))
            && (ours.gid.is_none() || is_known(&|known| known.gid == ours.gid))
            && ours.mode.is_none_or(|mode| {
                // A kill may have occurred between the changes of owner and mode.
                let narrowed = |known: u32| mode & 0o1777 == known & self.made.mode.unwrap_or(known) & 0o1777;
                is_known(&|known| {
                    known.mode.is_some_and(|known| known & !ID_BITS == mode & !ID_BITS || narrowed(known))
                })
            })
            && (ours.acl.is_none()
                || is_known(&|known| {
                    let after_chmod = |mode: &u32| known.acl.clone().map(|acl| acl.with_mode(*mode)) == ours.acl;
                    known.acl == ours.acl || modes.iter().any(after_chmod)
                }))
            && (ours.default_acl.is_none() || is_known(&|known| known.default_acl == ours.default_acl))
            && (ours.selinux.is_none() || is_known(&|known| known.selinux == ours.selinux));
        if ours_alone { Decision::Change } else { Decision::NeedsForce }
    }

    /// Returns the changes that restore the original metadata. The set-user-ID and set-group-ID bits of a file are not
    /// restored together with its owner, because the interim owner may have changed the content.
    #[must_use]
    pub fn restoration(&self, current: &Access, is_file: bool) -> Access {
        let mut missing = self.base.missing_in(current);
        let changes_owner = missing.uid.is_some() || missing.gid.is_some();
        if is_file && changes_owner {
            missing.mode = missing.mode.or(current.mode).map(|mode| mode & !ID_BITS);
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::{Acl, Tag};

    fn with_acl(acl: Acl) -> Access {
        Access { acl: Some(acl), ..Access::default() }
    }

    #[test]
    fn an_acl_changed_by_our_own_chmod_is_ours() {
        let named = |mask| {
            let entries = [(Tag::User(1001), 0o6), (Tag::GroupObj, 0o4), (Tag::Mask, mask)];
            Acl::new(Acl::of_mode(0o640).entries().chain(entries))
        };
        let desired = with_acl(named(0o2));
        for (made, current) in [(Acl::of_mode(0o444), Acl::of_mode(0o660)), (named(0o4), named(0o6))] {
            let (track, current) = (AccessTrack::new(with_acl(made)), with_acl(current));
            assert_eq!(track.decide(&current, &desired, &[0o640, 0o660]), Decision::Change);
            assert_eq!(track.decide(&current, &desired, &[0o640]), Decision::NeedsForce);
            assert_eq!(track.decide(&current, &desired, &[]), Decision::NeedsForce);
        }
        // Removing the entry of a user is no chmod.
        let track = AccessTrack::new(with_acl(named(0o6)));
        assert_eq!(track.decide(&with_acl(Acl::of_mode(0o660)), &desired, &[0o660]), Decision::NeedsForce);
    }
}
