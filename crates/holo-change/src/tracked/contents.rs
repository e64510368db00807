//! The contents of files that were found or made, each once.

use crate::error::{PathError, Result, at};
use crate::path_handle::Durability;
use crate::path_handle::{PathHandle, Tree};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BUFFER_SIZE: usize = 1 << 16;
const TEMPORARY: &str = ".new";
const FOLDER_MODE: u32 = 0o700;

/// The key of a content: its SHA-256, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Digest(String);

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> std::result::Result<Digest, &'static str> {
        // It names a file.
        let is_digest = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_digest { Ok(Digest(text)) } else { Err("a SHA-256 has 64 hexadecimal digits") }
    }
}

impl Digest {
    /// The digest of everything that is left to read.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(reader: &mut impl Read) -> io::Result<Digest> {
        copy(reader, &mut io::sink())
    }

    /// The digest of bytes.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Digest {
        Digest::from_hash(Sha256::new_with_prefix(bytes))
    }

    fn from_hash(hash: Sha256) -> Digest {
        Digest(hash.finalize().iter().fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        }))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The beginning of a name that is ours alone: several threads may keep contents at the same time.
fn of_ours() -> String {
    let thread = format!("{:?}", std::thread::current().id());
    let number: String = thread.chars().filter(char::is_ascii_digit).collect();
    format!("{}-{number}-", std::process::id())
}

/// Copies, and finds out the digest on the way.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<Digest> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; BUFFER_SIZE];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(Digest::from_hash(hash)),
            Ok(length) => {
                hash.update(&buffer[..length]);
                to.write_all(&buffer[..length])?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A folder of contents, by their digests. Only we can read them.
#[derive(Clone, Debug)]
pub struct Contents {
    tree: Arc<Tree>,
    folder: PathBuf,
}

impl Contents {
    pub(super) fn new(tree: &Arc<Tree>, folder: PathBuf) -> Contents {
        Contents { tree: Arc::clone(tree), folder }
    }

    fn place(&self, name: &str) -> PathHandle {
        self.tree.place(&self.folder.join(name))
    }

    /// Keeps the content of the file at a place: when this returns, it is on disk.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn keep(&self, place: &PathHandle) -> Result<Digest> {
        self.keep_from(&mut place.open()?, &place.shown())
    }

    /// Keeps everything that is left to read of an open file.
    pub(super) fn keep_file(&self, file: &mut File, shown: &Path) -> Result<Digest> {
        self.keep_from(file, shown)
    }

    /// Returns true if a content is kept.
    pub(super) fn has(&self, digest: &Digest) -> Result<bool> {
        self.place(digest.as_str()).exists()
    }

    /// Makes the folder, which only we can look into: a digest would confirm a guess at a content.
    fn create_folder(&self) -> Result<()> {
        let folder = self.tree.place(&self.folder);
        if folder.stat()?.is_none() {
            folder.create_folder()?;
            folder.create_directory(FOLDER_MODE)?;
        }
        if folder.stat()?.is_some_and(|stat| stat.mode != FOLDER_MODE) {
            folder.change_mode(FOLDER_MODE)?;
        }
        Ok(())
    }

    /// Keeps bytes.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn keep_bytes(&self, bytes: &[u8]) -> Result<Digest> {
        let digest = Digest::of_bytes(bytes);
        if self.place(digest.as_str()).exists()? { Ok(digest) } else { self.keep_from(&mut &*bytes, &self.folder) }
    }

    /// Keeps many contents, all made to last at once.
    ///
    /// # Errors
    /// If one cannot be written.
    pub fn keep_many<'b>(&self, all: impl IntoIterator<Item = &'b [u8]>) -> Result<()> {
        let mut new = Vec::new();
        for bytes in all {
            let place = self.place(Digest::of_bytes(bytes).as_str());
            if !place.exists()? {
                new.push((place, bytes));
            }
        }
        new.dedup_by(|(one, _), (other, _)| one.path() == other.path());
        let durability = Durability::of(new.len());
        let temporary: Vec<PathHandle> = new
            .iter()
            .enumerate()
            .map(|(number, _)| self.place(&format!("{}{number}{TEMPORARY}", of_ours())))
            .collect();
        if !new.is_empty() {
            self.create_folder()?;
        }
        let kept = temporary.iter().zip(&new).try_for_each(|(temporary, (_, bytes))| {
            temporary.create()?.write_all(bytes).map_err(at("write", &temporary.shown()))
        });
        let kept = kept.and_then(|()| durability.sync(&temporary, []));
        let kept = kept.and_then(|()| {
            temporary.iter().zip(&new).try_for_each(|(temporary, (place, _))| temporary.rename_to(place))
        });
        if kept.is_err() {
            temporary.iter().for_each(|temporary| drop(temporary.remove()));
        }
        kept.and_then(|()| durability.sync([], new.iter().map(|(place, _)| place)))
    }

    fn keep_from(&self, from: &mut impl Read, shown: &Path) -> Result<Digest> {
        let temporary = self.place(&format!("{}{TEMPORARY}", of_ours()));
        self.create_folder()?;
        let mut file = temporary.create()?;
        let kept = copy(from, &mut file).map_err(at("copy", shown));
        let kept = kept.and_then(|digest| {
            let place = self.place(digest.as_str());
            if place.exists()? {
                temporary.remove()?;
            } else {
                Durability::Each.sync([&temporary], [])?;
                temporary.rename_to(&place)?;
                Durability::Each.sync([], [&place])?;
            }
            Ok(digest)
        });
        if kept.is_err() {
            let _ = temporary.remove();
        }
        kept
    }

    /// Opens a content.
    ///
    /// # Errors
    /// If it is not there, or cannot be opened.
    pub fn open(&self, digest: &Digest) -> Result<File> {
        self.place(digest.as_str()).open()
    }

    /// The path of a content, for reading it by a path.
    #[must_use]
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.place(digest.as_str()).shown()
    }

    /// All of a content.
    ///
    /// # Errors
    /// If it is not there, or cannot be read.
    pub fn read(&self, digest: &Digest) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.open(digest)?.read_to_end(&mut bytes);
        read.map_err(|error| PathError::new("read", self.path(digest), error))?;
        Ok(bytes)
    }

    /// Removes the contents that are not used any more, and what a killed run has left half written.
    ///
    /// # Errors
    /// If the folder cannot be read, or a file in it not be removed.
    pub fn keep_only(&self, used: &BTreeSet<Digest>) -> Result<()> {
        let folder = self.place("x");
        for name in folder.siblings()? {
            let is_used = name
                .to_str()
                .is_some_and(|name| Digest::try_from(name.to_owned()).is_ok_and(|digest| used.contains(&digest)));
            if !is_used {
                folder.sibling(&name).remove()?;
            }
        }
        if used.is_empty() {
            self.tree.place(&self.folder).remove_directory()?;
        }
        Ok(())
    }
}
