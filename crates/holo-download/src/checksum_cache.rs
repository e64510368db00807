//! A cache of the digests of unchanged files.
//!
//! Digests are recorded by the file's [`Stamp`]: device, inode, type, mode, owner, size and times. If the stamp is
//! unchanged, so is the file, provided that its last change was long enough before the stamp was taken for another
//! change to be visible. If the cache is lost, the files are read again.

use crate::checksum::{Checksum, Digests, sha256};
use holo_change::error::{PathError, Result};
use holo_change::manifest::FileDigests;
use holo_change::table::{Row, Table};
use holo_change::{OnDisk, PathHandle, Stamp};
use std::cell::{OnceCell, RefCell};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The first line. The number changes with the format or its meaning.
const HEADER: &str = "holo-archives known sums 1";
/// The number of digits of a stamp's SHA-256 used as the key.
const KEY_SIZE: usize = 32;

/// The cache of one archive.
pub struct ChecksumCache {
    path: PathHandle,
    now: fn() -> SystemTime,
    is_trusted: bool,
    /// The digests of earlier applies by key.
    recorded: OnceCell<Table<Digests>>,
    /// The keys of the digests that the next run may use.
    used: RefCell<Table<()>>,
    /// The digests of this run that the next one may use.
    seen: RefCell<Table<Digests>>,
    /// The digests of files written by this run, by the properties that do not change when a file is moved.
    written: RefCell<Table<Digests>>,
}

impl ChecksumCache {
    /// Opens the cache in this file. Unless it is trusted, all files are read again. Data that does not fit into memory
    /// is stored in the folder of `spill`.
    pub fn open(path: PathHandle, spill: &PathHandle, is_trusted: bool) -> ChecksumCache {
        ChecksumCache {
            path,
            now: SystemTime::now,
            is_trusted,
            recorded: OnceCell::new(),
            used: RefCell::new(Table::new(spill)),
            seen: RefCell::new(Table::new(spill)),
            written: RefCell::new(Table::new(spill)),
        }
    }

    /// Returns the digests of a file: its SHA-256, and that which the checksum needs.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn digests(&self, file: &PathHandle, wanted: Option<&Checksum>) -> Result<Digests> {
        self.digests_of(file, Stamp::of(file)?.as_ref(), wanted)
    }

    /// Returns the digests of a file that just had this stamp.
    fn digests_of(&self, file: &PathHandle, stamp: Option<&Stamp>, wanted: Option<&Checksum>) -> Result<Digests> {
        let now = (self.now)();
        if let Some(stamp) = stamp
            && let Some(digests) = self.find(stamp, wanted)?
        {
            return Ok(digests);
        }
        let digests =
            Digests::read(&mut file.open()?, wanted).map_err(|error| PathError::new("read", file.shown(), error))?;
        // If the file is modified while it is read, its stamp differs afterwards.
        if let (Some(stamp), Some(after)) = (stamp, Stamp::of(file)?)
            && stamp.is_settled(now)
            && stamp.is_same(&after)
        {
            self.seen.borrow_mut().insert(&key(stamp), digests.clone())?;
        }
        Ok(digests)
    }

    /// Records the digests of a file that was just written and has this stamp. It may be moved before they are needed.
    ///
    /// # Errors
    /// If data that does not fit into memory cannot be written.
    pub fn note_written(&self, stamp: &Stamp, digests: Digests) -> Result<()> {
        self.written.borrow_mut().insert(&moved_key(stamp), digests)
    }

    fn find(&self, stamp: &Stamp, wanted: Option<&Checksum>) -> Result<Option<Digests>> {
        let covers = |digests: &Digests| wanted.is_none_or(|wanted| digests.covers(wanted));
        let key = key(stamp);
        if self.is_trusted {
            if let Some(digests) = self.recorded()?.get(&key)?.filter(covers) {
                self.used.borrow_mut().insert(&key, ())?;
                return Ok(Some(digests));
            }
            let written = self.written.borrow();
            if !written.is_empty()
                && let Some(digests) = written.get(&moved_key(stamp))?.filter(covers)
            {
                // Otherwise another change might not be visible, so the next run must read the file.
                if stamp.shows_writing() || stamp.is_settled((self.now)()) {
                    self.seen.borrow_mut().insert(&key, digests.clone())?;
                }
                return Ok(Some(digests));
            }
        }
        Ok(self.seen.borrow().get(&key)?.filter(covers))
    }

    fn recorded(&self) -> Result<&Table<Digests>> {
        if let Some(recorded) = self.recorded.get() {
            return Ok(recorded);
        }
        let read = self.read()?.unwrap_or_default();
        Ok(self.recorded.get_or_init(|| read))
    }

    /// Reads the cache. An unreadable or invalid file is ignored.
    fn read(&self) -> Result<Option<Table<Digests>>> {
        let Ok(Some(file)) = self.path.open_if_file() else { return Ok(None) };
        let mut lines = BufReader::new(file).lines().map_while(io::Result::ok);
        if lines.next().as_deref() != Some(HEADER) {
            return Ok(None);
        }
        let (mut recorded, mut last) = (self.seen.borrow().like(), None);
        for line in lines {
            if let Some(line) = last.replace(line) {
                let Some((key, digests)) = parse_line(&line) else { return Ok(None) };
                recorded.insert(Path::new(key), digests)?;
            }
        }
        // A crash may truncate the file: the last line is the number of entries.
        let is_whole = last.is_some_and(|end| end.parse() == Ok(recorded.inserted()));
        Ok(is_whole.then_some(recorded))
    }

    /// Writes the digests of this run for the next one.
    pub fn save(&self) {
        // If the disk is full or read-only, the next apply reads all files. This apply need not fail because of that.
        let _ = self.try_save();
    }

    fn try_save(&self) -> Result<()> {
        let (recorded, used, seen) = (self.recorded()?, self.used.borrow(), self.seen.borrow());
        let (mut relied_on, mut is_same) = (seen.like(), true);
        for row in recorded.join(&used) {
            match row? {
                (key, Some(digests), Some(())) => relied_on.insert(&key, digests)?,
                _ => is_same = false,
            }
        }
        for row in seen.iter() {
            let (key, digests) = row?;
            is_same &= recorded.get(&key)?.as_ref() == Some(&digests);
            relied_on.insert(&key, digests)?;
        }
        match (is_same, relied_on.is_empty()) {
            (true, _) => Ok(()),
            (false, true) => self.remove(),
            (false, false) => self.path.replace_by(&|file| self.write(&relied_on, file), 0o600, OnDisk::Nothing),
        }
    }

    fn write(&self, digests: &Table<Digests>, file: &mut dyn Write) -> Result<()> {
        let failed = |error| PathError::new("write", self.path.shown(), error);
        writeln!(file, "{HEADER}").map_err(failed)?;
        let mut count = 0;
        for row in digests.iter() {
            let (key, digests) = row?;
            writeln!(file, "{} {}", key.display(), digests.to_words()).map_err(failed)?;
            count += 1;
        }
        writeln!(file, "{count}").map_err(failed)
    }

    /// Removes the cache.
    ///
    /// # Errors
    /// If the file exists and cannot be removed.
    pub fn remove(&self) -> Result<()> {
        remove_cache(&self.path)
    }
}

impl Row for Digests {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.to_words().as_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Digests> {
        Digests::parse(std::str::from_utf8(bytes).ok()?)
    }
}

/// Removes a cache file.
///
/// # Errors
/// If the file exists and cannot be removed.
pub fn remove_cache(path: &PathHandle) -> Result<()> {
    path.replacement().remove()?;
    path.remove()?;
    path.remove_empty_folders(Path::new(""));
    Ok(())
}

impl FileDigests for ChecksumCache {
    fn sha256(&self, file: &PathHandle, stamp: &Stamp) -> Result<String> {
        Ok(self.digests_of(file, Some(stamp), None)?.sha256)
    }
}

fn key(stamp: &Stamp) -> PathBuf {
    let mut key = sha256(&stamp.to_bytes());
    key.truncate(KEY_SIZE);
    key.into()
}

/// Returns a key from the properties that do not change when a file is moved. Keys of files created successively tend
/// to be close to each other.
fn moved_key(stamp: &Stamp) -> PathBuf {
    format!("{:016x}-{}", stamp.inode(), key(&stamp.nameless()).display()).into()
}

fn parse_line(line: &str) -> Option<(&str, Digests)> {
    let (key, digests) = line.split_once(' ')?;
    (key.len() == KEY_SIZE).then_some((key, Digests::parse(digests)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holo_change::Tree;
    use std::fs;
    use std::time::Duration;

    const OLD: Duration = Duration::from_secs(3600);

    /// Returns the cache and a file in a directory, with the clock an hour ahead of the file's last change.
    fn cache(directory: &Path, is_trusted: bool) -> (ChecksumCache, PathHandle) {
        let tree = Tree::open(directory).unwrap();
        let mut cache = ChecksumCache::open(tree.place(Path::new("known/x")), &tree.place(Path::new("x")), is_trusted);
        cache.now = || SystemTime::now() + OLD;
        (cache, tree.place(Path::new("file")))
    }

    fn digest(directory: &Path, is_trusted: bool) -> String {
        let (cache, file) = cache(directory, is_trusted);
        let digests = cache.digests(&file, None).unwrap();
        cache.save();
        digests.sha256
    }

    #[test]
    fn untouched_files_are_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "one").unwrap();
        assert_eq!(digest(folder.path(), true), sha256(b"one"));
        let record = folder.path().join("known/x");
        // The recorded digest is used as long as the stamp is unchanged.
        let text = fs::read_to_string(&record).unwrap().replace(&sha256(b"one"), &sha256(b"recorded"));
        fs::write(&record, &text).unwrap();
        assert_eq!(digest(folder.path(), true), sha256(b"recorded"));
        assert_eq!(digest(folder.path(), false), sha256(b"one"));
        fs::write(&record, &text).unwrap();
        // The same size and modification time, but another stamp.
        let modified = fs::metadata(&file).unwrap().modified().unwrap();
        fs::write(&file, "two").unwrap();
        fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        assert_eq!(digest(folder.path(), true), sha256(b"two"));
    }

    #[test]
    fn a_damaged_cache_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "one").unwrap();
        digest(folder.path(), true);
        let record = folder.path().join("known/x");
        let whole = fs::read_to_string(&record).unwrap().replace(&sha256(b"one"), &sha256(b"recorded"));
        for damaged in
            ["", "x", &whole[..whole.len() / 2], &whole.replace(HEADER, "other"), &whole.replace("\n1\n", "\n2\n")]
        {
            fs::write(&record, damaged).unwrap();
            assert_eq!(digest(folder.path(), true), sha256(b"one"), "{damaged:?}");
        }
    }

    #[test]
    fn recent_changes_are_not_cached() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "one").unwrap();
        let (mut cache, file) = cache(folder.path(), true);
        cache.now = SystemTime::now;
        cache.digests(&file, None).unwrap();
        cache.save();
        assert!(!folder.path().join("known").exists());
    }

    #[test]
    fn what_was_written_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, new) = (Tree::open(folder.path()).unwrap(), folder.path().join("new"));
        let early = SystemTime::now() - OLD;
        for (is_dated, is_read_next) in [(true, false), (false, true)] {
            fs::write(&new, "one").unwrap();
            if is_dated {
                fs::File::options().write(true).open(&new).unwrap().set_modified(early).unwrap();
            }
            let file = tree.place(Path::new("file"));
            let noted = Digests::parse(&sha256(b"noted")).unwrap();
            let spill = tree.place(Path::new("x"));
            let open = |is_trusted| ChecksumCache::open(tree.place(Path::new("known/x")), &spill, is_trusted);
            let cache = open(true);
            cache.note_written(&Stamp::of(&tree.place(Path::new("new"))).unwrap().unwrap(), noted.clone()).unwrap();
            fs::rename(&new, folder.path().join("file")).unwrap();
            assert_eq!(cache.digests(&file, None).unwrap(), noted);
            cache.save();
            let next = open(true).digests(&file, None).unwrap().sha256;
            assert_eq!(next, if is_read_next { sha256(b"one") } else { sha256(b"noted") });
            assert_eq!(open(false).digests(&file, None).unwrap().sha256, sha256(b"one"));
            // Writing to the file changes its times.
            fs::write(folder.path().join("file"), "two").unwrap();
            assert_eq!(cache.digests(&file, None).unwrap().sha256, sha256(b"two"));
            assert_eq!(open(true).digests(&file, None).unwrap().sha256, sha256(b"two"));
        }
    }

    #[test]
    fn a_digest_that_is_not_cached_is_computed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "one").unwrap();
        digest(folder.path(), true);
        let wanted: Checksum = format!("sha512:{}", "0".repeat(128)).parse().unwrap();
        for _ in 0..2 {
            let (cache, file) = cache(folder.path(), true);
            let problem = cache.digests(&file, Some(&wanted)).unwrap().mismatch(&wanted).unwrap();
            assert!(problem.starts_with("sha512:05f70341"), "{problem}");
            cache.save();
        }
    }
}
