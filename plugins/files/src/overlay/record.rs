//! The known-unchanged record: entities that were in their desired state at the last apply, and need not be read again until touched.
//!
//! It holds a fingerprint an entity, made of all that the file system says of the files that decide about it: device, inode, type, mode,
//! owner, size and times. If the fingerprint is the same, the entity is as it was. That rests on two things: a fingerprint
//! is only taken before the files are read, and only recorded if none of them was changed just then, for a second change within the same
//! tick of the file system's clock would not show.
//!
//! The record is only a shortcut. If it is lost, by a crash or because it was deleted, everything is read once more.

use crate::overlay::entity::Resource;
use crate::overlay::layout::Layout;
use holo_change::error::{PathError, Result};
use holo_change::{PathHandle, Stamp};
use holo_plugin::Host;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The first line of the file. The number goes up when anything of format or meaning changes.
const HEADER: &[u8] = b"holo-files known-unchanged record 1\n";

/// So many bytes of a SHA-256 sum: nobody makes two things that have them in common.
const SUM_SIZE: usize = 16;
const CHECKSUM_SIZE: usize = 32;
const TIME_SIZE: usize = size_of::<u64>();

type Sum = [u8; SUM_SIZE];

/// The state of all files that decide about an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(Sum);

impl Fingerprint {
    /// Of an entity that these resources alone decide about, and the files concerned.
    pub(crate) fn of(deciding: &[Resource], files: &[Stamp]) -> Fingerprint {
        let mut sum = Sha256::new();
        files.iter().for_each(|stamp| sum.update(stamp.to_bytes()));
        for (index, resource) in deciding.iter().enumerate() {
            sum.update(if index == 0 { &b""[..] } else { b"\0" });
            sum.update(resource.path.as_os_str().as_bytes());
        }
        Fingerprint(shortened(sum))
    }
}

/// The known-unchanged record.
#[derive(Debug)]
pub(crate) struct Record {
    /// The time when this apply began to look.
    begun: SystemTime,
    /// By the sums of the entities' paths.
    entries: BTreeMap<Sum, Fingerprint>,
    is_believed: bool,
    is_kept: bool,
    has_news: bool,
}

impl Record {
    /// A record that knows nothing, and keeps nothing.
    pub(crate) fn none() -> Record {
        Record {
            begun: SystemTime::now(),
            entries: BTreeMap::new(),
            is_believed: false,
            is_kept: false,
            has_news: false,
        }
    }

    /// The one that earlier applies have kept. One that is damaged, of another version or from the future knows nothing.
    pub(crate) fn open(host: &Host, layout: &Layout) -> Record {
        let none = Record { is_believed: !host.verifies(), is_kept: true, ..Record::none() };
        let Ok(Some(bytes)) = read(&layout.record()) else { return none };
        match parse(&bytes, none.begun) {
            Some(entries) => Record { entries, ..none },
            // It is of no use, so even an empty one is better.
            None => Record { has_news: true, ..none },
        }
    }

    /// Reads everything this time.
    pub(crate) fn distrust(&mut self) {
        self.is_believed = false;
    }

    /// Returns true if an entity is known to be as it should be while its files are in this state.
    pub(crate) fn knows(&self, entity: &Path, state: Fingerprint) -> bool {
        self.is_believed && self.entries.get(&key(entity)) == Some(&state)
    }

    /// Returns true if a change of a file after this apply has begun to look would give it another stamp.
    pub(crate) fn can_rely_on(&self, stamp: &Stamp) -> bool {
        stamp.is_settled(self.begun)
    }

    /// Remembers that an entity is as it should be while its files are in this state.
    pub(crate) fn insert(&mut self, entity: &Path, state: Fingerprint) {
        self.has_news |= self.entries.insert(key(entity), state) != Some(state);
    }

    /// Forgets an entity.
    pub(crate) fn forget(&mut self, entity: &Path) {
        self.has_news |= self.entries.remove(&key(entity)).is_some();
    }

    /// Keeps for the next apply what this one has learned. A record without entries is none.
    pub(crate) fn keep(&self, layout: &Layout) {
        if self.is_kept && self.has_news {
            // A disk that is full, or read-only, costs the next apply its shortcut. That is no reason for this one to fail.
            let _ = if self.entries.is_empty() { layout.record().remove() } else { self.write(layout) };
        }
    }

    /// A crash may lose the file or leave half of it: then the checksum is wrong, and waiting for the disk would cost more.
    fn write(&self, layout: &Layout) -> Result<()> {
        let staged = layout.images.staged("unchanged");
        layout.images.create_staging_folder()?;
        let written = staged.create().and_then(|mut file| {
            let written = file.write_all(&to_bytes(&self.entries, self.begun));
            written.map_err(|error| PathError::new("write", staged.shown(), error))
        });
        let moved = written.and_then(|()| staged.rename_to(&layout.record()));
        if moved.is_err() {
            let _ = staged.remove();
        }
        moved
    }
}

fn read(place: &PathHandle) -> Result<Option<Vec<u8>>> {
    let Some(mut file) = place.open_if_file()? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| PathError::new("read", place.shown(), error))?;
    Ok(Some(bytes))
}

/// Header, when it was made, sums of path and state in the order of the former, checksum of it all.
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

/// Parses the output of [`to_bytes`], and nothing else.
fn parse(bytes: &[u8], now: SystemTime) -> Option<BTreeMap<Sum, Fingerprint>> {
    let (content, checksum) = bytes.split_last_chunk::<CHECKSUM_SIZE>()?;
    if Sha256::digest(content)[..] != checksum[..] {
        return None;
    }
    let (made, entries) = content.strip_prefix(HEADER)?.split_first_chunk::<TIME_SIZE>()?;
    let made = UNIX_EPOCH.checked_add(Duration::from_secs(u64::from_le_bytes(*made)))?;
    if made > now {
        // The clock was set back, so that what changes now may get the times that it had then.
        return None;
    }
    let (entries, rest) = entries.as_chunks::<{ 2 * SUM_SIZE }>();
    let entry = |bytes: &[u8; 2 * SUM_SIZE]| {
        let (key, state) = bytes.split_first_chunk()?;
        Some((*key, Fingerprint(*state.first_chunk()?)))
    };
    rest.is_empty().then(|| entries.iter().filter_map(entry).collect())
}

fn key(entity: &Path) -> Sum {
    shortened(Sha256::new_with_prefix(entity.as_os_str().as_bytes()))
}

fn shortened(sum: Sha256) -> Sum {
    let mut short = Sum::default();
    short.iter_mut().zip(sum.finalize()).for_each(|(byte, summed)| *byte = summed);
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::entity::Resource;

    fn entries() -> BTreeMap<Sum, Fingerprint> {
        let entry = |path: &str, state: u8| (key(Path::new(path)), Fingerprint([state; SUM_SIZE]));
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
        let (path, one, two) = (Path::new("/etc/motd"), Fingerprint([1; SUM_SIZE]), Fingerprint([2; SUM_SIZE]));
        let mut record = Record { is_believed: true, ..Record::none() };
        assert!(!record.knows(path, one));
        record.forget(path);
        assert!(!record.has_news);
        record.insert(path, one);
        assert!(record.knows(path, one) && !record.knows(path, two) && !record.knows(Path::new("/etc/issue"), one));
        assert!(std::mem::take(&mut record.has_news));
        record.insert(path, one);
        assert!(!record.has_news, "this is no news");
        record.insert(path, two);
        assert!(record.knows(path, two) && !record.knows(path, one));
        assert!(std::mem::take(&mut record.has_news));
        record.distrust();
        assert!(!record.knows(path, two));
        record.forget(path);
        assert!(record.has_news && record.entries.is_empty());
    }

    #[test]
    fn the_same_files_by_another_resource_are_another_state() {
        let resource = |path: &str| Resource::parse(Path::new(path), 0).unwrap().1;
        let state = |paths: &[&str]| Fingerprint::of(&paths.iter().map(|path| resource(path)).collect::<Vec<_>>(), &[]);
        assert_eq!(state(&["01-x/etc/motd"]), state(&["01-x/etc/motd"]));
        assert_ne!(state(&["01-x/etc/motd"]), state(&["02-x/etc/motd"]));
        assert_ne!(state(&["01-x/etc/motd"]), state(&["01-x/etc/motd", "02-x/etc/motd.holopatch"]));
    }
}
