//! The deduplicated contents of original and provisioned files.

use crate::error::{PathError, Result, at};
use crate::locations::SharedDatabase;
use crate::path_handle::{Durability, PathHandle, Tree, remove_all};
use crate::paths::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

const BUFFER_SIZE: usize = 1 << 16;
const TEMPORARY: &str = ".new";
const FOLDER_MODE: u32 = 0o700;
/// The maximum size of a content in the state database. Larger ones are files.
const SMALL: usize = 1 << 20;
/// The size in bytes up to which a content is read at once.
const USUAL: usize = 4096;
/// The size of contents that are written to the database in one transaction, because a transaction takes longer than
/// writing most files.
const BATCH: usize = 4 << 20;

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
fn temporary_name() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    static PROCESS: LazyLock<u32> = LazyLock::new(std::process::id);
    format!("{}-{}{TEMPORARY}", *PROCESS, NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Copies data, and calculates its digest.
fn copy(from: &mut impl Read, to: &mut impl Write, size: Option<u64>) -> io::Result<Digest> {
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

/// Contents by digest: in the state database, or in a directory that is only accessible to its owner if they are large.
#[derive(Clone, Debug)]
pub struct Contents {
    database: SharedDatabase,
    /// The plugin, whose records refer to them.
    store: String,
    tree: Arc<Tree>,
    /// The directory for large contents.
    folder: PathBuf,
    /// True if the directory is known to exist.
    has_folder: Arc<Mutex<bool>>,
    /// Contents that are not written to the database yet.
    pending: Arc<Mutex<Pending>>,
}

#[derive(Debug, Default)]
struct Pending {
    blobs: BTreeMap<Digest, Vec<u8>>,
    size: usize,
}

impl Contents {
    /// Returns the contents of a plugin, or of another user of the database. Large ones are in `folder`, which is relative to the tree and
    /// contains no other files.
    #[must_use]
    pub fn new(database: &SharedDatabase, store: &str, tree: &Arc<Tree>, folder: PathBuf) -> Contents {
        let (database, store) = (database.clone(), store.to_owned());
        Contents {
            database,
            store,
            tree: Arc::clone(tree),
            folder,
            has_folder: Arc::default(),
            pending: Arc::default(),
        }
    }

    /// Returns the contents for a tree that was opened again.
    pub(super) fn in_tree(&self, tree: &Arc<Tree>) -> Contents {
        Contents { tree: Arc::clone(tree), ..self.clone() }
    }

    fn place(&self, name: &str) -> PathHandle {
        self.tree.place(&self.folder.join(name))
    }

    /// Stores the content of a file. It is on disk when a record that is written later is.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn keep(&self, place: &PathHandle) -> Result<Digest> {
        let (digest, staged) = self.stage(&mut place.open()?, &place.shown())?;
        keep_all(staged)?;
        self.flush()?;
        Ok(digest)
    }

    /// Stores what remains to be read, once [`flush`](Contents::flush) has returned. `shown` is named in errors.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn add(&self, from: &mut impl Read, shown: &Path) -> Result<Digest> {
        let (digest, staged) = self.stage(from, shown)?;
        keep_all(staged)?;
        Ok(digest)
    }

    /// Stores several contents, like [`keep`](Contents::keep).
    ///
    /// # Errors
    /// If a content cannot be written.
    pub fn keep_many<'b>(&self, all: impl IntoIterator<Item = &'b [u8]>) -> Result<()> {
        for bytes in all {
            keep_all(self.stage_bytes(bytes)?)?;
        }
        self.flush()
    }

    /// Writes contents that were staged to the database.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn flush(&self) -> Result<()> {
        self.write(&mut self.lock_pending())
    }

    fn write(&self, pending: &mut Pending) -> Result<()> {
        if !pending.blobs.is_empty() {
            let blobs = pending.blobs.iter().map(|(digest, bytes)| (digest.as_str(), bytes.as_slice()));
            self.database.lock().write_blobs(&self.store, blobs).map_err(PathError::of_state)?;
            *pending = Pending::default();
        }
        Ok(())
    }

    fn lock_pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stages bytes until [`flush`](Contents::flush); `None` unless they are large.
    pub(super) fn stage_bytes(&self, bytes: &[u8]) -> Result<Option<StagedContent>> {
        self.stage(&mut &*bytes, &self.folder).map(|(_, staged)| staged)
    }

    /// Stages a copy of a file until [`flush`](Contents::flush); `None` unless it is large.
    pub(super) fn stage_file(&self, place: &PathHandle) -> Result<Option<StagedContent>> {
        self.stage(&mut place.open()?, &place.shown()).map(|(_, staged)| staged)
    }

    fn stage(&self, from: &mut impl Read, shown: &Path) -> Result<(Digest, Option<StagedContent>)> {
        let mut bytes = Vec::with_capacity(USUAL);
        from.take(SMALL as u64 + 1).read_to_end(&mut bytes).map_err(at("read", shown))?;
        if bytes.len() > SMALL {
            return self.stage_large(&mut bytes.chain(from), shown);
        }
        let digest = Digest::of_bytes(&bytes);
        if !self.has(&digest)? {
            let mut pending = self.lock_pending();
            pending.size += bytes.len();
            bytes.shrink_to_fit();
            pending.blobs.insert(digest.clone(), bytes);
            if pending.size > BATCH {
                self.write(&mut pending)?;
            }
        }
        Ok((digest, None))
    }

    fn stage_large(&self, from: &mut impl Read, shown: &Path) -> Result<(Digest, Option<StagedContent>)> {
        let temporary = self.place(&temporary_name());
        self.create_folder()?;
        let mut file = temporary.create()?;
        let staged = copy(from, &mut file, None).map_err(at("copy", shown)).and_then(|digest| {
            let place = self.place(digest.as_str());
            if place.exists()? {
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

    fn has(&self, digest: &Digest) -> Result<bool> {
        if self.lock_pending().blobs.contains_key(digest) {
            return Ok(true);
        }
        self.database.lock().has_blob(&self.store, digest.as_str()).map_err(PathError::of_state)
    }

    /// Takes over a content from another plugin. Returns false if neither has it.
    pub(super) fn share(&self, digest: &Digest, from: &Contents) -> Result<bool> {
        if self.has(digest)? || self.place(digest.as_str()).exists()? {
            return Ok(true);
        }
        if self.database.lock().share_blob(&self.store, digest.as_str()).map_err(PathError::of_state)? {
            return Ok(true);
        }
        let large = from.place(digest.as_str());
        let exists = large.exists()?;
        if exists {
            self.keep(&large)?;
        }
        Ok(exists)
    }

    /// Creates the directory. It is only accessible to its owner, because a digest could confirm a guessed content.
    fn create_folder(&self) -> Result<()> {
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

    /// Stores bytes, like [`keep`](Contents::keep).
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn keep_bytes(&self, bytes: &[u8]) -> Result<Digest> {
        keep_all(self.stage_bytes(bytes)?)?;
        self.flush()?;
        Ok(Digest::of_bytes(bytes))
    }

    /// Opens a content.
    ///
    /// # Errors
    /// If it does not exist, or cannot be opened.
    pub fn open(&self, digest: &Digest) -> Result<Box<dyn Read>> {
        let blob = self.database.lock().blob(digest.as_str()).map_err(PathError::of_state)?;
        match blob {
            Some(bytes) => Ok(Box::new(io::Cursor::new(bytes))),
            None => Ok(Box::new(self.place(digest.as_str()).open()?)),
        }
    }

    /// Reads a content.
    ///
    /// # Errors
    /// If it does not exist, or cannot be read.
    pub fn read(&self, digest: &Digest) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.open(digest)?.read_to_end(&mut bytes);
        read.map_err(|error| PathError::new("read", self.place(digest.as_str()).shown(), error))?;
        Ok(bytes)
    }

    /// Removes unused contents, and incomplete ones of a killed run. When this returns, the removal is on disk.
    ///
    /// # Errors
    /// If the database or the directory cannot be read, or a content cannot be removed.
    pub fn keep_only(&self, used: &BTreeSet<Digest>) -> Result<()> {
        let digest = |name: &str| Digest::try_from(name.to_owned()).ok();
        let is_used = |name: &str| digest(name).is_some_and(|digest| used.contains(&digest));
        self.database.lock().keep_blobs(&self.store, is_used).map_err(PathError::of_state)?;
        let folder = self.place("x");
        let unused = folder.siblings()?.into_iter().filter(|name| !name.to_str().is_some_and(is_used));
        let removed: Vec<PathHandle> = unused.map(|name| folder.sibling(&name)).collect();
        remove_all(&removed)?;
        *self.lock_has_folder() = false;
        folder.remove_empty_folders(Path::new(""));
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
