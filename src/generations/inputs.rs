//! Finds the current inputs, the files that define the desired state of the machine.

use crate::entities::resources::Generated;
use crate::host::root::Root;
use holo_change::tracked::Digest;
use holo_change::{Kind, Stamp};
use holo_protocol::Text;
use holo_state::Input;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use walkdir::{DirEntry, WalkDir};

/// The directory with generated files, next to the inputs from the root.
pub(super) const GENERATED: &str = "generated";
/// The directory that only generators read. Their output is kept instead.
const GENERATORS: &str = "usr/share/holo/generators";
/// The parents of the plugins' resource directories.
const RESOURCES: [&str; 2] = ["etc/holo/resources", "usr/share/holo"];
/// The files and directories that the dispatcher and templates read; both follow symlinks.
const FOLLOWED: [&str; 6] =
    ["etc/holorc", "etc/holorc.d", "etc/holo/data", "etc/holo/facts.d", "etc/holo/fleet-data", "usr/share/holo/data"];

/// Returns the paths of the configuration, data and facts in use.
pub fn followed(root: &Root) -> impl Iterator<Item = PathBuf> {
    FOLLOWED.into_iter().map(|below| root.input(below))
}

/// An input.
#[derive(Debug)]
pub(super) struct Found {
    /// Its path relative to the root, or to [`GENERATED`].
    pub(super) path: PathBuf,
    pub(super) stamp: Stamp,
}

/// The directories that contain inputs.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// The root of the system.
    pub(super) root: Root,
    /// The virtual root with generated files.
    pub(super) virtual_root: PathBuf,
}

impl Places {
    /// Returns the absolute path of an input.
    pub(super) fn at(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(GENERATED) {
            Ok(file) => self.virtual_root.join(file),
            Err(_) => self.root.join(path),
        }
    }
}

/// The current inputs.
#[derive(Debug, Default)]
pub(super) struct Today {
    /// Sorted by path, so that parents precede their entries.
    pub(super) found: Vec<Found>,
    /// The files outside of the inputs that symlinks refer to.
    pub(super) outside: Vec<PathBuf>,
}

/// An input cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {}", path.display(), holo_protocol::words::reason(source))]
pub struct InputError {
    pub(super) path: PathBuf,
    pub(super) source: io::Error,
}

impl Found {
    pub(super) fn kind(&self) -> Kind {
        self.stamp.stat().kind
    }

    pub(super) fn access(&self) -> Access {
        let stat = self.stamp.stat();
        Access { mode: stat.mode, uid: stat.uid, gid: stat.gid }
    }
}

/// Finds all inputs below the root, and what makes generated files.
pub(super) fn all(root: &Root) -> Result<Vec<Found>, InputError> {
    let mut today = find(&Places { root: root.clone(), virtual_root: PathBuf::new() }, &Generated::new())?;
    today.walk(&root.join(GENERATORS), Path::new(GENERATORS), true)?;
    Ok(today.found)
}

/// Finds all inputs below the root, and the generated files in the virtual root.
pub(super) fn find(places: &Places, generated: &Generated) -> Result<Today, InputError> {
    let mut today = Today::default();
    let root = &places.root;
    for below in FOLLOWED {
        today.walk(&root.join(below), Path::new(below), true)?;
    }
    for below in RESOURCES {
        today.walk_plugins(&root.join(below), Path::new(below))?;
    }
    for file in generated.keys() {
        let path = Path::new(GENERATED).join(file);
        today.take(&places.at(&path), path, false)?;
    }
    today.found.sort_by(|one, other| one.path.cmp(&other.path));
    today.found.dedup_by(|one, other| one.path == other.path);
    today.found.shrink_to_fit();
    let inputs: Vec<PathBuf> = FOLLOWED.iter().chain(&RESOURCES).map(|below| root.join(below)).collect();
    today.outside.retain(|path| !inputs.iter().any(|input| path.starts_with(input)));
    today.outside.sort();
    today.outside.dedup();
    Ok(today)
}

impl Today {
    /// Adds the directories of all plugins, which may be symlinks.
    fn walk_plugins(&mut self, at: &Path, below: &Path) -> Result<(), InputError> {
        for entry in WalkDir::new(at).min_depth(1).max_depth(1) {
            let Some(entry) = present(entry, at)? else { continue };
            let path = below.join(entry.file_name());
            if path == Path::new(GENERATORS) || FOLLOWED.iter().any(|followed| path == Path::new(followed)) {
                continue;
            }
            if entry.path().is_dir() {
                self.walk(entry.path(), &path, false)?;
            }
        }
        Ok(())
    }

    /// Adds a path and everything below it.
    fn walk(&mut self, at: &Path, below: &Path, follow: bool) -> Result<(), InputError> {
        // Sorted, so that little is left to sort afterwards.
        for entry in WalkDir::new(at).follow_links(follow).sort_by_file_name() {
            let Some(entry) = present(entry, at)? else { continue };
            let Ok(relative) = entry.path().strip_prefix(at) else { continue };
            let path = if relative.as_os_str().is_empty() { below.to_owned() } else { below.join(relative) };
            let follows = follow || entry.depth() == 0;
            self.take(entry.path(), path, follows)?;
        }
        Ok(())
    }

    /// Adds a path, if it exists.
    fn take(&mut self, at: &Path, mut path: PathBuf, follow: bool) -> Result<(), InputError> {
        let stamp = match Stamp::of_path(at, follow) {
            Ok(stamp) => stamp,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(InputError { path: at.to_owned(), source }),
        };
        // There may be hundreds of thousands.
        path.shrink_to_fit();
        let found = Found { path, stamp };
        match found.kind() {
            // FIFOs and devices are never resources.
            Kind::Other => return Ok(()),
            Kind::Symlink => self.outside.extend(target_of(at)),
            Kind::File | Kind::Directory => {}
        }
        self.found.push(found);
        Ok(())
    }
}

/// Returns an entry; `None` if it does not exist.
fn present(entry: walkdir::Result<DirEntry>, folder: &Path) -> Result<Option<DirEntry>, InputError> {
    let error = match entry {
        Ok(entry) => return Ok(Some(entry)),
        Err(error) => error,
    };
    let path = error.path().unwrap_or(folder).to_owned();
    // A dangling symlink, a symlink loop, or a file that has just been removed.
    if error.loop_ancestor().is_some() || error.io_error().is_some_and(leads_nowhere) {
        return Ok(None);
    }
    Err(InputError {
        path,
        source: error.into_io_error().unwrap_or_else(|| io::Error::other("it leads back to itself")),
    })
}

fn leads_nowhere(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// Returns the file or directory that a symlink refers to, if it exists.
fn target_of(link: &Path) -> Option<PathBuf> {
    link.canonicalize().ok()
}

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
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn inputs_are_found_in_all_directories() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(Some(folder.path().into()));
        let put = |path: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        };
        for path in [
            "etc/holorc",
            "etc/holorc.d/10-files",
            "etc/holo/data/common.toml",
            "etc/holo/facts.d/site",
            "etc/holo/resources/files/90-x/etc/motd",
            "etc/holo/engine.toml",
            "usr/share/holo/files/10-x/etc/motd",
            "usr/share/holo/data/common.toml",
            "usr/share/holo/generators/01.sh",
            "srv/holo/users.toml",
            "srv/data.toml",
            "tmp/made/files/20-x/etc/issue",
        ] {
            put(path);
        }
        fs::create_dir_all(folder.path().join("usr/share/holo/empty")).unwrap();
        symlink("../../../srv/holo", folder.path().join("usr/share/holo/users-groups")).unwrap();
        symlink("../../../srv/data.toml", folder.path().join("etc/holo/data/linked.toml")).unwrap();
        symlink("nowhere", folder.path().join("usr/share/holo/files/10-x/etc/link")).unwrap();
        symlink(folder.path().join("srv/data.toml"), folder.path().join("usr/share/holo/files/10-x/etc/out")).unwrap();
        symlink("motd", folder.path().join("usr/share/holo/files/10-x/etc/in")).unwrap();
        symlink("loop", folder.path().join("etc/holo/data/loop")).unwrap();
        let generated = [("files/20-x/etc/issue".into(), "usr/share/holo/generators/01.sh".into())].into();
        let places = Places { root, virtual_root: folder.path().join("tmp/made") };
        let today = find(&places, &generated).unwrap();
        let files = today.found.iter().filter(|found| found.kind() != Kind::Directory);
        let files: Vec<&str> = files.map(|found| found.path.to_str().unwrap()).collect();
        assert_eq!(
            files,
            [
                "etc/holo/data/common.toml",
                "etc/holo/data/linked.toml",
                "etc/holo/facts.d/site",
                "etc/holo/resources/files/90-x/etc/motd",
                "etc/holorc",
                "etc/holorc.d/10-files",
                "generated/files/20-x/etc/issue",
                "usr/share/holo/data/common.toml",
                "usr/share/holo/files/10-x/etc/in",
                "usr/share/holo/files/10-x/etc/link",
                "usr/share/holo/files/10-x/etc/motd",
                "usr/share/holo/files/10-x/etc/out",
                "usr/share/holo/users-groups/users.toml",
            ]
        );
        assert!(today.found.iter().any(|found| found.path == Path::new("usr/share/holo/empty")));
        for found in &today.found {
            assert!(places.at(&found.path).symlink_metadata().is_ok(), "{found:?}");
        }
        assert_eq!(today.outside, [folder.path().canonicalize().unwrap().join("srv/data.toml")]);
    }

    #[test]
    fn missing_inputs_are_not_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places { root: Root::new(Some(folder.path().into())), virtual_root: PathBuf::new() };
        assert!(find(&places, &Generated::new()).unwrap().found.is_empty());
    }

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
