//! A cache of the digests of unchanged files.
//!
//! Digests are recorded by the file's [`Stamp`]: device, inode, type, mode, owner, size and times. If the stamp is
//! unchanged, so is the file, provided that its last change was long enough before the stamp was taken for another
//! change to be visible. If the cache is lost, the files are read again.

use crate::checksum::{Checksum, Digests, sha256};
use holo_change::error::{PathError, Result};
use holo_change::manifest::FileDigests;
use holo_change::{OnDisk, PathHandle, Stamp};
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
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
    recorded: OnceCell<BTreeMap<String, Digests>>,
    /// The keys of the digests that the next run may use.
    used: RefCell<BTreeSet<String>>,
    /// The digests of this run that the next one may use.
    seen: RefCell<BTreeMap<String, Digests>>,
    /// The digests of files written by this run, by the properties that do not change when a file is moved.
    written: RefCell<BTreeMap<String, Digests>>,
}

impl ChecksumCache {
    /// Opens the cache in this file. Unless it is trusted, all files are read again.
    #[must_use]
    pub fn open(path: PathHandle, is_trusted: bool) -> ChecksumCache {
        ChecksumCache {
            path,
            now: SystemTime::now,
            is_trusted,
            recorded: OnceCell::new(),
            used: RefCell::default(),
            seen: RefCell::default(),
            written: RefCell::default(),
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
            && let Some(digests) = self.find(stamp, wanted)
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
            self.seen.borrow_mut().insert(key(stamp), digests.clone());
        }
        Ok(digests)
    }

    /// Records the digests of a file that was just written and has this stamp. It may be moved before they are needed.
    pub fn note_written(&self, stamp: &Stamp, digests: Digests) {
        self.written.borrow_mut().insert(moved_key(stamp), digests);
    }

    fn find(&self, stamp: &Stamp, wanted: Option<&Checksum>) -> Option<Digests> {
        let covers = |digests: &&Digests| wanted.is_none_or(|wanted| digests.covers(wanted));
        let key = key(stamp);
        if self.is_trusted {
            if let Some(digests) = self.recorded().get(&key).filter(covers) {
                self.used.borrow_mut().insert(key);
                return Some(digests.clone());
            }
            if let Some(digests) = self.written.borrow().get(&moved_key(stamp)).filter(covers) {
                // Otherwise another change might not be visible, so the next run must read the file.
                if stamp.shows_writing() || stamp.is_settled((self.now)()) {
                    self.seen.borrow_mut().insert(key, digests.clone());
                }
                return Some(digests.clone());
            }
        }
        self.seen.borrow().get(&key).filter(covers).cloned()
    }

    fn recorded(&self) -> &BTreeMap<String, Digests> {
        self.recorded.get_or_init(|| self.read().unwrap_or_default())
    }

    /// Reads the cache; `None` if the file is unreadable or invalid.
    fn read(&self) -> Option<BTreeMap<String, Digests>> {
        let file = self.path.open_if_file().ok().flatten()?;
        let mut lines = BufReader::new(file).lines().map_while(io::Result::ok);
        lines.next().filter(|line| line == HEADER)?;
        let (mut recorded, mut last) = (BTreeMap::new(), None);
        for line in lines {
            if let Some(line) = last.replace(line) {
                let (key, digests) = line.split_once(' ').filter(|(key, _)| key.len() == KEY_SIZE)?;
                recorded.insert(key.to_owned(), Digests::parse(digests)?);
            }
        }
        // A crash may truncate the file: the last line is the number of entries.
        last.is_some_and(|end| end.parse() == Ok(recorded.len())).then_some(recorded)
    }

    /// Writes the digests of this run for the next one.
    pub fn save(&self) {
        // If the disk is full or read-only, the next apply reads all files. This apply need not fail because of that.
        let _ = self.try_save();
    }

    fn try_save(&self) -> Result<()> {
        let (recorded, used, seen) = (self.recorded(), self.used.borrow(), self.seen.borrow());
        let mut relied_on: BTreeMap<&String, &Digests> =
            recorded.iter().filter(|(key, _)| used.contains(*key)).collect();
        relied_on.extend(seen.iter());
        match (relied_on.iter().eq(recorded.iter().collect::<BTreeMap<_, _>>().iter()), relied_on.is_empty()) {
            (true, _) => Ok(()),
            (false, true) => self.remove(),
            (false, false) => self.path.replace_by(&|file| self.write(&relied_on, file), 0o600, OnDisk::Nothing),
        }
    }

    fn write(&self, digests: &BTreeMap<&String, &Digests>, file: &mut dyn Write) -> Result<()> {
        let failed = |error| PathError::new("write", self.path.shown(), error);
        writeln!(file, "{HEADER}").map_err(failed)?;
        for (key, digests) in digests {
            writeln!(file, "{key} {}", digests.to_words()).map_err(failed)?;
        }
        writeln!(file, "{}", digests.len()).map_err(failed)
    }

    /// Removes the cache.
    ///
    /// # Errors
    /// If the file exists and cannot be removed.
    pub fn remove(&self) -> Result<()> {
        remove_cache(&self.path)
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

fn key(stamp: &Stamp) -> String {
    let mut key = sha256(&stamp.to_bytes());
    key.truncate(KEY_SIZE);
    key
}

/// Returns a key from the properties that do not change when a file is moved.
fn moved_key(stamp: &Stamp) -> String {
    key(&stamp.nameless())
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
        let mut cache = ChecksumCache::open(tree.place(Path::new("known/x")), is_trusted);
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
            let open = |is_trusted| ChecksumCache::open(tree.place(Path::new("known/x")), is_trusted);
            let cache = open(true);
            cache.note_written(&Stamp::of(&tree.place(Path::new("new"))).unwrap().unwrap(), noted.clone());
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
