//! The names of key sets: IDs and file names.

use bstr::{BStr, BString, ByteSlice};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The prefix of the IDs of this plugin.
const PREFIX: &[u8] = b"ssh-keyset:";
/// The suffix of key files.
const SUFFIX: &[u8] = b".pub";

/// The user and the name of a key set, as in its ID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) user: String,
    pub(crate) set: BString,
}

impl Name {
    /// Parses an ID.
    pub(crate) fn from_id(id: &BStr) -> Option<Name> {
        let (user, set) = id.strip_prefix(PREFIX)?.split_once_str("/")?;
        Name::new(user, set)
    }

    /// Parses the name of a file in the directory of a user.
    pub(crate) fn from_file(user: &OsStr, file: &OsStr) -> Option<Name> {
        Name::new(user.as_bytes(), file.as_bytes().strip_suffix(SUFFIX)?)
    }

    fn new(user: &[u8], set: &[u8]) -> Option<Name> {
        let is_set = !set.is_empty() && !set.contains(&b'/') && !set.contains(&b'\n');
        (is_user_name(user) && is_set).then(|| Name { user: user.to_str_lossy().into_owned(), set: set.into() })
    }

    /// Returns the user and the name of the set.
    pub(crate) fn parts(&self) -> (&str, &BStr) {
        (&self.user, self.set.as_bstr())
    }

    pub(crate) fn id(&self) -> BString {
        [PREFIX, self.user.as_bytes(), b"/", &self.set].concat().into()
    }

    /// Returns the path of the key file below the resource directory.
    pub(crate) fn path(&self) -> PathBuf {
        Path::new(&self.user).join(OsStr::from_bytes(&[&self.set, SUFFIX].concat()))
    }
}

/// Returns true if a name matches `[a-z_][a-z0-9_-]*\$?`.
pub(crate) fn is_user_name(name: &[u8]) -> bool {
    let stem = name.strip_suffix(b"$").unwrap_or(name);
    stem.first().is_some_and(|first| first.is_ascii_lowercase() || *first == b'_')
        && stem.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_parsed_from_ids_and_files() {
        let name = Name::from_id(b"ssh-keyset:jane/home office".as_bstr()).unwrap();
        assert_eq!(name.path(), Path::new("jane/home office.pub"));
        assert_eq!(name.id(), "ssh-keyset:jane/home office");
        assert_eq!(Name::from_file(OsStr::new("jane"), OsStr::new("home office.pub")), Some(name));
        for id in [
            "file:/x",
            "ssh-keyset:jane",
            "ssh-keyset:jane/",
            "ssh-keyset:jane/a/b",
            "ssh-keyset:../x",
            "ssh-keyset:/x",
        ] {
            assert_eq!(Name::from_id(id.into()), None, "{id}");
        }
        for (user, file) in [("jane", "x"), ("jane", ".pub"), ("Jane", "x.pub"), ("jane", "a\nb.pub")] {
            assert_eq!(Name::from_file(OsStr::new(user), OsStr::new(file)), None, "{user}/{file}");
        }
    }

    #[test]
    fn user_names_follow_the_rules_of_useradd() {
        for good in ["a", "_", "www-data", "_apt", "jane_2", "host$"] {
            assert!(is_user_name(good.as_bytes()), "{good}");
        }
        for bad in ["", "$", "-x", "2x", "Jane", "a$b", "a.b", "..", "a/b", "ä"] {
            assert!(!is_user_name(bad.as_bytes()), "{bad}");
        }
    }
}
