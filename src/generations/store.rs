//! The recorded generations: their packs, and which of them are still needed.

use super::generation::{Generation, VERSION};
use super::pack::{self, Contents, PackError};
use super::tree::{self, Digest, Inputs, Node, TreeError};
use crate::error::IoError;
use crate::host::root::Root;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The extension of the pack of a generation.
const PACK: &str = "pack";
/// The extension of a pack that other generations need after its own was removed.
const OBJECTS: &str = "objects";

/// The directory of generations.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) directory: PathBuf,
}

/// A generation cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GenerationError {
    /// The directory cannot be read.
    #[error(transparent)]
    Io(#[from] IoError),
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
    /// Its pack cannot be used.
    #[error("cannot use generation {number}: {}: {error}", path.display())]
    Pack {
        /// Its number.
        number: u32,
        /// The path of the pack.
        path: PathBuf,
        /// The reason.
        error: PackError,
    },
    /// An object is missing.
    #[error("cannot use generation {number}: {object} is in none of its packs in {}", directory.display())]
    Missing {
        /// Its number.
        number: u32,
        /// The digest of the object.
        object: Digest,
        /// The directory of the packs.
        directory: PathBuf,
    },
    /// It was recorded by a newer version.
    #[error("cannot use generation {number}: it is of version {version}, and only {VERSION} is known")]
    Version {
        /// Its number.
        number: u32,
        /// The version.
        version: u32,
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
        Store { directory: root.generations() }
    }

    /// Creates the directory, with access only for its owner, if it is missing.
    pub(super) fn create(&self) -> io::Result<()> {
        if self.directory.is_dir() {
            return Ok(());
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)
    }

    /// Returns the numbers of the generations, in order.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn numbers(&self) -> Result<Vec<u32>, GenerationError> {
        Ok(self.packs()?.into_iter().filter(|(_, kind)| *kind == PACK).map(|(number, _)| number).collect())
    }

    /// Returns the numbers of all packs, each with its extension.
    fn packs(&self) -> Result<BTreeMap<u32, &'static str>, GenerationError> {
        let failed = |error| GenerationError::Io(IoError::new("open", &self.directory, error));
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut packs = BTreeMap::new();
        for entry in entries {
            let name = PathBuf::from(entry.map_err(failed)?.file_name());
            let number = name.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            let kind = name.extension().and_then(|kind| [PACK, OBJECTS].into_iter().find(|known| kind == *known));
            if let (Some(number), Some(kind)) = (number, kind) {
                // If both files exist, the generation takes precedence.
                let kind = if packs.get(&number) == Some(&PACK) { PACK } else { kind };
                packs.insert(number, kind);
            }
        }
        Ok(packs)
    }

    /// Returns the path of a pack that is being written.
    pub(super) fn unfinished(&self) -> PathBuf {
        self.directory.join("unfinished")
    }

    /// Returns the path of the marker file of a run that may have changed entities and has not recorded its inputs yet.
    pub(super) fn unrecorded(&self) -> PathBuf {
        self.directory.join("unrecorded")
    }

    /// Returns the path of the values that describe the states of entities.
    pub(super) fn values(&self) -> PathBuf {
        self.directory.join("values.jsonl")
    }

    /// Returns the path of the stamps of the last generation's inputs.
    pub(super) fn stamps(&self) -> PathBuf {
        self.directory.join("stamps")
    }

    pub(super) fn pack(&self, number: u32) -> PathBuf {
        self.directory.join(format!("{number:06}.{PACK}"))
    }

    /// Returns the path of a pack, whether or not its own generation still exists.
    fn objects(&self, number: u32) -> PathBuf {
        let pack = self.pack(number);
        if pack.exists() { pack } else { pack.with_extension(OBJECTS) }
    }

    fn contents(&self, number: u32) -> Result<Contents, GenerationError> {
        let path = self.objects(number);
        let contents =
            pack::contents(&path).map_err(|error| GenerationError::Pack { number, path: path.clone(), error })?;
        let Generation { version, number: own, .. } = contents.generation;
        if version != VERSION {
            return Err(GenerationError::Version { number, version });
        }
        if own != number {
            return Err(GenerationError::Pack { number, path, error: PackError::Damaged });
        }
        Ok(contents)
    }

    /// Returns the generations, in order.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, GenerationError> {
        let listed = |number| (number, self.contents(number).map(|contents| contents.generation));
        Ok(self.numbers()?.into_iter().map(listed).collect())
    }

    /// Returns a generation.
    ///
    /// # Errors
    /// If there is none with this number, or its pack cannot be used.
    pub fn generation(&self, number: u32) -> Result<Generation, GenerationError> {
        let known = self.numbers()?;
        if !known.contains(&number) {
            return Err(GenerationError::Unknown { number, known });
        }
        Ok(self.contents(number)?.generation)
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
    /// If one of its packs cannot be used, or a directory is in none of them.
    pub fn inputs(&self, generation: &Generation) -> Result<Inputs, GenerationError> {
        let number = generation.number;
        let mut directories: HashMap<Digest, Vec<u8>> = HashMap::new();
        for pack in packs_of(generation) {
            let path = self.objects(pack);
            let read = pack::directories(&path).map_err(|error| GenerationError::Pack { number, path, error });
            directories.extend(read?);
        }
        let missing = |object| GenerationError::Missing { number, object, directory: self.directory.clone() };
        let object = |digest| directories.get(&digest).cloned().ok_or_else(|| missing(digest));
        tree::read(generation.tree, object).map_err(|error| match error {
            TreeError::Object(error) => error,
            TreeError::NotDirectory(object) => missing(object),
        })
    }

    /// Passes the content of each of these files of a generation to `take`, once per content. When this returns `Ok`,
    /// all contents have been verified.
    ///
    /// # Errors
    /// If a pack cannot be used or a content is in none of them, and those of `take`.
    pub fn read_files<T>(
        &self,
        generation: &Generation,
        mut wanted: HashMap<Digest, T>,
        mut take: impl FnMut(T, &mut dyn Read) -> Result<(), IoError>,
    ) -> Result<(), GenerationError> {
        let number = generation.number;
        for pack in packs_of(generation) {
            if wanted.is_empty() {
                break;
            }
            let path = self.objects(pack);
            let read = pack::read(&path, &mut wanted, |_, with, content| Ok(take(with, content)?));
            read.map_err(|error| match error {
                ReadError::Pack(error) => GenerationError::Pack { number, path, error },
                ReadError::Take(error) => GenerationError::Io(error),
            })?;
        }
        match wanted.into_keys().next() {
            None => Ok(()),
            Some(object) => Err(GenerationError::Missing { number, object, directory: self.directory.clone() }),
        }
    }

    /// Maps all objects to the packs that contain them. Objects of unreadable packs are left out.
    pub(super) fn known(&self) -> Result<HashMap<Digest, u32>, GenerationError> {
        let mut known = HashMap::new();
        for number in self.packs()?.into_keys() {
            let Ok(Contents { objects, directories, .. }) = self.contents(number) else { continue };
            known.extend(objects.into_iter().chain(directories).map(|(digest, _)| (digest, number)));
        }
        Ok(known)
    }

    /// Returns the last generation and its inputs, if it can be used.
    pub(super) fn last(&self) -> Result<Option<(Generation, Inputs)>, GenerationError> {
        let Some(number) = self.numbers()?.last().copied() else { return Ok(None) };
        let last = self.contents(number).and_then(|contents| {
            let inputs = self.inputs(&contents.generation)?;
            Ok((contents.generation, inputs))
        });
        Ok(last.ok())
    }

    /// Returns the number of the next generation. Numbers are never reused.
    pub(super) fn next_number(&self) -> Result<u32, GenerationError> {
        Ok(self.packs()?.keys().last().map_or(1, |last| last + 1))
    }

    /// Removes all generations except the last `keep` and the pinned one, and packs that no generation needs.
    ///
    /// # Errors
    /// If a generation that is kept cannot be read, as it may need any pack; none is removed in this case.
    pub(super) fn tidy(&self, keep: usize, pinned: Option<u32>) -> Result<(), GenerationError> {
        let packs = self.packs()?;
        let numbers: Vec<u32> = self.numbers()?;
        let (old, kept) = numbers.split_at(numbers.len().saturating_sub(keep.max(1)));
        let (pinned, old): (Vec<u32>, Vec<u32>) = old.iter().partition(|number| Some(**number) == pinned);
        if old.is_empty() && packs.values().all(|kind| *kind == PACK) {
            return Ok(());
        }
        let mut needed = BTreeSet::new();
        for &number in kept.iter().chain(&pinned) {
            needed.extend(packs_of(&self.contents(number)?.generation));
        }
        let failed = |path: &Path, error| GenerationError::Io(IoError::new("rename", path, error));
        for number in old {
            let path = self.pack(number);
            fs::rename(&path, path.with_extension(OBJECTS)).map_err(|error| failed(&path, error))?;
        }
        for number in packs.keys().filter(|number| !needed.contains(number)) {
            let path = self.pack(*number).with_extension(OBJECTS);
            fs::remove_file(&path).map_err(|error| GenerationError::Io(IoError::new("remove", &path, error)))?;
        }
        Ok(())
    }
}

/// Returns the numbers of all packs with objects of a generation.
fn packs_of(generation: &Generation) -> impl Iterator<Item = u32> {
    generation.packs.iter().copied().chain([generation.number])
}

/// The content of a file cannot be read or written.
enum ReadError {
    Pack(PackError),
    Take(IoError),
}

impl From<PackError> for ReadError {
    fn from(error: PackError) -> ReadError {
        ReadError::Pack(error)
    }
}

impl From<IoError> for ReadError {
    fn from(error: IoError) -> ReadError {
        ReadError::Take(error)
    }
}

/// Returns the digests of all files among inputs.
pub(super) fn contents_of(inputs: &Inputs) -> impl Iterator<Item = Digest> {
    inputs.values().filter_map(|node| if let Node::File { content, .. } = node { Some(*content) } else { None })
}

/// Creates a temporary file that will replace another one.
pub(super) fn create_beside(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path.with_extension("new"))
}

/// Replaces a file by its temporary file, without a sync: readers detect incomplete files.
pub(super) fn take_place(path: &Path) -> io::Result<()> {
    fs::rename(path.with_extension("new"), path)
}

/// Replaces a file, and waits until the change is on disk.
pub(super) fn replace_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create_beside(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    take_place(path)?;
    sync_directory_of(path)
}

/// Syncs the directory that contains a path.
pub(super) fn sync_directory_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| match File::open(parent)?.sync_all() {
        // Some file systems do not support this for directories.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    })
}
