//! Manifests: lists of the paths that an entity has made in a directory, in the format of mtree(5).

mod entry;

pub use entry::{EntryKind, FileDigests, ManifestEntry, Ownership};

use crate::error::{PathError, Result};
use crate::hex::hex;
use crate::path_handle::{OnDisk, PathHandle, Tree};
use crate::paths::path_bytes;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of the manifests in a state directory.
pub(crate) const FOLDER: &str = "trees";
/// The number of digits of the name of a manifest.
const NAME_SIZE: usize = 32;
const RECIPE: &str = "# from ";
const UNFINISHED: &str = "# unfinished";
/// The prefix of a path whose base is not needed any more.
const DROPPED: &str = "# dropped ";
/// The prefix of a path that the new version does not have.
const LEAVING: &str = "# leaving ";
/// The prefix of a path that the version does not have, and over which an overlay lies.
const WAITING: &str = "# waiting ";

/// The paths that an entity has made in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Everything that decides about the tree, such as the digest of an archive and the options of its extraction.
    pub recipe: String,
    /// True if a version is, or may be, partly installed: then a path is in any of its states, or equal to its base.
    pub unfinished: bool,
    /// The possible states of each path, by the path below the directory.
    pub entries: BTreeMap<PathBuf, Vec<ManifestEntry>>,
    /// Paths that are not ours any more, and whose bases have been restored: those are to be removed.
    pub dropped: Vec<PathBuf>,
    /// While a version is partly installed: the paths that it does not have. Another entity may make them.
    pub leaving: BTreeSet<PathBuf>,
    /// The paths that the version does not have, and that stay until no overlay lies over them. Another entity may make them, too.
    pub waiting: BTreeSet<PathBuf>,
}

impl Manifest {
    /// Returns the location, in a state directory, of the manifest of what an entity has made in a directory.
    #[must_use]
    pub fn location(state: &Arc<Tree>, id: &str, directory: &Path) -> PathHandle {
        let digest = Sha256::digest([id.as_bytes(), b"\0", &*path_bytes(directory)].concat());
        let name: String = hex(&digest).chars().take(NAME_SIZE).collect();
        state.place(&Path::new(FOLDER).join(name + ".mtree"))
    }

    /// Takes a path off the list, as it belongs to another entity by now; the tree is compared anew then. Unless its base is kept, that is not
    /// needed any more.
    pub fn release(&mut self, path: &Path, keeps_base: bool) -> bool {
        let is_listed = self.entries.remove(path).is_some();
        if is_listed {
            self.dropped.extend((!keeps_base).then(|| path.to_owned()));
            self.recipe.clear();
        }
        is_listed
    }

    /// Reads a manifest; none if the file does not exist.
    ///
    /// # Errors
    /// If it cannot be read or parsed.
    pub fn load(path: &PathHandle) -> Result<Option<Manifest>> {
        let Some(mut file) = path.open_if_file()? else { return Ok(None) };
        let failed = |error| PathError::new("read", path.shown(), error);
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        let manifest = Manifest::parse(&text);
        manifest.map(Some).map_err(|line| failed(io::Error::other(format!("line {line} is not valid"))))
    }

    /// Replaces the manifest. When this returns, it is on disk.
    ///
    /// # Errors
    /// If it cannot be written. Then the old one is still there.
    pub fn save(&self, path: &PathHandle) -> Result<()> {
        path.replace(self.to_text().as_bytes(), 0o600, OnDisk::New)
    }

    fn to_text(&self) -> String {
        let mut text = format!("#mtree\n{RECIPE}{}\n", self.recipe);
        if self.unfinished {
            text.push_str(UNFINISHED);
            text.push('\n');
        }
        let dropped = self.dropped.iter().map(|path| (DROPPED, path));
        let leaving = self.leaving.iter().map(|path| (LEAVING, path));
        for (mark, path) in dropped.chain(leaving).chain(self.waiting.iter().map(|path| (WAITING, path))) {
            let _ = writeln!(text, "{mark}./{}", encode(path.as_os_str().as_bytes()));
        }
        for (path, states) in &self.entries {
            for entry in states {
                line(&mut text, path, entry);
            }
        }
        text
    }

    fn parse(text: &str) -> std::result::Result<Manifest, usize> {
        let mut manifest = Manifest::default();
        for (index, line) in text.lines().enumerate() {
            if let Some(recipe) = line.strip_prefix(RECIPE) {
                recipe.clone_into(&mut manifest.recipe);
            } else if line == UNFINISHED {
                manifest.unfinished = true;
            } else if let Some(path) = line.strip_prefix(DROPPED) {
                manifest.dropped.push(parse_path(path).ok_or(index + 1)?);
            } else if let Some(path) = line.strip_prefix(LEAVING) {
                manifest.leaving.insert(parse_path(path).ok_or(index + 1)?);
            } else if let Some(path) = line.strip_prefix(WAITING) {
                manifest.waiting.insert(parse_path(path).ok_or(index + 1)?);
            } else if !line.starts_with('#') {
                let (path, entry) = parse_line(line).ok_or(index + 1)?;
                manifest.entries.entry(path).or_default().push(entry);
            }
        }
        Ok(manifest)
    }
}

/// Appends a line; writing to a string cannot fail.
fn line(text: &mut String, path: &Path, entry: &ManifestEntry) {
    let _ = write!(text, "./{} ", encode(path.as_os_str().as_bytes()));
    let _ = match &entry.kind {
        EntryKind::Directory { mode } => write!(text, "type=dir mode={mode:04o}"),
        EntryKind::File { mode, size, sha256 } => {
            write!(text, "type=file mode={mode:04o} size={size} sha256digest={sha256}")
        }
        EntryKind::Symlink { target } => write!(text, "type=link link={}", encode(target)),
    };
    for (key, id) in [("uid", entry.owner.uid), ("gid", entry.owner.gid)] {
        if let Some(id) = id {
            let _ = write!(text, " {key}={id}");
        }
    }
    text.push('\n');
}

fn parse_line(line: &str) -> Option<(PathBuf, ManifestEntry)> {
    let mut words = line.split(' ');
    let path = parse_path(words.next()?)?;
    let words: BTreeMap<&str, &str> = words.map(|word| word.split_once('=')).collect::<Option<_>>()?;
    let mode = || u32::from_str_radix(words.get("mode")?, 8).ok();
    let kind = match *words.get("type")? {
        "dir" => EntryKind::Directory { mode: mode()? },
        "file" => EntryKind::File {
            mode: mode()?,
            size: words.get("size")?.parse().ok()?,
            sha256: (*words.get("sha256digest")?).to_owned(),
        },
        "link" => EntryKind::Symlink { target: decode(words.get("link")?)? },
        _ => return None,
    };
    let id = |key| words.get(key).map(|id| id.parse().ok());
    let (uid, gid) = (id("uid"), id("gid"));
    if uid == Some(None) || gid == Some(None) {
        return None;
    }
    Some((path, ManifestEntry { kind, owner: Ownership { uid: uid.flatten(), gid: gid.flatten() } }))
}

fn parse_path(text: &str) -> Option<PathBuf> {
    let path = PathBuf::from(OsString::from_vec(decode(text.strip_prefix("./")?)?));
    // It was written by us; but no path in it may lead out of the directory.
    let is_sound = path.components().next().is_some()
        && path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    is_sound.then_some(path)
}

/// Encodes bytes as a word of mtree: special ones become a backslash and three octal digits.
fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, &byte| {
        if byte.is_ascii_graphic() && !b"\\#=*?[".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "\\{byte:03o}");
        }
        text
    })
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte == b'\\' {
            let digits = [bytes.next()?, bytes.next()?, bytes.next()?];
            decoded.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 8).ok()?);
        } else {
            decoded.push(byte);
        }
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn a_written_manifest_is_read_back() {
        let file = EntryKind::File { mode: 0o640, size: 3, sha256: "00ff".to_owned() };
        let link = EntryKind::Symlink { target: b"../a b\n\xff".to_vec() };
        let owner = Ownership { uid: Some(0), gid: None };
        let strange = PathBuf::from(OsStr::from_bytes(b"a b/#c\\\n\xfe=d"));
        let manifest = Manifest {
            recipe: "sha256:0 strip=1".to_owned(),
            unfinished: true,
            dropped: vec![PathBuf::from("gone by now")],
            leaving: BTreeSet::from([PathBuf::from("a b")]),
            waiting: BTreeSet::from([PathBuf::from("waits")]),
            entries: BTreeMap::from([
                (PathBuf::from("a b"), vec![ManifestEntry { kind: EntryKind::Directory { mode: 0o755 }, owner }]),
                (
                    strange,
                    vec![
                        ManifestEntry { kind: file, owner },
                        ManifestEntry { kind: link, owner: Ownership::default() },
                    ],
                ),
            ]),
        };
        assert_eq!(Manifest::parse(&manifest.to_text()), Ok(manifest));
    }

    #[test]
    fn invalid_manifests_are_rejected() {
        let good = "./a type=dir mode=0755";
        assert!(Manifest::parse(good).is_ok());
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
            assert_eq!(Manifest::parse(&format!("{good}\n{wrong}")), Err(2), "{wrong}");
        }
    }
}
