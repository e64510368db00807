//! The deduplicated contents of original and provisioned files.

use crate::error::{PathError, Result, at};
use crate::hex::hex;
use crate::path_handle::Durability;
use crate::path_handle::{PathHandle, Tree, remove_all};
use crate::shares::in_shares;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

const BUFFER_SIZE: usize = 1 << 16;
const TEMPORARY: &str = ".new";
const FOLDER_MODE: u32 = 0o700;
/// The mode of a content that was written here, which no [linked](super::linking) content has.
pub(super) const WRITTEN_MODE: u32 = 0o600;

/// The key of a content: its SHA-256, as hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Digest(String);

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> std::result::Result<Digest, &'static str> {
        // The digest is used as a file name.
        let is_digest = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_digest { Ok(Digest(text)) } else { Err("a SHA-256 has 64 hexadecimal digits") }
    }
}

impl Digest {
    /// Returns the digest of the remaining data.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(reader: &mut impl Read) -> io::Result<Digest> {
        copy(reader, &mut io::sink(), None)
    }

    /// Returns the digest of a file that had this size when it was examined. If the size is unchanged, no additional
    /// read is needed to detect the end.
    pub(super) fn of_size(reader: &mut impl Read, size: u64) -> io::Result<Digest> {
        copy(reader, &mut io::sink(), Some(size))
    }

    /// Returns the digest of bytes.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Digest {
        Digest::from_hash(Sha256::new_with_prefix(bytes))
    }

    fn from_hash(hash: Sha256) -> Digest {
        Digest(hex(&hash.finalize()))
    }

    /// Returns the hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns a unique name, because several threads may store contents concurrently.
pub(super) fn temporary_name() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    static PROCESS: LazyLock<u32> = LazyLock::new(std::process::id);
    format!("{}-{}{TEMPORARY}", *PROCESS, NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Copies data, and calculates its digest.
pub(super) fn copy(from: &mut impl Read, to: &mut impl Write, size: Option<u64>) -> io::Result<Digest> {
    let mut hash = Sha256::new();
    // One additional byte detects that the file has grown.
    let room = size.and_then(|size| usize::try_from(size).ok()?.checked_add(1));
    let mut buffer = vec![0; room.map_or(BUFFER_SIZE, |room| room.min(BUFFER_SIZE))];
    let mut total = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(Digest::from_hash(hash)),
            Ok(length) => {
                let (read, rest) = buffer.split_at(length);
                hash.update(read);
                to.write_all(read)?;
                total += length as u64;
                if size == Some(total) && !rest.is_empty() {
                    return Ok(Digest::from_hash(hash));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A content that is renamed to its final name after it was synced.
#[derive(Debug)]
pub(super) struct StagedContent {
    temporary: PathHandle,
    place: PathHandle,
}

impl StagedContent {
    /// Returns the file that must be synced before it is kept.
    pub(super) fn file(&self) -> PathHandle {
        self.temporary.clone()
    }

    /// Renames it to its final path, which is returned.
    pub(super) fn keep(self) -> Result<PathHandle> {
        self.temporary.rename_to(&self.place)?;
        Ok(self.place)
    }

    pub(super) fn discard(self) {
        // Files that cannot be removed are removed when the state is tidied up.
        let _ = self.temporary.remove();
    }
}

/// A directory with contents by digest, which is only accessible to its owner.
#[derive(Clone, Debug)]
pub struct Contents {
    tree: Arc<Tree>,
    folder: PathBuf,
    /// True if the directory is known to exist.
    has_folder: Arc<Mutex<bool>>,
}

impl Contents {
    pub(super) fn new(tree: &Arc<Tree>, folder: PathBuf) -> Contents {
        Contents { tree: Arc::clone(tree), folder, has_folder: Arc::default() }
    }

    /// Returns the contents for a tree that was opened again.
    pub(super) fn in_tree(&self, tree: &Arc<Tree>) -> Contents {
        Contents { tree: Arc::clone(tree), ..self.clone() }
    }

    pub(super) fn place(&self, name: &str) -> PathHandle {
        self.tree.place(&self.folder.join(name))
    }

    /// Stores the content of a file. When this returns, it is on disk.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn keep(&self, place: &PathHandle) -> Result<Digest> {
        self.keep_file(&mut place.open()?, &place.shown())
    }

    /// Stores the remaining data of an open file.
    pub(super) fn keep_file(&self, file: &mut File, shown: &Path) -> Result<Digest> {
        let (digest, staged) = self.stage(file, shown)?;
        keep_all(staged)?;
        Ok(digest)
    }

    /// Stores several contents with at most this number of threads, and a single sync.
    ///
    /// # Errors
    /// If a content cannot be written.
    pub fn keep_many<'b>(&self, all: impl IntoIterator<Item = &'b [u8]>, threads: usize) -> Result<()> {
        let all: Vec<&[u8]> = all.into_iter().collect();
        let reopen = || Ok(self.in_tree(&self.tree.reopen()?));
        let mut staged = Vec::new();
        let mut failed = Ok(());
        for content in in_shares(&all, threads, self, reopen, |bytes, contents| contents.stage_bytes(bytes)) {
            match content {
                Ok(content) => staged.extend(content),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        if failed.is_err() {
            staged.into_iter().for_each(StagedContent::discard);
            return failed;
        }
        keep_all(staged)
    }

    /// Stages bytes; `None` if they are already stored.
    pub(super) fn stage_bytes(&self, bytes: &[u8]) -> Result<Option<StagedContent>> {
        let digest = Digest::of_bytes(bytes);
        if self.has(&digest)? {
            return Ok(None);
        }
        let temporary = self.place(&temporary_name());
        self.create_folder()?;
        let written = temporary.create()?.write_all(bytes);
        let staged = StagedContent { place: self.place(digest.as_str()), temporary };
        match written {
            Ok(()) => Ok(Some(staged)),
            Err(error) => {
                staged.discard();
                Err(PathError::new("copy", self.folder.clone(), error))
            }
        }
    }

    /// Stages a copy of a file; `None` if its content is already stored.
    pub(super) fn stage_file(&self, place: &PathHandle) -> Result<Option<StagedContent>> {
        self.stage(&mut place.open()?, &place.shown()).map(|(_, staged)| staged)
    }

    fn stage(&self, from: &mut impl Read, shown: &Path) -> Result<(Digest, Option<StagedContent>)> {
        let temporary = self.place(&temporary_name());
        self.create_folder()?;
        let mut file = temporary.create()?;
        let staged = copy(from, &mut file, None).map_err(at("copy", shown)).and_then(|digest| {
            let place = self.place(digest.as_str());
            if self.has(&digest)? {
                temporary.remove()?;
                return Ok((digest, None));
            }
            Ok((digest, Some(StagedContent { temporary: temporary.clone(), place })))
        });
        if staged.is_err() {
            let _ = temporary.remove();
        }
        staged
    }

    /// Returns true if a content is stored and can be used by any path. A lent content may be modified through its
    /// path, and a linked one belongs to the path where it was found.
    pub(super) fn has(&self, digest: &Digest) -> Result<bool> {
        let stat = self.place(digest.as_str()).stat()?;
        Ok(stat.is_some_and(|stat| stat.names == 1 && stat.mode == WRITTEN_MODE))
    }

    /// Creates the directory. It is only accessible to its owner, because a digest could confirm a guessed content.
    pub(super) fn create_folder(&self) -> Result<()> {
        let mut has_folder = self.lock_has_folder();
        if *has_folder {
            return Ok(());
        }
        let folder = self.tree.place(&self.folder);
        if folder.stat()?.is_none() {
            folder.create_folder()?;
            folder.create_directory(FOLDER_MODE)?;
        }
        if folder.stat()?.is_some_and(|stat| stat.mode != FOLDER_MODE) {
            folder.change_mode(FOLDER_MODE)?;
        }
        *has_folder = true;
        Ok(())
    }

    fn lock_has_folder(&self) -> MutexGuard<'_, bool> {
        self.has_folder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores bytes.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn keep_bytes(&self, bytes: &[u8]) -> Result<Digest> {
        keep_all(self.stage_bytes(bytes)?)?;
        Ok(Digest::of_bytes(bytes))
    }

    /// Opens a content.
    ///
    /// # Errors
    /// If it does not exist, or cannot be opened.
    pub fn open(&self, digest: &Digest) -> Result<File> {
        self.place(digest.as_str()).open()
    }

    /// Returns the path of a content.
    #[must_use]
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.place(digest.as_str()).shown()
    }

    /// Reads a content.
    ///
    /// # Errors
    /// If it does not exist, or cannot be read.
    pub fn read(&self, digest: &Digest) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.open(digest)?.read_to_end(&mut bytes);
        read.map_err(|error| PathError::new("read", self.path(digest), error))?;
        Ok(bytes)
    }

    /// Removes unused contents, and incomplete ones of a killed run. When this returns, the removal is on disk.
    ///
    /// # Errors
    /// If the directory cannot be read, or a file cannot be removed.
    pub fn keep_only(&self, used: &BTreeSet<Digest>) -> Result<()> {
        let folder = self.place("x");
        let is_used = |name: &OsString| {
            let digest = name.to_str().and_then(|name| Digest::try_from(name.to_owned()).ok());
            digest.is_some_and(|digest| used.contains(&digest))
        };
        let unused = folder.siblings()?.into_iter().filter(|name| !is_used(name)).map(|name| folder.sibling(&name));
        let mut removed: Vec<PathHandle> = unused.collect();
        remove_all(&removed)?;
        if used.is_empty() {
            *self.lock_has_folder() = false;
            let folder = self.tree.place(&self.folder);
            folder.remove_directory()?;
            removed.push(folder);
        }
        Durability::of(removed.len()).sync([], &removed)
    }
}

/// Stores staged contents. When this returns, they are on disk.
fn keep_all(staged: impl IntoIterator<Item = StagedContent>) -> Result<()> {
    let staged: Vec<StagedContent> = staged.into_iter().collect();
    let durability = Durability::of(staged.len());
    let files: Vec<PathHandle> = staged.iter().map(StagedContent::file).collect();
    if let Err(error) = durability.sync(&files, []) {
        staged.into_iter().for_each(StagedContent::discard);
        return Err(error);
    }
    let mut places = Vec::new();
    let mut kept = Ok(());
    for content in staged {
        match kept {
            Ok(()) => kept = content.keep().map(|place| places.push(place)),
            Err(_) => content.discard(),
        }
    }
    kept.and_then(|()| durability.sync([], &places))
}
