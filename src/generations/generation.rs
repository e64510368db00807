//! What is known of a generation beside its inputs.

use super::digest::Digest;
use super::tree::{Inputs, Node};
use holo_protocol::Text;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The version of what is written.
pub(super) const VERSION: u32 = 1;
/// The number of differences that are kept by their paths. What is beyond is counted, and can be found out from the inputs.
const NAMED: usize = 200;

/// A generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// The version of the form in which it is kept.
    pub version: u32,
    /// Its number, counted up from 1.
    pub number: u32,
    /// The time at which it was kept.
    pub time: Timestamp,
    /// The ID of the run that kept it.
    pub run: String,
    /// The ID of the first run that had these inputs and may have changed something: one that was killed has not kept them.
    pub since: String,
    /// The digest of the topmost directory.
    pub tree: Digest,
    /// The other packs that have objects of it.
    pub packs: Vec<u32>,
    /// The number of its inputs that are files or symlinks.
    pub files: usize,
    /// The number of differences from the generation before it; nothing if it is the first.
    pub counts: Option<Counts>,
    /// The first of these differences.
    pub differences: Vec<Difference>,
    /// The generator of each file that one made, by its path below the resource directories.
    pub generated: Vec<(Text, Text)>,
    /// The files that symlinks among the inputs lead to, and that definitions name elsewhere: those are not kept.
    pub not_kept: Vec<Text>,
}

/// The numbers of differences from an earlier generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// The number of inputs that are new.
    pub added: usize,
    /// The number of inputs that are not as they were.
    pub changed: usize,
    /// The number of inputs that are gone.
    pub removed: usize,
}

/// A difference from an earlier generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The path of the input, below the root.
    pub path: Text,
    /// How it differs.
    pub how: How,
}

/// The way in which an input differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// It is new.
    Added,
    /// It is not as it was.
    Changed,
    /// It is gone.
    Removed,
}

/// Returns the paths at which inputs differ, in their order.
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
    /// Takes note of the differences from an earlier one.
    pub(super) fn note_differences(&mut self, from: &Inputs, to: &Inputs) {
        let mut counts = Counts::default();
        let is_directory = |inputs: &Inputs, path| matches!(inputs.get(path), Some(Node::Directory(_)));
        for (path, how) in differences(from, to) {
            // Directories come and go with what is in them.
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

    /// Returns the generators of files, by the paths of these below the resource directories.
    #[must_use]
    pub fn generators(&self) -> BTreeMap<PathBuf, PathBuf> {
        use bstr::ByteSlice;
        let path = |text: &Text| text.as_bstr().to_path_lossy().into_owned();
        self.generated.iter().map(|(file, generator)| (path(file), path(generator))).collect()
    }
}
