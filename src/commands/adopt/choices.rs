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

    /// Returns the directories to search, as paths below the root, and everything else to adopt.
    pub(super) fn included(&self, root: &Root) -> (Vec<PathBuf>, Vec<OsString>) {
        let is_directory = |name: &&String| name.starts_with('/') && root.join(Path::new(name)).is_dir();
        let (directories, others): (Vec<&String>, Vec<&String>) = self.include.iter().partition(is_directory);
        (directories.into_iter().map(PathBuf::from).collect(), others.into_iter().map(OsString::from).collect())
    }

    /// Returns true if an entity is adopted although it is left out by default.
    pub(super) fn includes(&self, id: &BStr) -> bool {
        let names = |text: &BStr| self.include.iter().any(|name| *text == **name);
        names(id) || path_of(id).is_some_and(names)
    }
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
