//! The known-unchanged record: inputs that were valid at the last apply, and need not be read completely until they
//! change.
//!
//! It contains a fingerprint of everything that determines them, such as the metadata of files. If it is equal, they have
//! not changed. This requires that the fingerprint is taken before the files are read, and is only recorded if none of
//! the files was changed immediately before, because a second change within the same tick of the file system's clock
//! would not be visible.
//!
//! The record is only an optimization. If it is lost by a crash or deleted, all files are read again.

use crate::error::{PathError, Result};
use crate::path_handle::PathHandle;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The first line of the file. The number is incremented with each change of the format or its meaning.
const HEADER: &[u8] = b"holo-files known-unchanged record 1\n";

/// The number of bytes of a SHA-256 that are kept, sufficient to rule out collisions.
const SUM_SIZE: usize = 16;
const CHECKSUM_SIZE: usize = 32;
const TIME_SIZE: usize = size_of::<u64>();

type Sum = [u8; SUM_SIZE];

/// The state of all inputs that determine an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(Sum);

impl Fingerprint {
    /// Returns the fingerprint of inputs.
    pub fn new(inputs: &impl Hash) -> Fingerprint {
        let mut sum = Summing(Sha256::new());
        inputs.hash(&mut sum);
        Fingerprint(shortened(sum.0))
    }
}

/// A `Hasher` that feeds values to SHA-256.
struct Summing(Sha256);

impl Hasher for Summing {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Not used, because it is too short.
    fn finish(&self) -> u64 {
        0
    }
}

/// The known-unchanged record.
#[derive(Debug)]
pub struct UnchangedRecord {
    /// The start time of this apply.
    begun: SystemTime,
    /// The fingerprints, by the hashes of the entities' paths.
    entries: BTreeMap<Sum, Fingerprint>,
    is_kept: bool,
    has_news: bool,
}

impl UnchangedRecord {
    /// Creates an empty record that is not saved.
    #[must_use]
    pub fn none() -> UnchangedRecord {
        UnchangedRecord { begun: SystemTime::now(), entries: BTreeMap::new(), is_kept: false, has_news: false }
    }

    /// Reads the record of earlier applies. It is empty if it is damaged, of another version, or from the future.
    #[must_use]
    pub fn open(place: &PathHandle) -> UnchangedRecord {
        let none = UnchangedRecord { is_kept: true, ..UnchangedRecord::none() };
        let Ok(Some(bytes)) = place.read_if_file() else { return none };
        match parse(&bytes, none.begun) {
            Some(entries) => UnchangedRecord { entries, ..none },
            // An invalid file is replaced, even with an empty record.
            None => UnchangedRecord { has_news: true, ..none },
        }
    }

    /// Returns true if an entity is known to be in its desired state while its inputs have this state.
    #[must_use]
    pub fn knows(&self, entity: &[u8], state: Fingerprint) -> bool {
        self.entries.get(&key(entity)) == Some(&state)
    }

    /// Records that an entity is in its desired state while its inputs have this state.
    pub fn insert(&mut self, entity: &[u8], state: Fingerprint) {
        self.has_news |= self.entries.insert(key(entity), state) != Some(state);
    }

    /// Removes an entity.
    pub fn forget(&mut self, entity: &[u8]) {
        self.has_news |= self.entries.remove(&key(entity)).is_some();
    }

    /// Saves the record for the next apply, through a temporary file. An empty record is removed.
    pub fn keep(&self, place: &PathHandle, staged: &PathHandle) {
        if self.is_kept && self.has_news {
            // A full or read-only disk only costs the next apply its optimization, so errors are ignored.
            let _ = if self.entries.is_empty() { place.remove() } else { self.write(place, staged) };
        }
    }

    /// Not synced: a crash may lose or truncate the file, which the checksum detects, and a sync would be more
    /// expensive.
    fn write(&self, place: &PathHandle, staged: &PathHandle) -> Result<()> {
        let (mut file, made) = staged.in_folder(|| staged.create())?;
        let written = file.write_all(&to_bytes(&self.entries, self.begun));
        let written = written.map_err(|error| PathError::new("write", staged.shown(), error));
        let moved = written.and_then(|()| staged.rename_to(place));
        if moved.is_err() {
            let _ = staged.remove();
        }
        if !made.is_empty() {
            staged.remove_empty_folders(Path::new(""));
        }
        moved
    }
}

/// Serializes the record: header, creation time, hashes of paths with fingerprints, sorted by path hash, and a
/// checksum.
fn to_bytes(entries: &BTreeMap<Sum, Fingerprint>, made: SystemTime) -> Vec<u8> {
    let made = made.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let size = HEADER.len() + TIME_SIZE + entries.len() * 2 * SUM_SIZE + CHECKSUM_SIZE;
    let mut bytes = Vec::with_capacity(size);
    bytes.extend_from_slice(HEADER);
    bytes.extend_from_slice(&made.to_le_bytes());
    for (key, Fingerprint(state)) in entries {
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(state);
    }
    let checksum = Sha256::digest(&bytes);
    bytes.extend_from_slice(&checksum);
    bytes
}

/// Parses and verifies the output of [`to_bytes`].
fn parse(bytes: &[u8], now: SystemTime) -> Option<BTreeMap<Sum, Fingerprint>> {
    let (content, checksum) = bytes.split_last_chunk::<CHECKSUM_SIZE>()?;
    if Sha256::digest(content)[..] != checksum[..] {
        return None;
    }
    let (made, entries) = content.strip_prefix(HEADER)?.split_first_chunk::<TIME_SIZE>()?;
    let made = UNIX_EPOCH.checked_add(Duration::from_secs(u64::from_le_bytes(*made)))?;
    if made > now {
        // The clock was set back, so that files that change now may get the recorded times.
        return None;
    }
    let (entries, rest) = entries.as_chunks::<{ 2 * SUM_SIZE }>();
    let entry = |bytes: &[u8; 2 * SUM_SIZE]| {
        let (key, state) = bytes.split_first_chunk()?;
        Some((*key, Fingerprint(*state.first_chunk()?)))
    };
    rest.is_empty().then(|| entries.iter().filter_map(entry).collect())
}

fn key(entity: &[u8]) -> Sum {
    shortened(Sha256::new_with_prefix(entity))
}

fn shortened(sum: Sha256) -> Sum {
    let mut short = Sum::default();
    short.iter_mut().zip(sum.finalize()).for_each(|(byte, summed)| *byte = summed);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> BTreeMap<Sum, Fingerprint> {
        let entry = |path: &str, state: u8| (key(path.as_bytes()), Fingerprint([state; SUM_SIZE]));
        [entry("/etc/motd", 1), entry("/etc/issue", 2), entry("/srv/x", 0xff)].into()
    }

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(2_000_000_000)
    }

    #[test]
    fn is_understood_as_it_was_written() {
        for entries in [entries(), BTreeMap::new()] {
            let bytes = to_bytes(&entries, now());
            assert_eq!(parse(&bytes, now()), Some(entries.clone()));
            assert_eq!(parse(&bytes, now() + Duration::from_secs(1)), Some(entries));
            assert_eq!(parse(&bytes, now() - Duration::from_secs(1)), None);
        }
    }

    #[test]
    fn nothing_else_is_understood() {
        let whole = to_bytes(&entries(), now());
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length], now()), None, "{length} bytes");
        }
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&flipped, now()), None, "bit {bit}");
        }
        assert_eq!(parse(&[&whole[..], b"x"].concat(), now()), None);
    }

    #[test]
    fn odd_records_are_refused_though_sealed() {
        let seal = |content: &[u8]| [content, &Sha256::digest(content)].concat();
        let whole = to_bytes(&entries(), now());
        let content = &whole[..whole.len() - CHECKSUM_SIZE];
        assert_eq!(parse(&seal(content), now()), Some(entries()));
        assert_eq!(parse(&seal(&content[..content.len() - 1]), now()), None);
        assert_eq!(parse(&seal(&[b"x", content].concat()), now()), None);
        assert_eq!(parse(&seal(&HEADER[..10]), now()), None);
        assert_eq!(parse(&seal(HEADER), now()), None);
        assert_eq!(parse(&seal(b""), now()), None);
        let far_future = [HEADER, &u64::MAX.to_le_bytes()].concat();
        assert_eq!(parse(&seal(&far_future), now()), None);
    }

    #[test]
    fn learns_and_forgets() {
        let (path, one, two) = (&b"/etc/motd"[..], Fingerprint([1; SUM_SIZE]), Fingerprint([2; SUM_SIZE]));
        let mut record = UnchangedRecord::none();
        assert!(!record.knows(path, one));
        record.forget(path);
        assert!(!record.has_news);
        record.insert(path, one);
        assert!(record.knows(path, one) && !record.knows(path, two) && !record.knows(b"/etc/issue", one));
        assert!(std::mem::take(&mut record.has_news));
        record.insert(path, one);
        assert!(!record.has_news, "this is no news");
        record.insert(path, two);
        assert!(record.knows(path, two) && !record.knows(path, one));
        assert!(std::mem::take(&mut record.has_news));
        record.forget(path);
        assert!(record.has_news && record.entries.is_empty());
    }

    #[test]
    fn a_fingerprint_is_of_all_that_decides() {
        assert_eq!(Fingerprint::new(&("one", "two")), Fingerprint::new(&("one", "two")));
        assert_ne!(Fingerprint::new(&("one", "two")), Fingerprint::new(&("onet", "wo")));
    }
}
