//! The nodes that inputs consist of, their digests, and the serialization of directories.

use holo_protocol::Text;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::{fmt, io};

/// All inputs, by path relative to the root. Parents precede their entries.
pub type Inputs = BTreeMap<PathBuf, Node>;

/// A file, directory or symlink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A regular file.
    File {
        /// Its mode and owner.
        access: Access,
        /// The digest of its content.
        content: Digest,
    },
    /// A directory.
    Directory(Access),
    /// A symlink with this target.
    Symlink(PathBuf),
}

/// The mode and owner of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The mode bits.
    pub mode: u32,
    /// The user ID of the owner.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
}

/// A serialized directory. It is an object of its own, so an unchanged directory is stored once.
#[derive(Debug, Serialize, Deserialize)]
struct Directory(Vec<Entry>);

/// An entry of a directory.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Text,
    is: Kept,
}

/// A serialized [`Node`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kept {
    File(Access, Digest),
    Directory(Access, Digest),
    Symlink(Text),
}

/// The tree of a generation is invalid.
#[derive(Debug, thiserror::Error)]
pub(super) enum TreeError<E> {
    /// An object cannot be read.
    #[error(transparent)]
    Object(#[from] E),
    /// An object is not a directory.
    #[error("{0} is not a directory")]
    NotDirectory(Digest),
}

/// Passes the objects of all directories to `keep`, deepest first. Returns the digest of the root directory.
///
/// # Errors
/// Those of `keep`.
pub(super) fn write<E>(inputs: &Inputs, mut keep: impl FnMut(Digest, &[u8]) -> Result<(), E>) -> Result<Digest, E> {
    // The ancestors of the current path, each with its entries so far.
    let mut open: Vec<(PathBuf, Vec<Entry>)> = vec![(PathBuf::new(), Vec::new())];
    for (path, node) in inputs {
        close(&mut open, inputs, path, &mut keep)?;
        let name = Text::from(path.file_name().unwrap_or_default().as_bytes());
        let is = match node {
            Node::Directory(_) => {
                open.push((path.clone(), Vec::new()));
                continue;
            }
            Node::File { access, content } => Kept::File(*access, *content),
            Node::Symlink(target) => Kept::Symlink(Text::from(target.as_os_str().as_bytes())),
        };
        if let Some((_, entries)) = open.last_mut() {
            entries.push(Entry { name, is });
        }
    }
    close(&mut open, inputs, Path::new("/"), &mut keep)?;
    let entries = open.pop().map(|(_, entries)| entries).unwrap_or_default();
    keep_directory(entries, &mut keep)
}

/// Finishes the directories that do not contain the path.
fn close<E>(
    open: &mut Vec<(PathBuf, Vec<Entry>)>,
    inputs: &Inputs,
    path: &Path,
    keep: &mut impl FnMut(Digest, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    while open.len() > 1
        && let Some((directory, entries)) = open.pop_if(|(directory, _)| !path.starts_with(directory))
    {
        let digest = keep_directory(entries, keep)?;
        let Some(Node::Directory(access)) = inputs.get(&directory) else { continue };
        let name = Text::from(directory.file_name().unwrap_or_default().as_bytes());
        if let Some((_, entries)) = open.last_mut() {
            entries.push(Entry { name, is: Kept::Directory(*access, digest) });
        }
    }
    Ok(())
}

fn keep_directory<E>(entries: Vec<Entry>, keep: &mut impl FnMut(Digest, &[u8]) -> Result<(), E>) -> Result<Digest, E> {
    // Names and numbers can always be serialized.
    let bytes = serde_json::to_vec(&Directory(entries)).unwrap_or_default();
    let digest = Digest::new(&bytes);
    keep(digest, &bytes)?;
    Ok(digest)
}

/// Reads the inputs below the directory with this digest; `object` returns the content of an object.
///
/// # Errors
/// If an object cannot be read or is not a directory.
pub(super) fn read<E>(
    top: Digest,
    mut object: impl FnMut(Digest) -> Result<Vec<u8>, E>,
) -> Result<Inputs, TreeError<E>> {
    let mut inputs = Inputs::new();
    let mut waiting = vec![(PathBuf::new(), top)];
    while let Some((directory, digest)) = waiting.pop() {
        let bytes = object(digest)?;
        let Ok(Directory(entries)) = serde_json::from_slice(&bytes) else {
            return Err(TreeError::NotDirectory(digest));
        };
        for Entry { name, is } in entries {
            let name = Path::new(OsStr::from_bytes(name.as_bstr()));
            if !is_name(name) {
                return Err(TreeError::NotDirectory(digest));
            }
            let path = directory.join(name);
            let node = match is {
                Kept::File(access, content) => Node::File { access, content },
                Kept::Symlink(target) => Node::Symlink(OsStr::from_bytes(target.as_bstr()).into()),
                Kept::Directory(access, digest) => {
                    waiting.push((path.clone(), digest));
                    Node::Directory(access)
                }
            };
            inputs.insert(path, node);
        }
    }
    Ok(inputs)
}

/// Returns true if a path is a plain file name, so that it cannot lead outside of its directory.
fn is_name(name: &Path) -> bool {
    let mut components = name.components();
    matches!((components.next(), components.next()), (Some(Component::Normal(_)), None))
}

/// The SHA-256 digest of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

/// An incremental digest.
#[derive(Default)]
pub(super) struct Hasher(Sha256);

impl Digest {
    /// Returns the digest of a content.
    #[must_use]
    pub fn new(content: &[u8]) -> Digest {
        Digest(Sha256::digest(content).into())
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the digest with these bytes; `None` if their number is wrong.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Digest> {
        bytes.try_into().ok().map(Digest)
    }

    fn parse(text: &str) -> Option<Digest> {
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Digest(bytes))
    }
}

impl Hasher {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&holo_change::hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&holo_change::hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Digest::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a digest")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::convert::Infallible;

    const ACCESS: Access = Access { mode: 0o644, uid: 0, gid: 7 };

    fn file(content: &str) -> Node {
        Node::File { access: ACCESS, content: Digest::new(content.as_bytes()) }
    }

    fn inputs(nodes: &[(&str, Node)]) -> Inputs {
        nodes.iter().map(|(path, node)| (PathBuf::from(path), node.clone())).collect()
    }

    fn kept(inputs: &Inputs) -> (Digest, HashMap<Digest, Vec<u8>>) {
        let mut objects = HashMap::new();
        let top = write(inputs, |digest, bytes| {
            objects.insert(digest, bytes.to_vec());
            Ok::<_, Infallible>(())
        });
        (top.unwrap(), objects)
    }

    fn some() -> Inputs {
        inputs(&[
            ("a", Node::Directory(ACCESS)),
            ("a/b", Node::Directory(ACCESS)),
            ("a/b/c", file("c")),
            ("a/b.d", file("d")),
            ("a/empty", Node::Directory(Access { mode: 0o700, ..ACCESS })),
            ("a/link", Node::Symlink("../b".into())),
            ("z", file("z")),
            ("zz", Node::Directory(ACCESS)),
            ("zz/last", file("last")),
        ])
    }

    #[test]
    fn inputs_round_trip() {
        for inputs in [Inputs::new(), some()] {
            let (top, objects) = kept(&inputs);
            assert_eq!(read(top, |digest| objects.get(&digest).cloned().ok_or(())).unwrap(), inputs);
        }
    }

    #[test]
    fn unchanged_directory_is_stored_once() {
        let (before, mut changed) = (some(), some());
        changed.insert("zz/last".into(), file("later"));
        let (_, before) = kept(&before);
        let (_, after) = kept(&changed);
        let new = after.keys().filter(|digest| !before.contains_key(*digest)).count();
        assert_eq!(new, 2, "that of zz, and the topmost");
    }

    #[test]
    fn name_leading_out_of_the_directory_is_refused() {
        for name in ["..", "../x", "/etc", "a/b", "", "."] {
            let bytes = format!("[{{\"name\":{name:?},\"is\":{{\"symlink\":\"x\"}}}}]");
            let read = read(Digest::new(b""), |_| Ok::<_, Infallible>(bytes.clone().into_bytes()));
            assert!(matches!(read, Err(TreeError::NotDirectory(_))), "{name}");
        }
        assert!(read(Digest::new(b""), |_| Err("gone")).is_err());
    }
}

#[cfg(test)]
mod digest_tests {
    use super::*;

    #[test]
    fn digests_round_trip() {
        let digest = Digest::new(b"abc");
        let text = serde_json::to_string(&digest).unwrap();
        assert_eq!(text, "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"");
        assert_eq!(serde_json::from_str::<Digest>(&text).unwrap(), digest);
        for wrong in ["\"\"", "\"ba\"", &text.replace("ba78", "+a78"), &text.replace("ba78", "ü8")] {
            assert!(serde_json::from_str::<Digest>(wrong).is_err(), "{wrong}");
        }
    }
}
