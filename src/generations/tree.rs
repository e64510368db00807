//! What inputs consist of: files, directories and symlinks, and the form in which directories are kept.

use super::digest::Digest;
use holo_protocol::Text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// All inputs, by their paths below the root. Parents are before what is in them.
pub type Inputs = BTreeMap<PathBuf, Node>;

/// A file, directory or symlink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A regular file.
    File {
        /// Who may do what with it.
        access: Access,
        /// The digest of its content.
        content: Digest,
    },
    /// A directory.
    Directory(Access),
    /// A symlink with this target.
    Symlink(PathBuf),
}

/// The mode of a file or directory, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The bits of the mode.
    pub mode: u32,
    /// The number of the owner.
    pub uid: u32,
    /// The number of the group.
    pub gid: u32,
}

/// A directory as it is kept: an object of its own, so that one in which nothing has changed is kept once.
#[derive(Debug, Serialize, Deserialize)]
struct Directory(Vec<Entry>);

/// Something in a directory.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Text,
    is: Kept,
}

/// A [`Node`] that is kept.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kept {
    File(Access, Digest),
    Directory(Access, Digest),
    Symlink(Text),
}

/// Something that is kept is not what it should be.
#[derive(Debug, thiserror::Error)]
pub(super) enum TreeError<E> {
    /// An object cannot be had.
    #[error(transparent)]
    Object(#[from] E),
    /// An object is not a directory.
    #[error("{0} is not a directory")]
    NotDirectory(Digest),
}

/// Hands the objects of all directories to `keep`, the deepest first. Returns the digest of the topmost.
///
/// # Errors
/// That of `keep`.
pub(super) fn write<E>(inputs: &Inputs, mut keep: impl FnMut(Digest, &[u8]) -> Result<(), E>) -> Result<Digest, E> {
    // The directories on the way to the current path, each with its entries so far.
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

/// Keeps the directories that the path is not in.
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
    // Names and numbers are all that there is, which JSON can write.
    let bytes = serde_json::to_vec(&Directory(entries)).unwrap_or_default();
    let digest = Digest::new(&bytes);
    keep(digest, &bytes)?;
    Ok(digest)
}

/// Reads the inputs whose topmost directory has this digest; `object` gives the objects.
///
/// # Errors
/// If an object cannot be had or is not a directory.
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

/// Returns true if a path is the name of something in a directory, which leads nowhere else.
fn is_name(name: &Path) -> bool {
    let mut components = name.components();
    matches!((components.next(), components.next()), (Some(Component::Normal(_)), None))
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
    fn inputs_are_read_as_they_were_written() {
        for inputs in [Inputs::new(), some()] {
            let (top, objects) = kept(&inputs);
            assert_eq!(read(top, |digest| objects.get(&digest).cloned().ok_or(())).unwrap(), inputs);
        }
    }

    #[test]
    fn a_directory_in_which_nothing_has_changed_is_kept_once() {
        let (before, mut changed) = (some(), some());
        changed.insert("zz/last".into(), file("later"));
        let (_, before) = kept(&before);
        let (_, after) = kept(&changed);
        let new = after.keys().filter(|digest| !before.contains_key(*digest)).count();
        assert_eq!(new, 2, "that of zz, and the topmost");
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        for name in ["..", "../x", "/etc", "a/b", "", "."] {
            let bytes = format!("[{{\"name\":{name:?},\"is\":{{\"symlink\":\"x\"}}}}]");
            let read = read(Digest::new(b""), |_| Ok::<_, Infallible>(bytes.clone().into_bytes()));
            assert!(matches!(read, Err(TreeError::NotDirectory(_))), "{name}");
        }
        assert!(read(Digest::new(b""), |_| Err("gone")).is_err());
    }
}
