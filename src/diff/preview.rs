//! The difference that applying an entity would make, or has made.

use super::{Content, LoadError, Modes, Side, View};
use crate::host::root::{Root, normalise};
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::{FilePair, Kept};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// Replaces content that must not be shown.
const SENSITIVE: &[u8] = b"(sensitive)\n";
/// The suffix of the name of a file that has not been written yet.
const PENDING: &str = " (pending)";

/// The maximum size, in bytes, of files that are compared after they were replaced.
const MAX_SIZE: usize = 1 << 20;

/// The current state of an entity, and the result of applying it.
#[derive(Clone, Debug)]
pub struct Preview {
    files: Vec<File>,
}

/// A file of an entity.
#[derive(Clone, Debug)]
struct File {
    /// Its path relative to the root, or another name that does not depend on the run.
    name: BString,
    from: Content,
    to: Content,
    /// The path to read the file from after the apply.
    path: Option<PathBuf>,
    modes: Modes,
}

/// A difference between two files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The name of the first.
    pub from: BString,
    /// The name of the second.
    pub to: BString,
    /// The difference, in git's format.
    pub text: Vec<u8>,
    /// Whether a file is binary, in which case the text only says that the files differ.
    pub is_binary: bool,
}

impl Preview {
    /// Loads the files that a plugin has named for the entity with this ID: two files, or two directories of files.
    ///
    /// # Errors
    /// If a path cannot be read, or is neither a file nor a symlink.
    pub fn load(pair: &FilePair, id: &BStr, view: View<'_>) -> Result<Preview, LoadError> {
        let root = view.root.join("");
        let is_directory = |path: &Path| path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        let is_of_the_run = |path: &Path| view.resources.is_of_the_run(path);
        let name = match &pair.from_label {
            Some(label) => below(&label.as_bstr().to_path_lossy(), &root),
            None if is_of_the_run(&pair.from) => id.to_owned(),
            None => below(&pair.from, &root),
        };
        let modes = Modes::of(pair);
        let file = |name: BString, from: &Path, to: &Path| {
            let path = (!is_of_the_run(from)).then(|| from.to_owned());
            let (from, to) = (super::load(from, &root, modes)?, super::load(to, &root, modes)?);
            Ok(File { name, from, to, path, modes })
        };
        if !is_directory(&pair.from) && !is_directory(&pair.to) {
            return Ok(Preview { files: vec![file(name, &pair.from, &pair.to)?] });
        }
        let mut names = BTreeSet::new();
        for side in [&pair.from, &pair.to] {
            let entries =
                WalkDir::new(side).into_iter().filter_map(Result::ok).filter(|entry| !entry.file_type().is_dir());
            names.extend(entries.filter_map(|entry| entry.path().strip_prefix(side).ok().map(Path::to_owned)));
        }
        let top = (modes == Modes::Exact).then(|| file(name.clone(), &pair.from, &pair.to)).transpose()?;
        let file = |below: PathBuf| {
            let name = [name.as_bytes(), b"/", below.as_os_str().as_bytes()].concat().into();
            file(name, &pair.from.join(&below), &pair.to.join(&below))
        };
        let below = names.into_iter().map(file).collect::<Result<Vec<_>, LoadError>>()?;
        Ok(Preview { files: top.into_iter().chain(below).collect() })
    }

    /// Returns the differences that applying the entity would make.
    #[must_use]
    pub fn pending(&self) -> Vec<Difference> {
        self.files.iter().filter_map(|file| file.difference(&file.to, PENDING)).collect()
    }

    /// Returns the differences that applying the entity has made.
    #[must_use]
    pub fn applied(&self, view: View<'_>) -> Vec<Difference> {
        let root = view.root.join("");
        let now = |file: &File| file.path.as_ref().and_then(|path| super::load(path, &root, file.modes).ok());
        let files = self.files.iter();
        files.filter_map(|file| file.difference(&now(file).unwrap_or_else(|| file.to.clone()), "")).collect()
    }
}

/// Returns the difference between the old and the new state of an entity, given as two files and the name of both,
/// which is usually a path as the user knows it. `None` for files that are too large to compare.
#[must_use]
pub fn changed(from: &Path, to: &Path, name: &BStr, root: &Root) -> Option<Difference> {
    let base = root.join("");
    let (from, to) = (load_small(from, &base)?, load_small(to, &base)?);
    let name = below(&name.to_path_lossy(), &base);
    let file = File { name, from, to: to.clone(), path: None, modes: Modes::Git };
    file.difference(&to, "")
}

fn load_small(path: &Path, root: &Path) -> Option<Content> {
    let is_large = path.symlink_metadata().is_ok_and(|found| found.len() > MAX_SIZE as u64);
    if is_large { None } else { super::load(path, root, Modes::Git).ok() }
}

fn load_part(file: &Path, start: u64, length: usize) -> Option<Content> {
    if length > MAX_SIZE {
        return None;
    }
    let mut content = vec![0; length];
    fs::File::open(file).and_then(|file| file.read_exact_at(&mut content, start)).ok()?;
    Some(Content::File { content, mode: Modes::Git.shown(0) })
}

/// Returns the difference between a copy of the old file and the current file at a path below the root. `None` for
/// files that are too large to compare.
#[must_use]
pub fn replaced(copy: &Kept, path: &Path, root: &Root) -> Option<Difference> {
    let (base, path) = (root.join(""), root.join(path));
    let from = match copy {
        Kept::Nothing => Content::Missing,
        Kept::Part { file, start, length } => load_part(file, *start, *length)?,
        Kept::File(file) => load_small(file, &base)?,
    };
    let to = match fs::symlink_metadata(&path) {
        // A file that was replaced by a directory is gone.
        Ok(found) if found.is_dir() => Content::Missing,
        Ok(found) if found.len() > MAX_SIZE as u64 => return None,
        _ => super::load(&path, &base, Modes::Git).ok()?,
    };
    let file = File { name: below(&path, &base), from, to: to.clone(), path: None, modes: Modes::Git };
    file.difference(&to, "")
}

impl File {
    fn difference(&self, to: &Content, suffix: &str) -> Option<Difference> {
        let name =
            |prefix: &str, suffix: &str| BString::from([prefix.as_bytes(), &self.name, suffix.as_bytes()].concat());
        let from = Side { name: name("a/", ""), content: self.from.clone() };
        let to = Side { name: name("b/", suffix), content: to.clone() };
        let mut text = super::render_prefixed(&from, &to);
        if self.from == Content::Missing {
            // Programs that apply patches take the name of a new file from this line.
            text = text.replacen(
                [b"\n+++ ", &to.name[..], b"\n"].concat(),
                [b"\n+++ ", &name("b/", "")[..], b"\n"].concat(),
                1,
            );
        }
        if is_sensitive(&from.content) && is_sensitive(&to.content) {
            // The modes may be shown, if they differ.
            let modes = text.lines_with_terminator().skip(1).collect::<Vec<_>>().concat();
            text = sensitive(from.name.as_ref(), to.name.as_ref(), &modes);
        }
        let is_binary = text.lines().next_back().is_some_and(|line| line.starts_with(b"Binary files "));
        (!text.is_empty()).then_some(Difference { from: from.name, to: to.name, text, is_binary })
    }
}

/// Returns the path as shown in a difference: relative to the root.
fn below(path: &Path, root: &Path) -> BString {
    let path = normalise(path);
    let below = path.strip_prefix(root).unwrap_or(&path);
    below.strip_prefix("/").unwrap_or(below).as_os_str().as_bytes().into()
}

fn is_sensitive(content: &Content) -> bool {
    matches!(content, Content::File { content, .. } if content == SENSITIVE)
}

/// Returns the difference of two contents that must not be shown. `modes` are the header lines about their modes.
pub(crate) fn sensitive(from: &BStr, to: &BStr, modes: &[u8]) -> Vec<u8> {
    let (line, modes) = (SENSITIVE.as_bstr(), modes.as_bstr());
    format!("diff --holo {from} {to}\n{modes}--- {from}\n+++ {to}\n@@ -1 +1 @@\n-{line}+{line}").into_bytes()
}
