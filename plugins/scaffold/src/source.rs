//! The directory of templates, as it is found.

use crate::definition::ScaffoldDefinition;
use crate::error::{Result, ScaffoldError};
use holo_change::error::PathError;
use holo_change::{Kind, PathHandle, Tree};
use holo_plugin::Host;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The folder of templates that others include, which is not rendered itself.
const PARTIALS: &str = "_partials";

/// A directory of templates. Symlinks in it are not followed.
pub(crate) struct Source {
    tree: Arc<Tree>,
    shown: PathBuf,
}

/// Something in the directory.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its path below the directory.
    pub(crate) path: PathBuf,
    /// Its path as the user knows it.
    pub(crate) shown: PathBuf,
    pub(crate) item: Item,
}

/// Its content.
#[derive(Debug)]
pub(crate) enum Item {
    Directory,
    File { bytes: Vec<u8>, executable: bool },
    Symlink(Vec<u8>),
}

/// Returns the path of a definition's templates, as the user knows it.
pub(crate) fn shown(definition: &ScaffoldDefinition, host: &Host) -> PathBuf {
    let source = Path::new(definition.source.as_deref().unwrap_or_default());
    if source.is_absolute() { host.below_root(source) } else { host.resource_dir().join(source) }
}

impl Source {
    pub(crate) fn open(definition: &ScaffoldDefinition, host: &Host) -> Result<Source> {
        let path = Path::new(definition.source.as_deref().unwrap_or_default());
        let base = if path.is_absolute() { host.root() } else { host.resource_dir() };
        let shown = shown(definition, host);
        let place = Tree::open(base)?.place(path).followed()?;
        let wrong = match place.stat()?.map(|looks| looks.kind) {
            None => "does not exist",
            Some(Kind::Directory) => return Ok(Source { tree: place.as_tree()?, shown }),
            Some(_) => "is not a directory",
        };
        Err(ScaffoldError::Never(format!("the source {} {wrong}", shown.display())))
    }

    /// Everything in it but the partials, each directory before what is in it.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut open = vec![PathBuf::new()];
        while let Some(directory) = open.pop() {
            for name in self.tree.place(&directory.join("x")).siblings()? {
                let path = directory.join(name);
                if path == Path::new(PARTIALS) {
                    continue;
                }
                let item = item(&self.tree.place(&path))?;
                if matches!(item, Item::Directory) {
                    open.push(path.clone());
                }
                entries.push(Entry { shown: self.shown.join(&path), path, item });
            }
        }
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(entries)
    }

    /// Returns a function that finds templates by the names that others include them by: with or without a suffix, or `_partials/` before.
    pub(crate) fn partials(
        &self,
        suffixes: &'static [&'static str],
    ) -> impl Fn(&str) -> io::Result<Option<String>> + Send + Sync + 'static {
        let (tree, shown) = (Arc::clone(&self.tree), self.shown.join(PARTIALS));
        move |name| {
            let name = Path::new(name).strip_prefix(PARTIALS).unwrap_or(Path::new(name));
            let is_below = name.components().all(|part| matches!(part, Component::Normal(_)));
            if !is_below || name.as_os_str().is_empty() {
                let words = format!("the name leads out of {}", shown.display());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
            }
            for suffix in [""].iter().chain(suffixes) {
                let place = tree.place(&Path::new(PARTIALS).join(name)).with_suffix(suffix);
                let found = place.open_if_file().map_err(|error| error.error)?;
                if let Some(mut file) = found {
                    let mut text = String::new();
                    file.read_to_string(&mut text)?;
                    return Ok(Some(text));
                }
            }
            Ok(None)
        }
    }
}

fn item(place: &PathHandle) -> Result<Item> {
    let looks = place.stat()?.ok_or_else(|| PathError::missing("lstat", place.shown()))?;
    Ok(match looks.kind {
        Kind::Directory => Item::Directory,
        Kind::Symlink => Item::Symlink(place.read_link()?),
        Kind::File => {
            let mut bytes = Vec::new();
            let read = place.open()?.read_to_end(&mut bytes);
            read.map_err(|error| PathError::new("read", place.shown(), error))?;
            Item::File { bytes, executable: looks.mode & 0o100 != 0 }
        }
        Kind::Other => {
            let shown = place.shown();
            return Err(ScaffoldError::Never(format!(
                "{} is neither a file, a symlink nor a directory",
                shown.display()
            )));
        }
    })
}
