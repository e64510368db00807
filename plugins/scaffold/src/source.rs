//! The directory of templates, as it is found.

use crate::definition::ScaffoldDefinition;
use crate::error::{Result, ScaffoldError};
use holo_change::error::PathError;
use holo_change::{Kind, PathHandle, Tree};
use holo_plugin::Host;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The folder of templates that others include, which is not rendered itself.
const PARTIALS: &str = "_partials";

/// A directory of templates. Symlinks in it are not followed.
pub(crate) struct Source {
    layers: Vec<Layer>,
}

/// The part of it in one resource directory. Of files at the same path, that in the first counts.
#[derive(Clone)]
struct Layer {
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
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Directory,
    File { bytes: Vec<u8>, executable: bool },
    Symlink(Vec<u8>),
}

/// A template that another one includes.
pub(crate) struct Partial {
    /// Its path as the user knows it.
    pub(crate) shown: PathBuf,
    pub(crate) text: String,
}

/// Returns the path of a definition's templates, as the user knows it.
pub(crate) fn shown(definition: &ScaffoldDefinition, host: &Host) -> PathBuf {
    let source = Path::new(definition.source.as_deref().unwrap_or_default());
    if source.is_absolute() { host.below_root(source) } else { host.resources().shown(source) }
}

impl Source {
    pub(crate) fn open(definition: &ScaffoldDefinition, host: &Host) -> Result<Source> {
        let path = Path::new(definition.source.as_deref().unwrap_or_default());
        let shown = shown(definition, host);
        let directories: Vec<&Path> =
            if path.is_absolute() { vec![host.root()] } else { host.resources().iter().collect() };
        let mut layers = Vec::new();
        for directory in directories {
            let place = Tree::open(directory)?.place(path).followed()?;
            match place.stat()?.map(|looks| looks.kind) {
                None => {}
                Some(Kind::Directory) => {
                    let shown = if path.is_absolute() { shown.clone() } else { directory.join(path) };
                    layers.push(Layer { tree: place.as_tree()?, shown });
                }
                Some(_) if layers.is_empty() => {
                    return Err(ScaffoldError::Never(format!("the source {} is not a directory", shown.display())));
                }
                Some(_) => break,
            }
        }
        if layers.is_empty() {
            return Err(ScaffoldError::Never(format!("the source {} does not exist", shown.display())));
        }
        Ok(Source { layers })
    }

    /// Everything in it but the partials, each directory before what is in it.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut open = vec![(PathBuf::new(), self.layers.iter().collect::<Vec<_>>())];
        while let Some((directory, layers)) = open.pop() {
            let mut names: BTreeMap<OsString, Vec<&Layer>> = BTreeMap::new();
            for layer in layers {
                for name in layer.tree.place(&directory.join("x")).siblings()? {
                    names.entry(name).or_default().push(layer);
                }
            }
            for (name, layers) in names {
                let path = directory.join(name);
                let Some((layer, weaker)) = layers.split_first().filter(|_| path != Path::new(PARTIALS)) else {
                    continue;
                };
                let item = item(&layer.tree.place(&path))?;
                if matches!(item, Item::Directory) {
                    let is_directory = |layer: &&&Layer| {
                        let stat = layer.tree.place(&path).stat();
                        stat.is_ok_and(|looks| looks.is_some_and(|looks| looks.kind == Kind::Directory))
                    };
                    let united = [*layer].into_iter().chain(weaker.iter().filter(is_directory).copied());
                    open.push((path.clone(), united.collect()));
                } else if self.is_mask(&item, layer, weaker) {
                    continue;
                }
                entries.push(Entry { shown: layer.shown.join(&path), path, item });
            }
        }
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(entries)
    }

    /// Returns true if it stands for nothing, as [`ResourceDirs`](holo_plugin::definitions::ResourceDirs) has it.
    fn is_mask(&self, item: &Item, layer: &Layer, weaker: &[&Layer]) -> bool {
        let is_weakest = self.layers.last().is_none_or(|last| last.shown == layer.shown);
        match item {
            Item::Directory => false,
            Item::File { bytes, .. } => bytes.is_empty() && !weaker.is_empty(),
            Item::Symlink(target) => target == b"/dev/null" && !is_weakest,
        }
    }

    /// Returns a function that finds templates by the names that others include them by: with or without a suffix, or `_partials/` before.
    pub(crate) fn partials(
        &self,
        suffixes: &'static [&'static str],
    ) -> impl Fn(&str) -> io::Result<Option<Partial>> + Send + Sync + 'static {
        let layers = self.layers.clone();
        move |name| {
            let name = Path::new(name).strip_prefix(PARTIALS).unwrap_or(Path::new(name));
            let is_below = name.components().all(|part| matches!(part, Component::Normal(_)));
            if !is_below || name.as_os_str().is_empty() {
                let shown = layers.first().map(|layer| layer.shown.join(PARTIALS)).unwrap_or_default();
                let words = format!("the name leads out of {}", shown.display());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
            }
            for (suffix, layer) in
                [""].iter().chain(suffixes).flat_map(|suffix| layers.iter().map(move |layer| (suffix, layer)))
            {
                let place = layer.tree.place(&Path::new(PARTIALS).join(name)).with_suffix(suffix);
                let found = place.open_if_file().map_err(|error| error.error)?;
                if let Some(mut file) = found {
                    let mut text = String::new();
                    file.read_to_string(&mut text)?;
                    let name = [name.as_os_str().as_encoded_bytes(), suffix.as_bytes()].concat();
                    let shown = layer.shown.join(PARTIALS).join(OsString::from_vec(name));
                    return Ok(Some(Partial { shown, text }));
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
