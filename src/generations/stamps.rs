//! The stamps of the inputs that are those of the last generation, so that what is as it was need not be read.

use super::digest::Digest;
use super::inputs::Found;
use holo_change::Kind;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

const MAGIC: &[u8; 8] = b"holost\x001";

/// The bytes before the entries: that these are stamps, and the digest of the topmost directory.
const HEADER: usize = MAGIC.len() + 32;

/// The bytes of an entry beside its path, if it has all: three lengths, a stamp and a digest.
const LONGEST_BESIDE_PATH: usize = 3 * 4 + 68 + 32;

/// The stamps of inputs, with their digests.
///
/// There may be very many, so they are kept in the form in which they are written.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    /// The digest of the topmost directory.
    pub(super) tree: Option<Digest>,
    /// The entries after the header, in the order of their paths; empty if nothing is known.
    bytes: Vec<u8>,
}

struct Entry<'a> {
    path: &'a Path,
    /// The stamp, if whatever happens to the input later gives it another one; otherwise empty.
    stamp: &'a [u8],
    /// That of a file's content.
    digest: Option<Digest>,
}

impl Stamps {
    /// Returns the stamps of inputs that were found at this moment, with the digests of those that are files. What is known of the topmost
    /// directory is set later.
    pub(super) fn new(found: &[Found], digests: &[Option<Digest>], moment: SystemTime) -> Stamps {
        let length = |found: &Found| found.path.as_os_str().len() + LONGEST_BESIDE_PATH;
        let mut bytes = Vec::with_capacity(HEADER + found.iter().map(length).sum::<usize>() + 32);
        bytes.resize(HEADER, 0);
        let mut text = |text: &[u8]| {
            let length = u32::try_from(text.len()).unwrap_or_default();
            bytes.extend(length.to_le_bytes());
            bytes.extend(text);
        };
        for (found, digest) in found.iter().zip(digests) {
            text(found.path.as_os_str().as_bytes());
            if found.stamp.is_settled(moment) {
                text(&found.stamp.to_bytes());
            } else {
                text(&[]);
            }
            text(digest.as_ref().map_or(&[], |digest| digest.as_bytes()));
        }
        Stamps { tree: None, bytes }
    }

    /// Says which topmost directory these inputs make.
    pub(super) fn set_tree(&mut self, tree: Digest) {
        self.tree = Some(tree);
    }

    /// Returns the digest of each input that is a file and is as it was.
    pub(super) fn known(&self, found: &[Found]) -> Vec<Option<Digest>> {
        let mut entries = self.entries().peekable();
        let digest = |found: &Found| {
            while entries.next_if(|entry| entry.path < &*found.path).is_some() {}
            let entry = entries.peek().filter(|entry| entry.path == found.path)?;
            entry.digest.filter(|_| entry.is_of(found))
        };
        found.iter().map(digest).collect()
    }

    /// Returns true if these inputs are there, as they were, and no others.
    pub(super) fn is_of(&self, found: &[Found]) -> bool {
        let mut entries = self.entries();
        let mut is_next =
            |found: &Found| entries.next().is_some_and(|entry| entry.path == found.path && entry.is_of(found));
        self.tree.is_some() && found.iter().all(&mut is_next) && entries.next().is_none()
    }

    /// Reads stamps. Those that cannot be read are of no use, and written anew.
    pub(super) fn read(path: &Path) -> Stamps {
        fs::read(path).ok().and_then(Stamps::parse).unwrap_or_default()
    }

    fn parse(mut bytes: Vec<u8>) -> Option<Stamps> {
        let (own, digest) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
        if Digest::new(own).as_bytes() != digest {
            return None;
        }
        let tree = Digest::from_bytes(Reader(own.strip_prefix(MAGIC)?).take(32)?);
        bytes.truncate(bytes.len() - 32);
        Some(Stamps { tree, bytes })
    }

    /// Writes the stamps, in the place of others. They are of use only if nothing is missing, and that they can tell.
    pub(super) fn write(mut self, path: &Path) -> io::Result<()> {
        let Some(tree) = self.tree else { return Ok(()) };
        let header = [&MAGIC[..], tree.as_bytes()].concat();
        self.bytes.splice(..HEADER, header);
        let digest = Digest::new(&self.bytes);
        self.bytes.extend(digest.as_bytes());
        super::store::replace(path, &self.bytes)
    }

    fn entries(&self) -> Entries<'_> {
        Entries(Reader(self.bytes.get(HEADER..).unwrap_or_default()))
    }
}

impl Entry<'_> {
    /// Returns true if nothing has happened to it since. What is in a directory is looked at by itself.
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

/// The rest of what is read.
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
    fn only_what_is_as_it_was_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a", "b", "c"] {
            fs::write(path(name), name).unwrap();
        }
        let found = |name: &str| Found { path: name.into(), stamp: Stamp::of_path(&path(name), false).unwrap() };
        let digest = Digest::new(b"x");
        let all = [found("a"), found("b"), found("c")];
        let later = SystemTime::now() + Duration::from_secs(60);
        let mut stamps = Stamps::new(&all, &[Some(digest); 3], later);
        stamps.set_tree(digest);
        let file = path("stamps");
        stamps.write(&file).unwrap();
        let stamps = Stamps::read(&file);
        assert!(stamps.is_of(&all));
        assert!(!stamps.is_of(&all[..2]));
        std::thread::sleep(Duration::from_millis(20));
        fs::write(path("b"), "b").unwrap();
        let now = [found("b"), found("c")];
        assert_eq!(stamps.known(&now), [None, Some(digest)]);
        // A file that was changed just before may be changed again without another stamp.
        let fresh = Stamps::new(&all, &[Some(digest); 3], SystemTime::now());
        assert_eq!(fresh.known(&all), [None; 3]);
        for damage in 0..fs::metadata(&file).unwrap().len() {
            let mut bytes = fs::read(&file).unwrap();
            bytes[usize::try_from(damage).unwrap()] ^= 1;
            assert!(Stamps::parse(bytes).is_none(), "byte {damage}");
        }
        assert!(Stamps::read(&path("none")).tree.is_none());
    }
}
