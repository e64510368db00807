//! The fingerprint of the inputs, which tells whether they have changed since a run began to read them.
//!
//! It consists of the names and stamps of files and directories. Contents are not read, as a file that is written to gets another stamp.
//!
//! Shared overlays and templates have no stamps, only inodes: there may be very many, and a package manager replaces them by other files.
//! If one is written to in place, no entity appears or disappears. All other inputs have stamps: an empty file of the administrator can
//! hide an entity, and an SSH key that is being written looks like a removed one.
//!
//! Files elsewhere that definitions name are not covered.

use super::inputs::followed;
use crate::host::root::Root;
use foldhash::quality::FixedState;
use jiff::Timestamp;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, open, statat};
use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time within which two changes of a file may have the same timestamp: the longest tick of the kernel's clock.
const TICK: Duration = Duration::from_millis(10);

/// The depth of the directories of plugins in the directory of all resource directories. They may be symlinks.
const PLUGINS: usize = 1;

/// The plugins whose subdirectories only contain contents of files.
const CONTENTS: [&str; 2] = ["files", "scaffold"];

/// The inputs that a fingerprint covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All inputs except files in subdirectories of resource directories.
    Definitions,
    /// All inputs.
    All,
}

/// The inputs as they were at one time.
#[derive(Clone, Debug)]
pub struct Fingerprint {
    extent: Extent,
    /// The directories by their paths. An input that is not a directory is one without entries.
    directories: BTreeMap<PathBuf, Listing>,
}

/// A directory as it was at one time.
#[derive(Clone, Debug, Default)]
struct Listing {
    /// The sum of the digests of all names, with inodes where there are no stamps.
    names: u64,
    /// The sum of the digests of all names with their stamps.
    stamps: u64,
    /// The time of the last change of an entry that has a stamp, and the name of the entry.
    newest: (Duration, OsString),
}

/// A directory that is an input with its subdirectories, down to a depth.
struct Tree {
    path: PathBuf,
    depth: usize,
    /// The depth down to which symlinks to directories are followed.
    follow: usize,
    /// The directories in whose subdirectories files have no stamps.
    unstamped: Vec<PathBuf>,
}

/// Walks through a tree.
struct Walker<'a> {
    tree: &'a Tree,
    directories: &'a mut BTreeMap<PathBuf, Listing>,
    /// The devices and inodes of the directories that have been listed, as symlinks may lead back to them.
    known: HashSet<(u64, u64)>,
}

impl Fingerprint {
    /// Takes the fingerprint of the inputs in use. If inputs that are read from now on change later, a later
    /// fingerprint differs.
    #[must_use]
    pub fn take(root: &Root, extent: Extent) -> Fingerprint {
        let fingerprint = Fingerprint::take_now(root, extent);
        // A later change within the same tick would not show.
        let newest = fingerprint.directories.values().map(|listing| listing.newest.0).max().unwrap_or_default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        thread::sleep(TICK.saturating_sub(now.checked_sub(newest).unwrap_or(TICK)));
        fingerprint
    }

    /// Returns the path of a file or directory that has changed since, if there is one.
    #[must_use]
    pub fn changed(&self, root: &Root) -> Option<PathBuf> {
        self.difference(&Fingerprint::take_now(root, self.extent))
    }

    /// Returns true if an input in use that has a stamp has changed after this time.
    #[must_use]
    pub fn has_changed_since(root: &Root, time: Timestamp) -> bool {
        let time = Duration::try_from(time.as_duration()).unwrap_or_default();
        Fingerprint::take_now(root, Extent::All).directories.values().any(|listing| listing.newest.0 > time)
    }

    /// Returns a digest that differs for other inputs.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hasher = hasher();
        for (path, listing) in &self.directories {
            (path, listing.names, listing.stamps).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn take_now(root: &Root, extent: Extent) -> Fingerprint {
        const ALL: usize = usize::MAX;
        let depth = if extent == Extent::All { ALL } else { PLUGINS };
        let tree = |path, depth, follow| Tree { path, depth, follow, unstamped: Vec::new() };
        let own = tree(root.own_resources(), depth, PLUGINS);
        let shared = tree(root.resources(), depth, PLUGINS);
        let shared = Tree { unstamped: CONTENTS.map(|plugin| shared.path.join(plugin)).into(), ..shared };
        let generators = tree(root.generators(), ALL, 0);
        let followed: Vec<Tree> = followed(root).map(|path| tree(path, ALL, ALL)).collect();
        let mut directories = BTreeMap::new();
        // Directories that are in two trees have stamps in the second one.
        for tree in [own, shared, generators].iter().chain(&followed) {
            Walker { tree, directories: &mut directories, known: HashSet::new() }.walk(&tree.path, 0);
        }
        Fingerprint { extent, directories }
    }

    /// Returns the path of a file or directory that differs in a later fingerprint.
    fn difference(&self, later: &Fingerprint) -> Option<PathBuf> {
        let changed = later.directories.iter().find_map(|(path, now)| match self.directories.get(path) {
            Some(before) if before.names != now.names => Some(path.clone()),
            Some(before) if before.stamps != now.stamps && now.newest.1.is_empty() => Some(path.clone()),
            Some(before) if before.stamps != now.stamps => Some(path.join(&now.newest.1)),
            Some(_) => None,
            None => Some(path.clone()),
        });
        changed.or_else(|| self.directories.keys().find(|path| !later.directories.contains_key(*path)).cloned())
    }
}

/// Returns the hasher of stamps, which is fast, and the same in every process of this program.
pub fn hasher() -> impl Hasher {
    FixedState::default().build_hasher()
}

impl Walker<'_> {
    /// Lists a directory at this depth, and its subdirectories.
    fn walk(&mut self, path: &Path, depth: usize) {
        let mut listing = Listing::default();
        let subdirectories = self.list(path, depth, &mut listing).unwrap_or_else(|error| {
            // It is not a directory, or cannot be read.
            listing.add(OsStr::new(""), statat(CWD, path, AtFlags::empty()).ok().as_ref());
            listing.stamps ^= u64::from(error.raw_os_error().unsigned_abs());
            Some(Vec::new())
        });
        let Some(subdirectories) = subdirectories else { return };
        self.directories.insert(path.to_owned(), listing);
        for name in subdirectories {
            self.walk(&path.join(name), depth + 1);
        }
    }

    /// Lists a directory, and returns the names of its subdirectories; `None` if it has been listed already.
    fn list(&mut self, path: &Path, depth: usize, listing: &mut Listing) -> rustix::io::Result<Option<Vec<OsString>>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut directory = Dir::new(open(path, flags, Mode::empty())?)?;
        let own = directory.stat()?;
        if !self.known.insert((own.st_dev, own.st_ino)) {
            return Ok(None);
        }
        listing.add(OsStr::new(""), Some(&own));
        let is_unstamped = |above: &PathBuf| path != above && path.starts_with(above);
        let is_stamped = !self.tree.unstamped.iter().any(is_unstamped);
        let mut subdirectories = Vec::new();
        while let Some(entry) = directory.read() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let stat = |flags| statat(directory.fd()?, entry.file_name(), flags);
            let mut kind = entry.file_type();
            if kind == FileType::RegularFile && !is_stamped {
                listing.add_inode(name, entry.ino());
                continue;
            }
            if kind != FileType::Directory {
                let found = stat(AtFlags::SYMLINK_NOFOLLOW).ok();
                listing.add(name, found.as_ref());
                // Not every file system reports the type of an entry in its directories.
                kind = found.map_or(kind, |found| FileType::from_raw_mode(found.st_mode));
            }
            if kind == FileType::Symlink {
                let target = stat(AtFlags::empty()).ok();
                listing.add(name, target.as_ref());
                let followed = target.filter(|_| depth < self.tree.follow);
                kind = followed.map_or(kind, |target| FileType::from_raw_mode(target.st_mode));
            }
            if kind == FileType::Directory {
                listing.add(name, None);
                if depth < self.tree.depth {
                    subdirectories.push(name.to_owned());
                }
            }
        }
        Ok(Some(subdirectories))
    }
}

impl Listing {
    /// Adds an entry without a stamp. The order of entries does not matter.
    fn add_inode(&mut self, name: &OsStr, inode: u64) {
        let mut hasher = hasher();
        (name, inode).hash(&mut hasher);
        self.names = self.names.wrapping_add(hasher.finish());
    }

    /// Adds an entry with its stamp, if it could be read.
    fn add(&mut self, name: &OsStr, found: Option<&Stat>) {
        let mut hasher = hasher();
        name.hash(&mut hasher);
        self.names = self.names.wrapping_add(hasher.finish());
        if let Some(stat) = found {
            let modified = (stat.st_mtime, stat.st_mtime_nsec);
            let changed = (stat.st_ctime, stat.st_ctime_nsec);
            (stat.st_dev, stat.st_ino, stat.st_mode, stat.st_uid, stat.st_gid, stat.st_size).hash(&mut hasher);
            (modified, changed).hash(&mut hasher);
            let seconds = u64::try_from(stat.st_ctime).unwrap_or_default();
            let time = Duration::new(seconds, u32::try_from(stat.st_ctime_nsec).unwrap_or_default());
            if time >= self.newest.0 {
                self.newest = (time, name.to_owned());
            }
        }
        self.stamps = self.stamps.wrapping_add(hasher.finish());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    const DEFINITIONS: &str = "usr/share/holo/files";

    fn root() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("etc/holorc", "plugin files\n"),
            ("etc/holo/data/common.toml", "a = 1\n"),
            ("usr/share/holo/files/a.toml", "x"),
            ("usr/share/holo/files/10-x/etc/motd", "x"),
            ("usr/share/holo/generators/10-x/make", "x"),
            ("usr/share/holo/users/jane/laptop.pub", "x"),
            ("etc/holo/resources/files/10-x/etc/motd", "x"),
            ("srv/keys/a.toml", "x"),
            ("srv/data/b.toml", "x"),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        symlink("../../../srv/keys", folder.path().join("usr/share/holo/ssh-keys")).unwrap();
        symlink("../../../srv/data", folder.path().join("etc/holo/data/more")).unwrap();
        symlink(".", folder.path().join("etc/holo/data/loop")).unwrap();
        symlink("../data", folder.path().join("srv/data/loop")).unwrap();
        let root = Root::new(Some(folder.path().into()));
        (folder, root)
    }

    #[test]
    fn every_change_of_an_input_is_found() {
        let (folder, root) = root();
        let at = |path: &str| folder.path().join(path);
        let mut before = Fingerprint::take(&root, Extent::All);
        let mut differs = |path: &str| {
            let changed = before.changed(&root).map(|changed| changed.strip_prefix(folder.path()).unwrap().to_owned());
            assert_eq!(changed.as_deref(), Some(Path::new(path)));
            before = Fingerprint::take(&root, Extent::All);
            assert_eq!(before.changed(&root), None);
        };
        // In place, and without changing the size.
        for path in [
            "usr/share/holo/files/a.toml",
            "usr/share/holo/generators/10-x/make",
            "usr/share/holo/users/jane/laptop.pub",
            "etc/holo/data/common.toml",
            "etc/holo/resources/files/10-x/etc/motd",
        ] {
            let text = fs::read(at(path)).unwrap();
            fs::write(at(path), text).unwrap();
            differs(path);
        }
        fs::write(at("etc/holorc"), "plugin files\n").unwrap();
        differs("etc/holorc");
        fs::write(at("srv/keys/a.toml"), "y").unwrap();
        differs("usr/share/holo/ssh-keys/a.toml");
        fs::write(at("srv/data/b.toml"), "y").unwrap();
        differs("etc/holo/data/more/b.toml");
        let overlays = "usr/share/holo/files/10-x/etc";
        fs::copy(at(overlays).join("motd"), at("srv/motd")).unwrap();
        fs::rename(at("srv/motd"), at(overlays).join("motd")).unwrap();
        differs(overlays);
        fs::write(at("usr/share/holo/files/new"), "").unwrap();
        differs(DEFINITIONS);
        fs::remove_file(at("usr/share/holo/files/new")).unwrap();
        differs(DEFINITIONS);
        fs::rename(at(DEFINITIONS), at("srv/files")).unwrap();
        differs("usr/share/holo");
        fs::rename(at("srv/files"), at(DEFINITIONS)).unwrap();
        differs("usr/share/holo");
        // A file that existed only in between.
        fs::write(at("etc/holo/data/new"), "").unwrap();
        fs::remove_file(at("etc/holo/data/new")).unwrap();
        assert!(before.changed(&root).is_some());
    }

    #[test]
    fn definitions_do_not_include_overlays() {
        let (folder, root) = root();
        let before = Fingerprint::take(&root, Extent::Definitions);
        for directory in ["usr/share/holo/files/10-x/etc", "etc/holo/resources/files/10-x/etc"] {
            fs::remove_file(folder.path().join(directory).join("motd")).unwrap();
        }
        assert_eq!(before.changed(&root), None);
        for changed in
            ["etc/holo/data/more/b.toml", "usr/share/holo/files/a.toml", "usr/share/holo/generators/10-x/make"]
        {
            let before = Fingerprint::take(&root, Extent::Definitions);
            fs::write(folder.path().join(changed), "other").unwrap();
            assert_eq!(before.changed(&root), Some(folder.path().join(changed)));
        }
    }
}
