//! Manifests: lists of the paths that an entity has created in a directory, in the format of mtree(5).

mod entry;
mod words;

pub use entry::{EntryKind, FileDigests, ManifestEntry, Ownership};

use crate::error::{PathError, Result};
use crate::hex::hex;
use crate::path_handle::{OnDisk, PathHandle, Tree};
use crate::paths::path_bytes;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use words::{decode, encode};

/// The directory of the manifests in a state directory.
pub(crate) const FOLDER: &str = "trees";
/// The length of the name of a manifest, in digits.
const NAME_SIZE: usize = 32;
const RECIPE: &str = "# from ";
const UNFINISHED: &str = "# unfinished";
/// The prefix of a path whose base is no longer needed.
const DROPPED: &str = "# dropped ";
/// The prefix of a path that the new version does not contain.
const LEAVING: &str = "# leaving ";
/// The prefix of a path that the version does not contain, and that is covered by an overlay.
const WAITING: &str = "# waiting ";

/// The paths that an entity has created in a directory.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    /// All inputs that determine the tree, such as the digest of an archive and the options for its extraction.
    pub recipe: String,
    /// True if a version may be partly installed. Each path is then in one of its listed states, or equal to its base.
    pub unfinished: bool,
    /// The possible states of each path, by its path relative to the directory.
    pub entries: BTreeMap<PathBuf, Vec<ManifestEntry>>,
    /// Paths that no longer belong to the entity and were restored, whose bases can be removed.
    pub dropped: Vec<PathBuf>,
    /// The paths that the new version does not contain, while it is partly installed. Other entities may create them.
    pub leaving: BTreeSet<PathBuf>,
    /// The paths that the version does not contain, and that are kept while an overlay covers them. Other entities may
    /// create them too.
    pub waiting: BTreeSet<PathBuf>,
}

impl Manifest {
    /// Returns the path of the manifest for an entity and a directory, in a state directory.
    #[must_use]
    pub fn location(state: &Arc<Tree>, id: &str, directory: &Path) -> PathHandle {
        let digest = Sha256::digest([id.as_bytes(), b"\0", &*path_bytes(directory)].concat());
        let name: String = hex(&digest).chars().take(NAME_SIZE).collect();
        state.place(&Path::new(FOLDER).join(name + ".mtree"))
    }

    /// Removes a path that belongs to another entity now; the recipe is cleared, so that the tree is compared again.
    /// Unless `keeps_base` is set, its base is no longer needed. Returns true if the path was listed.
    pub fn release(&mut self, path: &Path, keeps_base: bool) -> bool {
        let is_listed = self.entries.remove(path).is_some();
        if is_listed {
            self.dropped.extend((!keeps_base).then(|| path.to_owned()));
            self.recipe.clear();
        }
        is_listed
    }

    /// Allows other entities to create all of the paths.
    pub fn leave_all(&mut self) {
        self.leaving = self.entries.keys().cloned().collect();
    }

    /// Reads a manifest; `None` if the file does not exist.
    ///
    /// # Errors
    /// If it cannot be read or parsed.
    pub fn load(path: &PathHandle) -> Result<Option<Manifest>> {
        let Some(file) = path.open_if_file()? else { return Ok(None) };
        let mut manifest = Manifest::default();
        let failed = |error| PathError::new("read", path.shown(), error);
        for (index, line) in BufReader::new(file).lines().enumerate() {
            let invalid = || failed(io::Error::other(format!("line {} is not valid", index + 1)));
            manifest.parse(&line.map_err(failed)?).ok_or_else(invalid)?;
        }
        Ok(Some(manifest))
    }

    /// Replaces the manifest. When this returns, it is on disk.
    ///
    /// # Errors
    /// If the manifest cannot be written. The old one remains unchanged then.
    pub fn save(&self, path: &PathHandle) -> Result<()> {
        path.replace_by(&|file| self.write(path, file), 0o600, OnDisk::New)
    }

    fn write(&self, shown: &PathHandle, file: &mut dyn Write) -> Result<()> {
        let failed = |error| PathError::new("write", shown.shown(), error);
        let mut text = format!("#mtree\n{RECIPE}{}\n", self.recipe);
        if self.unfinished {
            text.push_str(UNFINISHED);
            text.push('\n');
        }
        let dropped = self.dropped.iter().map(|path| (DROPPED, path));
        let leaving = self.leaving.iter().map(|path| (LEAVING, path));
        for (mark, path) in dropped.chain(leaving).chain(self.waiting.iter().map(|path| (WAITING, path))) {
            let _ = writeln!(text, "{mark}./{}", encode(path.as_os_str().as_bytes()));
            file.write_all(text.as_bytes()).map_err(failed)?;
            text.clear();
        }
        for (path, states) in &self.entries {
            for entry in states {
                let _ = write!(text, "./{} ", encode(path.as_os_str().as_bytes()));
                entry.write_words(&mut text);
                text.push('\n');
            }
            file.write_all(text.as_bytes()).map_err(failed)?;
            text.clear();
        }
        file.write_all(text.as_bytes()).map_err(failed)
    }

    /// Parses a line; `None` if it is invalid. A path may have several lines.
    fn parse(&mut self, line: &str) -> Option<()> {
        if let Some(recipe) = line.strip_prefix(RECIPE) {
            recipe.clone_into(&mut self.recipe);
        } else if line == UNFINISHED {
            self.unfinished = true;
        } else if let Some(path) = line.strip_prefix(DROPPED) {
            self.dropped.push(parse_path(path)?);
        } else if let Some(path) = line.strip_prefix(LEAVING) {
            self.leaving.insert(parse_path(path)?);
        } else if let Some(path) = line.strip_prefix(WAITING) {
            self.waiting.insert(parse_path(path)?);
        } else if !line.starts_with('#') {
            let (path, words) = line.split_once(' ')?;
            self.entries.entry(parse_path(path)?).or_default().push(ManifestEntry::parse_words(words)?);
        }
        Some(())
    }
}

fn parse_path(text: &str) -> Option<PathBuf> {
    let path = PathBuf::from(OsString::from_vec(decode(text.strip_prefix("./")?)?));
    // The file is our own, but a path must never lead out of the directory.
    let is_sound = path.components().next().is_some()
        && path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    is_sound.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::fs;

    #[test]
    fn a_written_manifest_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let place = Tree::open(folder.path()).unwrap().place(Path::new("x.mtree"));
        let file = EntryKind::File { mode: 0o640, size: 3, sha256: "00ff".to_owned() };
        let link = EntryKind::Symlink { target: b"../a b\n\xff".to_vec() };
        let owner = Ownership { uid: Some(0), gid: None };
        let strange = PathBuf::from(OsStr::from_bytes(b"a b/#c\\\n\xfe=d"));
        let recipe = "sha256:0 strip=1".to_owned();
        let mut manifest = Manifest { recipe, unfinished: true, ..Manifest::default() };
        manifest.dropped.push(PathBuf::from("gone by now"));
        manifest.leaving.insert(PathBuf::from("a b"));
        manifest.waiting.insert(PathBuf::from("waits"));
        let directory = ManifestEntry { kind: EntryKind::Directory { mode: 0o755 }, owner };
        let states =
            [ManifestEntry { kind: file, owner }, ManifestEntry { kind: link, owner: Ownership::default() }].to_vec();
        manifest.entries.insert(PathBuf::from("a b"), vec![directory.clone()]);
        manifest.entries.insert(strange.clone(), states.clone());
        manifest.save(&place).unwrap();
        let text = fs::read_to_string(folder.path().join("x.mtree")).unwrap();
        let read = Manifest::load(&place).unwrap().unwrap();
        assert_eq!((&read.recipe, read.unfinished), (&manifest.recipe, true));
        assert_eq!((&read.dropped, &read.waiting), (&manifest.dropped, &manifest.waiting));
        assert_eq!(read.leaving, [PathBuf::from("a b")].into());
        assert_eq!(read.entries, [(PathBuf::from("a b"), vec![directory]), (strange, states)].into());
        read.save(&place).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("x.mtree")).unwrap(), text);
    }

    #[test]
    fn invalid_manifests_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let place = Tree::open(folder.path()).unwrap().place(Path::new("x.mtree"));
        let load = |text: &str| {
            fs::write(folder.path().join("x.mtree"), text).unwrap();
            Manifest::load(&place).map(drop).map_err(|error| error.error.to_string())
        };
        let good = "./a type=dir mode=0755";
        assert_eq!(load(good), Ok(()));
        for wrong in [
            "a type=dir mode=0755",
            "./a type=door mode=0755",
            "./a type=dir",
            "./../a type=dir mode=0755",
            "./ type=dir mode=0755",
            ".//etc type=dir mode=0755",
            "./a type=dir mode=0755 uid=x",
            "./a\\9 type=dir mode=0755",
        ] {
            assert_eq!(load(&format!("{good}\n{wrong}")), Err("line 2 is not valid".to_owned()), "{wrong}");
        }
    }
}
