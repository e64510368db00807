//! `/etc/holo/adopt.toml`: what `adopt --all` leaves out on this machine, and what it adopts in addition.

use crate::error::FatalError;
use crate::host::root::Root;
use crate::plan::select::looks_like_id;
use bstr::{BStr, ByteSlice};
use glob::Pattern;
use holo_definitions::read_document;
use serde::Deserialize;
use serde::de::{self, Deserializer};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The path of the file, below the root.
pub(super) const PATH: &str = "/etc/holo/adopt.toml";

/// The choices of an administrator.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Choices {
    /// Entities to leave out, by patterns of their IDs or paths.
    #[serde(deserialize_with = "patterns")]
    exclude: Vec<Pattern>,
    /// Directories to search in addition, and files and entities that are left out by default.
    #[serde(deserialize_with = "names")]
    include: Vec<String>,
}

impl Choices {
    /// Reads the file, if there is one.
    pub(super) fn read(root: &Root) -> Result<Choices, FatalError> {
        let choices = read_document(&root.join(Path::new(PATH))).map_err(FatalError::could_not_run)?;
        Ok(choices.unwrap_or_default())
    }

    /// Returns true if an entity is left out.
    pub(super) fn excludes(&self, id: &BStr) -> bool {
        let texts = [Some(id), path_of(id)];
        let is_meant = |text: &BStr| self.exclude.iter().any(|pattern| pattern.matches(&text.to_str_lossy()));
        texts.into_iter().flatten().any(is_meant)
    }

    /// Sorts what is to be adopted in addition.
    pub(super) fn included(&self, root: &Root) -> Included {
        let mut included = Included::default();
        for name in &self.include {
            let path = root.join(Path::new(name));
            if !name.starts_with('/') {
                included.others.push(name.into());
            } else if path.is_dir() {
                // Without a slash at the end.
                included.directories.push(Path::new(name).components().collect());
            } else if path.symlink_metadata().is_ok() {
                included.others.push(name.into());
            } else {
                included.missing.push(name.clone());
            }
        }
        included
    }

    /// Returns true if an entity is adopted although it is left out by default.
    pub(super) fn includes(&self, id: &BStr) -> bool {
        let names = |text: &BStr| self.include.iter().any(|name| *text == **name);
        names(id) || path_of(id).is_some_and(names)
    }
}

/// What an administrator has included.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Included {
    /// The directories to search, as paths below the root.
    pub(super) directories: Vec<PathBuf>,
    /// Files and entities to adopt.
    pub(super) others: Vec<OsString>,
    /// Paths that do not exist.
    pub(super) missing: Vec<String>,
}

/// Returns the path in the ID of a file.
fn path_of(id: &BStr) -> Option<&BStr> {
    id.split_once_str(":").map(|(_, path)| path.as_bstr()).filter(|path| path.starts_with(b"/"))
}

fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let names: Vec<String> = Vec::deserialize(deserializer)?;
    let is_odd = |name: &&String| !name.starts_with('/') && !looks_like_id(name.as_bytes().as_bstr());
    match names.iter().find(is_odd) {
        Some(odd) => Err(de::Error::custom(format!("{odd:?} is neither an absolute path nor the ID of an entity"))),
        None => Ok(names),
    }
}

fn patterns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Pattern>, D::Error> {
    let texts: Vec<String> = Vec::deserialize(deserializer)?;
    let pattern = |text: String| {
        Pattern::new(&text).map_err(|error| de::Error::custom(format!("{text:?} is not a pattern: {}", error.msg)))
    };
    texts.into_iter().map(pattern).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_included_is_sorted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("srv/www")).unwrap();
        std::fs::write(folder.path().join("srv/file"), "").unwrap();
        let include = ["/srv/www/", "/srv/file", "/srv/gone", "package:vim"].map(str::to_owned).to_vec();
        let included = Choices { include, ..Choices::default() }.included(&Root::new(Some(folder.path().into())));
        let expected = Included {
            directories: vec!["/srv/www".into()],
            others: vec!["/srv/file".into(), "package:vim".into()],
            missing: vec!["/srv/gone".to_owned()],
        };
        assert_eq!(included, expected);
    }
}
