//! The recorded generations, with their metadata.

use super::inputs::{Inputs, Node};
use crate::error::IoError;
use crate::host::root::Root;
use holo_change::tracked::{Contents, Digest};
use holo_change::{Locations, PathError, Tree};
use holo_protocol::Text;
use holo_state::{Input, StateError};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directory of large contents, in that of the dispatcher.
const CONTENTS: &str = "generations/contents";

/// The generations of a system.
#[derive(Clone, Debug)]
pub struct Store {
    /// The directory of what is not in the state database.
    pub(super) directory: PathBuf,
    locations: Locations,
}

/// A generation cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GenerationError {
    /// A file cannot be read or written.
    #[error(transparent)]
    Io(#[from] IoError),
    /// A content cannot be read or written.
    #[error(transparent)]
    Content(#[from] PathError),
    /// The state database cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// There is no such generation.
    #[error("there is no generation {number}{}", Known(.known))]
    Unknown {
        /// Its number.
        number: u32,
        /// The numbers of the existing generations.
        known: Vec<u32>,
    },
    /// The current generation is the first one.
    #[error("there is no generation before {0}")]
    NoneBefore(u32),
    /// There are no generations.
    #[error("no generation has been saved yet; an apply that makes changes saves its inputs")]
    None,
    /// An input cannot be read.
    #[error("cannot use generation {number}: {}: {reason}", path.display())]
    Damaged {
        /// Its number.
        number: u32,
        /// The path of the input, or of the state database.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// Formats the end of a sentence that lists the existing generations.
struct Known<'a>(&'a [u32]);

impl std::fmt::Display for Known<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            [] => f.write_str("; none has been kept yet"),
            [one] => write!(f, "; there is only {one}"),
            [first, .., last] => write!(f, "; there are {first} to {last}"),
        }
    }
}

/// An existing generation, or the reason for which it cannot be used.
pub type Listed = (u32, Result<Generation, GenerationError>);

impl Store {
    /// Returns the generations of a system.
    #[must_use]
    pub fn new(root: &Root) -> Store {
        Store { directory: root.generations(), locations: root.engine_locations() }
    }

    /// Creates the directory, with access only for its owner, if it is missing.
    pub(super) fn create(&self) -> io::Result<()> {
        if self.directory.is_dir() {
            return Ok(());
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)
    }

    /// Returns the contents of all inputs.
    pub(super) fn contents(&self) -> Result<Contents, PathError> {
        let (plugin, directory) = (self.locations.plugin(), self.locations.state_dir());
        // The state database is there, but the directory need not be.
        let tree = Tree::open(directory.parent().unwrap_or(directory))?;
        Ok(Contents::new(self.locations.database(), &plugin, &tree, Path::new(&plugin).join(CONTENTS)))
    }

    /// Returns the state database, for this thread alone until the result is dropped.
    pub(super) fn database(&self) -> std::sync::MutexGuard<'_, holo_state::Database> {
        self.locations.database().lock()
    }

    /// Returns the numbers of the generations, in order.
    ///
    /// # Errors
    /// If the state database cannot be read.
    pub fn numbers(&self) -> Result<Vec<u32>, GenerationError> {
        Ok(self.database().generations()?.into_iter().map(|(number, _)| number).collect())
    }

    /// Returns the path of the marker file of a run that may have changed entities and has not recorded its inputs yet.
    pub(super) fn unrecorded(&self) -> PathBuf {
        self.directory.join("unrecorded")
    }

    /// Returns true if a run may have changed entities and has not recorded its inputs.
    #[must_use]
    pub fn has_unrecorded(&self) -> bool {
        self.unrecorded().exists()
    }

    /// Returns the generations, in order.
    ///
    /// # Errors
    /// If the state database cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, GenerationError> {
        let database = self.database();
        let listed = |(number, value): (u32, String)| {
            let generation = serde_json::from_str(&value).map_err(|error| GenerationError::Damaged {
                number,
                path: database.path().to_owned(),
                reason: error.to_string(),
            });
            (number, generation)
        };
        Ok(database.generations()?.into_iter().map(listed).collect())
    }

    /// Returns a generation.
    ///
    /// # Errors
    /// If there is none with this number, or its metadata cannot be used.
    pub fn generation(&self, number: u32) -> Result<Generation, GenerationError> {
        let mut listed = self.list()?;
        match listed.iter().position(|(listed, _)| *listed == number) {
            Some(index) => listed.swap_remove(index).1,
            None => {
                Err(GenerationError::Unknown { number, known: listed.into_iter().map(|(known, _)| known).collect() })
            }
        }
    }

    /// Returns the number of the generation before this one, or before the last one.
    ///
    /// # Errors
    /// If there is none.
    pub fn before(&self, current: Option<u32>) -> Result<u32, GenerationError> {
        let numbers = self.numbers()?;
        let current = current.or_else(|| numbers.last().copied()).ok_or(GenerationError::None)?;
        let before = numbers.into_iter().rfind(|number| *number < current);
        before.ok_or(GenerationError::NoneBefore(current))
    }

    /// Returns the inputs of a generation.
    ///
    /// # Errors
    /// If the state database cannot be read, or an input in it is damaged.
    pub fn inputs(&self, number: u32) -> Result<Inputs, GenerationError> {
        let database = self.database();
        let damaged = || GenerationError::Damaged {
            number,
            path: database.path().to_owned(),
            reason: "an input is damaged".to_owned(),
        };
        database.inputs(number)?.iter().map(|input| Node::from_input(input).ok_or_else(damaged)).collect()
    }

    /// Passes the content of each of these files of a generation to `take`, once per content.
    ///
    /// # Errors
    /// If a content is missing or damaged, and those of `take`.
    pub fn read_files<T>(
        &self,
        number: u32,
        wanted: HashMap<Digest, T>,
        mut take: impl FnMut(T, &mut dyn Read) -> Result<(), IoError>,
    ) -> Result<(), GenerationError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let contents = self.contents()?;
        for (digest, with) in wanted {
            // Large contents are not held in memory, so they are read twice.
            if !Digest::of(&mut contents.open(&digest)?).is_ok_and(|read| read == digest) {
                let path = self.database().path().to_owned();
                let reason = format!("the content {} is damaged", digest.as_str());
                return Err(GenerationError::Damaged { number, path, reason });
            }
            take(with, &mut contents.open(&digest)?)?;
        }
        Ok(())
    }

    /// Returns the number of the last generation, and its inputs with their stamps.
    pub(super) fn last(&self) -> Result<Option<(u32, Vec<Input>)>, GenerationError> {
        let Some(number) = self.numbers()?.pop() else { return Ok(None) };
        Ok(Some((number, self.database().inputs(number)?)))
    }

    /// Removes all generations except the last `keep` and the pinned one, and contents that no generation needs.
    ///
    /// # Errors
    /// If the state database cannot be written, or a file cannot be removed.
    pub(super) fn tidy(&self, keep: usize, pinned: Option<u32>) -> Result<(), GenerationError> {
        let mut old = self.numbers()?;
        old.truncate(old.len().saturating_sub(keep.max(1)));
        old.retain(|number| Some(*number) != pinned);
        if old.is_empty() {
            return Ok(());
        }
        self.database().remove_generations(&old)?;
        let needed = self.database().input_contents()?.into_iter().filter_map(|text| Digest::try_from(text).ok());
        Ok(self.contents()?.keep_only(&needed.collect::<BTreeSet<_>>())?)
    }
}

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
