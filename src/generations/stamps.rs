//! The stamps of the inputs that are those of the last generation, so that what is as it was need not be read.

use super::digest::{Digest, Hasher};
use super::inputs::Found;
use holo_change::Kind;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const MAGIC: &[u8; 8] = b"holost\x001";

/// The stamps of inputs, with their digests.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    /// The digest of the topmost directory.
    pub(super) tree: Option<Digest>,
    /// By their paths, in the order of these.
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    path: PathBuf,
    /// The stamp, if whatever happens to the input later gives it another one.
    stamp: Option<Vec<u8>>,
    /// That of a file's content.
    digest: Option<Digest>,
}

impl Stamps {
    /// Returns the stamps of inputs that were found at this moment, with the digests of those that are files.
    pub(super) fn new(tree: Digest, found: &[Found], digests: &[Option<Digest>], moment: SystemTime) -> Stamps {
        let entry = |(found, digest): (&Found, &Option<Digest>)| Entry {
            path: found.path.clone(),
            stamp: found.stamp.is_settled(moment).then(|| found.stamp.to_bytes()),
            digest: *digest,
        };
        Stamps { tree: Some(tree), entries: found.iter().zip(digests).map(entry).collect() }
    }

    /// Returns the digest of each input that is a file and is as it was.
    pub(super) fn known(&self, found: &[Found]) -> Vec<Option<Digest>> {
        let mut entries = self.entries.iter().peekable();
        let digest = |found: &Found| {
            while entries.next_if(|entry| entry.path < found.path).is_some() {}
            let entry = entries.peek().filter(|entry| entry.path == found.path)?;
            entry.digest.filter(|_| entry.is_of(found))
        };
        found.iter().map(digest).collect()
    }

    /// Returns true if these inputs are there, as they were, and no others.
    pub(super) fn is_of(&self, found: &[Found]) -> bool {
        self.tree.is_some()
            && self.entries.len() == found.len()
            && self.entries.iter().zip(found).all(|(entry, found)| entry.path == found.path && entry.is_of(found))
    }

    /// Reads stamps. Those that cannot be read are of no use, and written anew.
    pub(super) fn read(path: &Path) -> Stamps {
        fs::read(path).ok().and_then(|bytes| Stamps::parse(&bytes)).unwrap_or_default()
    }

    fn parse(bytes: &[u8]) -> Option<Stamps> {
        let (bytes, digest) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
        if Digest::new(bytes).as_bytes() != digest {
            return None;
        }
        let mut rest = Reader(bytes.strip_prefix(MAGIC)?);
        let tree = Digest::from_bytes(rest.take(32)?);
        let mut entries = Vec::new();
        while !rest.0.is_empty() {
            let path = PathBuf::from(std::ffi::OsString::from_vec(rest.text()?.to_vec()));
            let stamp = Some(rest.text()?.to_vec()).filter(|stamp| !stamp.is_empty());
            let digest = rest.text()?;
            let digest = if digest.is_empty() { None } else { Some(Digest::from_bytes(digest)?) };
            entries.push(Entry { path, stamp, digest });
        }
        Some(Stamps { tree, entries })
    }

    /// Writes the stamps, in the place of others. They are of use only if nothing is missing, and that they can tell.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let Some(tree) = &self.tree else { return Ok(()) };
        let mut bytes = [&MAGIC[..], tree.as_bytes()].concat();
        let mut text = |text: &[u8]| {
            let length = u32::try_from(text.len()).unwrap_or_default();
            bytes.extend(length.to_le_bytes());
            bytes.extend(text);
        };
        for Entry { path, stamp, digest } in &self.entries {
            text(path.as_os_str().as_bytes());
            text(stamp.as_deref().unwrap_or_default());
            text(digest.as_ref().map_or(&[], |digest| digest.as_bytes()));
        }
        let mut hasher = Hasher::default();
        hasher.update(&bytes);
        bytes.extend(hasher.finish().as_bytes());
        super::store::replace(path, &bytes)
    }
}

impl Entry {
    /// Returns true if nothing has happened to it since. What is in a directory is looked at by itself.
    fn is_of(&self, found: &Found) -> bool {
        let has_content = self.digest.is_some() == (found.kind() == Kind::File);
        has_content && self.stamp.as_ref().is_some_and(|stamp| *stamp == found.stamp.to_bytes())
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
        let found = |name: &str| Found {
            path: name.into(),
            at: path(name),
            stamp: Stamp::of_path(&path(name), false).unwrap(),
        };
        let digest = Digest::new(b"x");
        let all = [found("a"), found("b"), found("c")];
        let later = SystemTime::now() + Duration::from_secs(60);
        let stamps = Stamps::new(digest, &all, &[Some(digest); 3], later);
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
        let fresh = Stamps::new(digest, &all, &[Some(digest); 3], SystemTime::now());
        assert_eq!(fresh.known(&all), [None; 3]);
        for damage in 0..fs::metadata(&file).unwrap().len() {
            let mut bytes = fs::read(&file).unwrap();
            bytes[usize::try_from(damage).unwrap()] ^= 1;
            assert!(Stamps::parse(&bytes).is_none(), "byte {damage}");
        }
        assert!(Stamps::read(&path("none")).tree.is_none());
    }
}
