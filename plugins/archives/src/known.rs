//! Sums of files that need not be read again as long as nothing touches them.
//!
//! A sum is recorded by the file's [`Stamp`]: device, inode, type, mode, owner, size and times. Who finds the same stamp again knows that
//! the file is as it was, if the last change was long enough ago when the stamp was taken for the next one to show. The record is a shortcut
//! and nothing else: whoever loses it reads everything once more.

use crate::checksum::{Checksum, Sums, sha256};
use holo_change::error::{PathError, Result};
use holo_change::{OnDisk, PathHandle, Stamp};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;
use std::time::SystemTime;

/// What the file begins with. The number goes up when anything of format or meaning changes.
const HEADER: &str = "holo-archives known sums 1";
/// So many digits of a sum: nobody makes two stamps that have them in common.
const KEY_SIZE: usize = 32;

/// What is known, and what was found out.
pub(crate) struct Known {
    place: PathHandle,
    /// When we began to look.
    begun: SystemTime,
    is_believed: bool,
    /// What earlier applies have kept, by the sums of stamps.
    before: OnceCell<BTreeMap<String, Sums>>,
    /// What this one has seen, and may rely on.
    seen: RefCell<BTreeMap<String, Sums>>,
}

impl Known {
    /// What is known at a place; nothing if everything is to be read.
    pub(crate) fn at(place: PathHandle, is_believed: bool) -> Known {
        let (before, seen) = (OnceCell::new(), RefCell::default());
        Known { place, begun: SystemTime::now(), is_believed, before, seen }
    }

    /// The sums of a file: its SHA-256, and what a checksum needs beside that.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn sums(&self, file: &PathHandle, wanted: Option<&Checksum>) -> Result<Sums> {
        let stamp = Stamp::of(file)?;
        let key = |stamp: &Stamp| sha256(&stamp.to_bytes()).split_at(KEY_SIZE).0.to_owned();
        if let Some(sums) = stamp.as_ref().and_then(|stamp| self.recall(key(stamp), wanted)) {
            return Ok(sums);
        }
        let sums = Sums::of(&mut file.open()?, wanted).map_err(|error| PathError::new("read", file.shown(), error))?;
        // What is changed while it is read has another stamp then.
        if let (Some(stamp), Some(after)) = (stamp, Stamp::of(file)?)
            && stamp.is_settled(self.begun)
            && stamp.to_bytes() == after.to_bytes()
        {
            self.seen.borrow_mut().insert(key(&stamp), sums.clone());
        }
        Ok(sums)
    }

    fn recall(&self, key: String, wanted: Option<&Checksum>) -> Option<Sums> {
        let can_tell = |sums: &&Sums| wanted.is_none_or(|wanted| sums.can_tell(wanted));
        if let Some(sums) = self.seen.borrow().get(&key).filter(can_tell) {
            return Some(sums.clone());
        }
        let sums = self.before().get(&key).filter(can_tell).filter(|_| self.is_believed)?.clone();
        self.seen.borrow_mut().insert(key, sums.clone());
        Some(sums)
    }

    fn before(&self) -> &BTreeMap<String, Sums> {
        self.before.get_or_init(|| self.read().unwrap_or_default())
    }

    /// What cannot be understood knows nothing.
    fn read(&self) -> Option<BTreeMap<String, Sums>> {
        let mut text = String::new();
        self.place.open_if_file().ok()??.read_to_string(&mut text).ok()?;
        let (header, lines) = text.split_once('\n')?;
        // A crash may lose the file's end: the last line says how many there are.
        let (lines, end) = lines.trim_end().rsplit_once('\n').unwrap_or(("", lines.trim_end()));
        let sums: BTreeMap<String, Sums> = lines.lines().map(parse_line).collect::<Option<_>>()?;
        (header == HEADER && end.parse() == Ok(sums.len())).then_some(sums)
    }

    /// Keeps what was seen for the next apply.
    pub(crate) fn keep(&self) {
        let seen = self.seen.borrow();
        if *seen == *self.before() {
            return;
        }
        // A disk that is full, or read-only, costs the next apply its shortcut. That is no reason for this one to fail.
        let _ = if seen.is_empty() { self.forget() } else { self.write(&seen) };
    }

    fn write(&self, seen: &BTreeMap<String, Sums>) -> Result<()> {
        let mut text = format!("{HEADER}\n");
        for (key, sums) in seen {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{key} {}", sums.in_words());
        }
        let _ = writeln!(text, "{}", seen.len());
        self.place.replace(text.as_bytes(), 0o600, OnDisk::Nothing)
    }

    /// Removes the record.
    ///
    /// # Errors
    /// If it is there, and cannot be removed.
    pub(crate) fn forget(&self) -> Result<()> {
        self.place.replacement().remove()?;
        self.place.remove()?;
        self.place.remove_empty_folders(Path::new(""));
        Ok(())
    }
}

fn parse_line(line: &str) -> Option<(String, Sums)> {
    let (key, sums) = line.split_once(' ')?;
    (key.len() == KEY_SIZE).then_some((key.to_owned(), Sums::parse(sums)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holo_change::Tree;
    use std::fs;
    use std::time::Duration;

    const OLD: Duration = Duration::from_secs(3600);

    /// A directory with a file that was changed long ago, and what is known of it.
    fn known(directory: &Path, is_believed: bool) -> (Known, PathHandle) {
        let tree = Tree::open(directory).unwrap();
        // An hour has passed since whatever was done.
        let mut known = Known::at(tree.place(Path::new("known/x")), is_believed);
        known.begun = SystemTime::now() + OLD;
        (known, tree.place(Path::new("file")))
    }

    fn told(directory: &Path, is_believed: bool) -> String {
        let (known, file) = known(directory, is_believed);
        let sums = known.sums(&file, None).unwrap();
        known.keep();
        sums.sha256
    }

    #[test]
    fn what_is_untouched_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "one").unwrap();
        assert_eq!(told(folder.path(), true), sha256(b"one"));
        let record = folder.path().join("known/x");
        // What is recorded counts, as long as the stamp is the same.
        let text = fs::read_to_string(&record).unwrap().replace(&sha256(b"one"), &sha256(b"recorded"));
        fs::write(&record, &text).unwrap();
        assert_eq!(told(folder.path(), true), sha256(b"recorded"));
        assert_eq!(told(folder.path(), false), sha256(b"one"));
        fs::write(&record, &text).unwrap();
        // The same length and times, but not the same stamp.
        let modified = fs::metadata(&file).unwrap().modified().unwrap();
        fs::write(&file, "two").unwrap();
        fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        assert_eq!(told(folder.path(), true), sha256(b"two"));
    }

    #[test]
    fn a_damaged_record_knows_nothing() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "one").unwrap();
        told(folder.path(), true);
        let record = folder.path().join("known/x");
        let whole = fs::read_to_string(&record).unwrap().replace(&sha256(b"one"), &sha256(b"recorded"));
        for damaged in
            ["", "x", &whole[..whole.len() / 2], &whole.replace(HEADER, "other"), &whole.replace("\n1\n", "\n2\n")]
        {
            fs::write(&record, damaged).unwrap();
            assert_eq!(told(folder.path(), true), sha256(b"one"), "{damaged:?}");
        }
    }

    #[test]
    fn what_was_changed_just_now_is_not_relied_on() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "one").unwrap();
        let (mut known, file) = known(folder.path(), true);
        known.begun = SystemTime::now();
        known.sums(&file, None).unwrap();
        known.keep();
        assert!(!folder.path().join("known").exists());
    }

    #[test]
    fn a_checksum_that_is_not_known_is_found_out() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "one").unwrap();
        told(folder.path(), true);
        let wanted: Checksum = format!("sha512:{}", "0".repeat(128)).parse().unwrap();
        for _ in 0..2 {
            let (known, file) = known(folder.path(), true);
            let problem = known.sums(&file, Some(&wanted)).unwrap().matches(&wanted).unwrap_err();
            assert!(problem.starts_with("sha512:05f70341"), "{problem}");
            known.keep();
        }
    }
}
