//! The nodes that inputs consist of.

use holo_change::tracked::Digest;
use holo_protocol::Text;
use holo_state::Input;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

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

/// A [`Node`] in the state database, without the digest of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kept {
    File(Access),
    Directory(Access),
    Symlink(Text),
}

impl Node {
    /// Returns the row of an input with this path.
    pub(super) fn to_input(&self, path: &Path, stamp: Option<Vec<u8>>) -> serde_json::Result<Input> {
        let (kept, content) = match self {
            Node::File { access, content } => (Kept::File(*access), Some(content.as_str().to_owned())),
            Node::Directory(access) => (Kept::Directory(*access), None),
            Node::Symlink(target) => (Kept::Symlink(target.as_os_str().as_bytes().into()), None),
        };
        Ok(Input { path: path.as_os_str().as_bytes().into(), value: serde_json::to_string(&kept)?, content, stamp })
    }

    /// Returns the path and the node of a row; `None` if it is damaged.
    pub(super) fn from_input(input: &Input) -> Option<(PathBuf, Node)> {
        let path = Path::new(OsStr::from_bytes(&input.path));
        // A path that leads out of the directory must not be written.
        path.components().all(|component| matches!(component, Component::Normal(_))).then_some(())?;
        let node = match serde_json::from_str(&input.value).ok()? {
            Kept::File(access) => Node::File { access, content: Digest::try_from(input.content.clone()?).ok()? },
            Kept::Directory(access) => Node::Directory(access),
            Kept::Symlink(target) => Node::Symlink(OsStr::from_bytes(target.as_bstr()).into()),
        };
        Some((path.to_owned(), node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_round_trip() {
        let access = Access { mode: 0o4755, uid: 1, gid: 2 };
        let path = Path::new(OsStr::from_bytes(b"a/\xff"));
        for node in [
            Node::File { access, content: Digest::of_bytes(b"x") },
            Node::Directory(access),
            Node::Symlink(OsStr::from_bytes(b"../\xfe").into()),
        ] {
            let input = node.to_input(path, None).unwrap();
            assert_eq!(Node::from_input(&input), Some((path.to_owned(), node)));
        }
    }

    #[test]
    fn path_leading_out_of_the_directory_is_refused() {
        let input = Node::Symlink("x".into()).to_input(Path::new("a"), None).unwrap();
        for path in ["..", "../x", "/etc", "a/../b"] {
            assert_eq!(Node::from_input(&Input { path: path.into(), ..input.clone() }), None, "{path}");
        }
    }
}
