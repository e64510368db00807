//! The metadata of a generation.

use super::tree::{Inputs, Node};
use holo_protocol::Text;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The maximum number of differences that are listed. Further ones are only counted; they can be computed from the
/// inputs.
const NAMED: usize = 200;

/// A generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// Its number, counted from 1.
    pub number: u32,
    /// The time at which it was recorded.
    pub time: Timestamp,
    /// The ID of the run that recorded it.
    pub run: String,
    /// The ID of the first run with these inputs that may have changed entities. It differs from `run` if that run was
    /// killed before it recorded its inputs.
    pub since: String,
    /// The number of inputs that are files or symlinks.
    pub files: usize,
    /// The number of differences from the previous generation; `None` if it is the first.
    pub counts: Option<Counts>,
    /// The first of these differences.
    pub differences: Vec<Difference>,
    /// The generator of each generated file, by path relative to the resource directories.
    pub generated: Vec<(Text, Text)>,
    /// Files outside of the inputs that symlinks or definitions refer to. They are not part of the generation.
    pub not_kept: Vec<Text>,
}

/// The number of differences from an earlier generation, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// The number of new inputs.
    pub added: usize,
    /// The number of changed inputs.
    pub changed: usize,
    /// The number of removed inputs.
    pub removed: usize,
}

/// A difference from an earlier generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The path of the input, relative to the root.
    pub path: Text,
    /// The kind of difference.
    pub how: How,
}

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// The input is new.
    Added,
    /// The input has changed.
    Changed,
    /// The input was removed.
    Removed,
}

/// Returns the paths at which inputs differ, sorted.
#[must_use]
pub fn differences<'a>(from: &'a Inputs, to: &'a Inputs) -> BTreeMap<&'a Path, How> {
    let gone = from.keys().filter(|path| !to.contains_key(*path)).map(|path| (path.as_path(), How::Removed));
    let other = to.iter().filter_map(|(path, node)| match from.get(path) {
        None => Some((path.as_path(), How::Added)),
        Some(before) if before != node => Some((path.as_path(), How::Changed)),
        Some(_) => None,
    });
    gone.chain(other).collect()
}

impl Generation {
    /// Stores the differences from an earlier generation.
    pub(super) fn note_differences(&mut self, from: &Inputs, to: &Inputs) {
        let mut counts = Counts::default();
        let is_directory = |inputs: &Inputs, path| matches!(inputs.get(path), Some(Node::Directory(_)));
        for (path, how) in differences(from, to) {
            // New and removed directories are implied by their entries.
            if how != How::Changed && (is_directory(from, path) || is_directory(to, path)) {
                continue;
            }
            *match how {
                How::Added => &mut counts.added,
                How::Changed => &mut counts.changed,
                How::Removed => &mut counts.removed,
            } += 1;
            if self.differences.len() < NAMED {
                self.differences.push(Difference { path: path.as_os_str().as_bytes().into(), how });
            }
        }
        self.counts = Some(counts);
    }

    /// Returns the generators of generated files, by path relative to the resource directories.
    #[must_use]
    pub fn generators(&self) -> BTreeMap<PathBuf, PathBuf> {
        use bstr::ByteSlice;
        let path = |text: &Text| text.as_bstr().to_path_lossy().into_owned();
        self.generated.iter().map(|(file, generator)| (path(file), path(generator))).collect()
    }
}
