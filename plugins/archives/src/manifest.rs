//! The list of what was extracted into a directory, kept as mtree(5) describes.

use crate::made::{Made, Owner, Thing};
use holo_change::error::{PathError, Result};
use holo_change::{OnDisk, PathHandle};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

const RECIPE: &str = "# from ";
const UNFINISHED: &str = "# unfinished";
/// Before a path that something is still kept of.
const DROPPED: &str = "# dropped ";
/// Before a path that the new version does not have.
const LEAVING: &str = "# leaving ";
/// Before a path that the version does not have, and that something is laid over.
const WAITING: &str = "# waiting ";

/// What was extracted into a directory, and from what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// What decides about the tree: the archive, and how it was extracted.
    pub(crate) recipe: String,
    /// Whether files are, or may be, on their way: then a path is what any of its states says, or what was there before.
    pub(crate) unfinished: bool,
    /// What we made, by its path below the directory.
    pub(crate) made: BTreeMap<PathBuf, Vec<Made>>,
    /// Paths that are ours no more, where what was there before us is back: what is still kept of them is to go.
    pub(crate) dropped: Vec<PathBuf>,
    /// While files are on their way: the paths that the new version does not have. Another archive may bring them.
    pub(crate) leaving: BTreeSet<PathBuf>,
    /// The paths that the version does not have, and are there until nothing is laid over them. Another archive may bring them, too.
    pub(crate) waiting: BTreeSet<PathBuf>,
}

impl Manifest {
    /// Reads the list; none if there is none.
    ///
    /// # Errors
    /// If it cannot be read or makes no sense.
    pub(crate) fn load(place: &PathHandle) -> Result<Option<Manifest>> {
        let Some(mut file) = place.open_if_file()? else { return Ok(None) };
        let failed = |error| PathError::new("read", place.shown(), error);
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        let manifest = Manifest::parse(&text);
        manifest.map(Some).map_err(|line| failed(io::Error::other(format!("line {line} makes no sense"))))
    }

    /// Writes the list in place of the one that is there: when this returns, it is on disk.
    ///
    /// # Errors
    /// If it cannot be written; then the old one is still there.
    pub(crate) fn save(&self, place: &PathHandle) -> Result<()> {
        place.replace(self.to_text().as_bytes(), 0o600, OnDisk::New)
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
        for (path, states) in &self.made {
            for made in states {
                line(&mut text, path, made);
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
                let (path, made) = parse_line(line).ok_or(index + 1)?;
                manifest.made.entry(path).or_default().push(made);
            }
        }
        Ok(manifest)
    }
}

/// Appends a line; writing to a string cannot fail.
fn line(text: &mut String, path: &Path, made: &Made) {
    let _ = write!(text, "./{} ", encode(path.as_os_str().as_bytes()));
    let _ = match &made.thing {
        Thing::Directory { mode } => write!(text, "type=dir mode={mode:04o}"),
        Thing::File { mode, size, sha256 } => {
            write!(text, "type=file mode={mode:04o} size={size} sha256digest={sha256}")
        }
        Thing::Symlink { target } => write!(text, "type=link link={}", encode(target)),
    };
    for (key, id) in [("uid", made.owner.uid), ("gid", made.owner.gid)] {
        if let Some(id) = id {
            let _ = write!(text, " {key}={id}");
        }
    }
    text.push('\n');
}

fn parse_line(line: &str) -> Option<(PathBuf, Made)> {
    let mut words = line.split(' ');
    let path = parse_path(words.next()?)?;
    let words: BTreeMap<&str, &str> = words.map(|word| word.split_once('=')).collect::<Option<_>>()?;
    let mode = || u32::from_str_radix(words.get("mode")?, 8).ok();
    let thing = match *words.get("type")? {
        "dir" => Thing::Directory { mode: mode()? },
        "file" => Thing::File {
            mode: mode()?,
            size: words.get("size")?.parse().ok()?,
            sha256: (*words.get("sha256digest")?).to_owned(),
        },
        "link" => Thing::Symlink { target: decode(words.get("link")?)? },
        _ => return None,
    };
    let id = |key| words.get(key).map(|id| id.parse().ok());
    let (uid, gid) = (id("uid"), id("gid"));
    if uid == Some(None) || gid == Some(None) {
        return None;
    }
    Some((path, Made { thing, owner: Owner { uid: uid.flatten(), gid: gid.flatten() } }))
}

fn parse_path(text: &str) -> Option<PathBuf> {
    let path = PathBuf::from(OsString::from_vec(decode(text.strip_prefix("./")?)?));
    // It was written by us; but nothing in it may lead anywhere else.
    let is_sound = path.components().next().is_some()
        && path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    is_sound.then_some(path)
}

/// Bytes as words of mtree: what is not plain is a backslash and three octal digits.
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
    fn what_is_written_is_read() {
        let file = Thing::File { mode: 0o640, size: 3, sha256: "00ff".to_owned() };
        let link = Thing::Symlink { target: b"../a b\n\xff".to_vec() };
        let owner = Owner { uid: Some(0), gid: None };
        let strange = PathBuf::from(OsStr::from_bytes(b"a b/#c\\\n\xfe=d"));
        let manifest = Manifest {
            recipe: "sha256:0 strip=1".to_owned(),
            unfinished: true,
            dropped: vec![PathBuf::from("gone by now")],
            leaving: BTreeSet::from([PathBuf::from("a b")]),
            waiting: BTreeSet::from([PathBuf::from("waits")]),
            made: BTreeMap::from([
                (PathBuf::from("a b"), vec![Made { thing: Thing::Directory { mode: 0o755 }, owner }]),
                (strange, vec![Made { thing: file, owner }, Made { thing: link, owner: Owner::default() }]),
            ]),
        };
        assert_eq!(Manifest::parse(&manifest.to_text()), Ok(manifest));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
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
