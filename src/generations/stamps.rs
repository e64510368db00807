//! The stamps of the last generation's inputs, which avoid reading unchanged files again.

use super::inputs::Found;
use super::tree::{Digest, Hasher};
use holo_change::Kind;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const MAGIC: &[u8; 8] = b"holost\x002";

/// The length of the data after the entries: the digest of the root directory, and that of everything before it.
const TRAILER: usize = 2 * 32;

/// The stamps of inputs, with their digests.
///
/// There may be hundreds of thousands, so they are kept in serialized form.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    /// The digest of the root directory.
    pub(super) tree: Option<Digest>,
    /// The magic bytes, followed by the entries, sorted by path; empty if there are no stamps.
    bytes: Vec<u8>,
}

/// Stamps that are being written to a temporary file.
pub(super) struct Unfinished {
    path: PathBuf,
    file: BufWriter<File>,
    hasher: Hasher,
}

/// Stamps that are ready to replace the existing ones.
pub(super) struct Finished {
    path: PathBuf,
}

struct Entry<'a> {
    path: &'a Path,
    /// The stamp, if every later change of the input results in a different one; otherwise empty.
    stamp: &'a [u8],
    /// The digest of a file's content.
    digest: Option<Digest>,
}

impl Stamps {
    /// Returns the digest of each input that is an unchanged file.
    pub(super) fn known(&self, found: &[Found]) -> Vec<Option<Digest>> {
        let mut entries = self.entries().peekable();
        let digest = |found: &Found| {
            while entries.next_if(|entry| entry.path < &*found.path).is_some() {}
            let entry = entries.peek().filter(|entry| entry.path == found.path)?;
            entry.digest.filter(|_| entry.is_of(found))
        };
        found.iter().map(digest).collect()
    }

    /// Returns true if the inputs are exactly these, all unchanged.
    pub(super) fn is_of(&self, found: &[Found]) -> bool {
        let mut entries = self.entries();
        let mut is_next =
            |found: &Found| entries.next().is_some_and(|entry| entry.path == found.path && entry.is_of(found));
        self.tree.is_some() && found.iter().all(&mut is_next) && entries.next().is_none()
    }

    /// Reads stamps. Unreadable ones count as missing, and are rebuilt.
    pub(super) fn read(path: &Path) -> Stamps {
        fs::read(path).ok().and_then(Stamps::parse).unwrap_or_default()
    }

    fn parse(mut bytes: Vec<u8>) -> Option<Stamps> {
        let (own, digest) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
        if !own.starts_with(MAGIC) || Digest::new(own).as_bytes() != digest {
            return None;
        }
        let entries = bytes.len().checked_sub(TRAILER)?;
        let tree = Digest::from_bytes(own.get(entries..)?);
        bytes.truncate(entries);
        Some(Stamps { tree, bytes })
    }

    fn entries(&self) -> Entries<'_> {
        Entries(Reader(self.bytes.get(MAGIC.len()..).unwrap_or_default()))
    }
}

impl Unfinished {
    /// Starts to write stamps to a temporary file. `moment` is the time at which the inputs were found.
    pub(super) fn begin(
        path: &Path,
        found: &[Found],
        digests: &[Option<Digest>],
        moment: SystemTime,
    ) -> io::Result<Unfinished> {
        let file = BufWriter::new(super::store::create_beside(path)?);
        let mut unfinished = Unfinished { path: path.to_owned(), file, hasher: Hasher::default() };
        unfinished.add(MAGIC)?;
        for (found, digest) in found.iter().zip(digests) {
            unfinished.add_text(found.path.as_os_str().as_bytes())?;
            if found.stamp.is_settled(moment) {
                unfinished.add_text(&found.stamp.to_bytes())?;
            } else {
                unfinished.add_text(&[])?;
            }
            unfinished.add_text(digest.as_ref().map_or(&[], |digest| digest.as_bytes()))?;
        }
        Ok(unfinished)
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.file.write_all(bytes)
    }

    fn add_text(&mut self, text: &[u8]) -> io::Result<()> {
        self.add(&u32::try_from(text.len()).unwrap_or_default().to_le_bytes())?;
        self.add(text)
    }

    /// Finishes with the digest of the inputs' root directory.
    pub(super) fn finish(mut self, tree: Digest) -> io::Result<Finished> {
        self.add(tree.as_bytes())?;
        self.file.write_all(self.hasher.finish().as_bytes())?;
        self.file.flush()?;
        Ok(Finished { path: self.path })
    }
}

impl Finished {
    /// Replaces the existing stamps. No sync is needed, because incomplete stamps are detected.
    pub(super) fn take_place(self) -> io::Result<()> {
        super::store::take_place(&self.path)
    }
}

impl Entry<'_> {
    /// Returns true if the input has not changed since. The entries of a directory are compared individually.
    fn is_of(&self, found: &Found) -> bool {
        let has_content = self.digest.is_some() == (found.kind() == Kind::File);
        has_content && self.stamp == found.stamp.to_bytes()
    }
}

/// The entries that have not been read yet.
struct Entries<'a>(Reader<'a>);

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let path = Path::new(OsStr::from_bytes(self.0.text()?));
        let stamp = self.0.text()?;
        Some(Entry { path, stamp, digest: Digest::from_bytes(self.0.text()?) })
    }
}

/// The remaining bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(self.take(4)?.try_into().ok()?);
        self.take(usize::try_from(length).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holo_change::Stamp;
    use std::time::Duration;

    #[test]
    fn only_unchanged_inputs_have_known_digests() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a", "b", "c"] {
            fs::write(path(name), name).unwrap();
        }
        let found = |name: &str| Found { path: name.into(), stamp: Stamp::of_path(&path(name), false).unwrap() };
        let digest = Digest::new(b"x");
        let all = [found("a"), found("b"), found("c")];
        let later = SystemTime::now() + Duration::from_secs(60);
        let file = path("stamps");
        let write = |moment| {
            let unfinished = Unfinished::begin(&file, &all, &[Some(digest); 3], moment).unwrap();
            unfinished.finish(digest).unwrap().take_place().unwrap();
        };
        write(later);
        let stamps = Stamps::read(&file);
        assert!(stamps.is_of(&all));
        assert!(!stamps.is_of(&all[..2]));
        std::thread::sleep(Duration::from_millis(20));
        fs::write(path("b"), "b").unwrap();
        let now = [found("b"), found("c")];
        assert_eq!(stamps.known(&now), [None, Some(digest)]);
        // A file that was changed just before may change again without a different stamp.
        write(SystemTime::now());
        assert_eq!(Stamps::read(&file).known(&all), [None; 3]);
        for damage in 0..fs::metadata(&file).unwrap().len() {
            let mut bytes = fs::read(&file).unwrap();
            bytes[usize::try_from(damage).unwrap()] ^= 1;
            assert!(Stamps::parse(bytes).is_none(), "byte {damage}");
        }
        assert!(Stamps::read(&path("none")).tree.is_none());
    }
}
