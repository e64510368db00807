//! The directory of templates.

use crate::error::{Result, ScaffoldError};
use holo_change::error::PathError;
use holo_change::{Kind, PathHandle, Tree, in_shares};
use holo_plugin::Host;
use holo_plugin::definitions::{Glob, values};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of templates that other templates include, which is not rendered itself.
const PARTIALS: &str = "_partials";

/// The default patterns for ignored entries.
const IGNORED: [&str; 1] = [".git"];

/// Maximum size of a file that templates read, in bytes.
const MAX_TEXT: u64 = 16 << 20;

/// A directory of templates. Symlinks in it are not followed.
pub(crate) struct Source {
    layers: Vec<Layer>,
    ignored: Vec<Glob>,
}

/// The part of the source in one resource directory. If several layers have a file at the same path, the first one is
/// used.
#[derive(Clone)]
struct Layer {
    tree: Arc<Tree>,
    shown: PathBuf,
}

/// The indices of the layers that have an entry at a path, each with its type if the file system lists it.
type Kinds = Vec<(usize, Option<Kind>)>;

/// A path in the source, before it is read.
struct Listed {
    path: PathBuf,
    /// The index of the layer that it is read from.
    layer: usize,
    is_directory: bool,
    /// True if layers of lower precedence have an entry at the path.
    hides: bool,
}

/// An entry of the source.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The path below the source.
    pub(crate) path: PathBuf,
    /// The path as displayed to the user.
    pub(crate) shown: PathBuf,
    pub(crate) item: Item,
}

/// The content of an entry.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Directory,
    File {
        bytes: Vec<u8>,
        executable: bool,
        /// True if the content must not be displayed.
        sensitive: bool,
    },
    Symlink(Vec<u8>),
}

impl Item {
    pub(crate) fn is_sensitive(&self) -> bool {
        matches!(self, Item::File { sensitive: true, .. })
    }
}

/// A template that another template includes.
pub(crate) struct Partial {
    /// The path as displayed to the user.
    pub(crate) shown: PathBuf,
    pub(crate) text: String,
}

/// Returns the path of a directory of templates, as displayed to the user.
pub(crate) fn shown(source: &Path, host: &Host) -> PathBuf {
    if source.is_absolute() { host.below_root(source) } else { host.resources().shown(source) }
}

impl Layer {
    /// Opens the layer again, for another thread.
    fn reopen(&self) -> std::result::Result<Layer, PathError> {
        Ok(Layer { tree: self.tree.reopen()?, shown: self.shown.clone() })
    }
}

impl Source {
    /// Opens the directory at a path. Entries that match the patterns are ignored; `None` stands for the default
    /// patterns.
    pub(crate) fn open(path: &Path, ignored: Option<&[String]>, host: &Host) -> Result<Source> {
        let shown = shown(path, host);
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
        let patterns = ignored.map(|patterns| patterns.iter().map(String::as_str).collect());
        let patterns: Vec<&str> = patterns.unwrap_or_else(|| IGNORED.to_vec());
        let ignored = patterns.into_iter().map(Glob::new).collect::<std::result::Result<_, _>>()?;
        Ok(Source { layers, ignored })
    }

    /// Returns all entries except the partials; each directory precedes its entries. They are read by up to this number
    /// of threads.
    pub(crate) fn entries(&self, threads: usize) -> Result<Vec<Entry>> {
        let listed = self.list()?;
        let reopen = || self.layers.iter().map(Layer::reopen).collect::<std::result::Result<Vec<_>, _>>();
        let read = |listed: &Listed, layers: &Vec<Layer>| match layers.get(listed.layer) {
            Some(layer) if !listed.is_directory => item(&layer.tree.place(&listed.path)),
            _ => Ok(Item::Directory),
        };
        let items = in_shares(&listed, threads, &self.layers, reopen, read);
        let mut entries = Vec::with_capacity(listed.len());
        for (listed, item) in listed.into_iter().zip(items) {
            let item = item?;
            let Some(layer) = self.layers.get(listed.layer).filter(|_| !self.is_mask(&item, &listed)) else { continue };
            entries.push(Entry { shown: layer.shown.join(&listed.path), path: listed.path, item });
        }
        Ok(entries)
    }

    /// Returns the sorted paths of all entries except the partials. Only directories are read.
    fn list(&self) -> Result<Vec<Listed>> {
        let mut all = Vec::new();
        let top = Listed { path: PathBuf::new(), layer: 0, is_directory: true, hides: false };
        let mut open = vec![(top, (0..self.layers.len()).collect::<Vec<_>>())];
        while let Some((listed, layers)) = open.pop() {
            let mut inside = Vec::new();
            if listed.is_directory {
                for (name, kinds) in self.names(&listed.path, &layers)? {
                    inside.extend(self.list_one(listed.path.join(name), &kinds)?);
                }
            }
            if !listed.path.as_os_str().is_empty() {
                all.push(listed);
            }
            open.extend(inside.into_iter().rev());
        }
        Ok(all)
    }

    /// Returns the names in a directory, each with the indices of the layers that have it, and its types there.
    fn names(&self, directory: &Path, layers: &[usize]) -> Result<BTreeMap<OsString, Kinds>> {
        let mut names: BTreeMap<OsString, Kinds> = BTreeMap::new();
        for &number in layers {
            let Some(layer) = self.layers.get(number) else { continue };
            for (name, kind) in layer.tree.place(&directory.join("x")).siblings_with_kinds()? {
                names.entry(name).or_default().push((number, kind));
            }
        }
        Ok(names)
    }

    /// Returns the entry at a path unless it is ignored, and the layers of its own entries.
    fn list_one(&self, path: PathBuf, kinds: &[(usize, Option<Kind>)]) -> Result<Option<(Listed, Vec<usize>)>> {
        let is_left_out = path == Path::new(PARTIALS) || self.ignored.iter().any(|glob| glob.matches(&path));
        let Some(((layer, kind), weaker)) = kinds.split_first().filter(|_| !is_left_out) else { return Ok(None) };
        let is_directory = |layer: &usize, kind: &Option<Kind>| match kind {
            Some(kind) => Ok(*kind == Kind::Directory),
            None => self.is_directory(*layer, &path),
        };
        let is_top_directory = is_directory(layer, kind)?;
        let mut united = vec![*layer];
        if is_top_directory {
            let others = weaker.iter().filter(|(layer, kind)| is_directory(layer, kind).unwrap_or(false));
            united.extend(others.map(|(layer, _)| *layer));
        }
        let listed = Listed { layer: *layer, is_directory: is_top_directory, hides: !weaker.is_empty(), path };
        Ok(Some((listed, united)))
    }

    /// Queries the type of an entry, for file systems that do not list it.
    fn is_directory(&self, layer: usize, path: &Path) -> Result<bool> {
        let stat = self.layers.get(layer).map(|layer| layer.tree.place(path).stat()).transpose()?.flatten();
        Ok(stat.is_some_and(|stat| stat.kind == Kind::Directory))
    }

    /// Returns true if the item masks a path, as specified by [`ResourceDirs`](holo_plugin::definitions::ResourceDirs).
    fn is_mask(&self, item: &Item, listed: &Listed) -> bool {
        let is_weakest = listed.layer + 1 == self.layers.len();
        match item {
            Item::Directory => false,
            Item::File { bytes, .. } => bytes.is_empty() && listed.hides,
            Item::Symlink(target) => target == b"/dev/null" && !is_weakest,
        }
    }

    /// Returns the files that templates may read.
    pub(crate) fn files(&self, host: &Host) -> Result<Files> {
        Ok(Files { layers: self.layers.clone(), root: Tree::open(host.root())? })
    }
}

/// The files that templates may read: those of the source directory, and those at absolute paths below the root.
pub(crate) struct Files {
    layers: Vec<Layer>,
    root: Arc<Tree>,
}

impl Files {
    /// Returns the files below a directory, which is also used as the root.
    #[cfg(test)]
    pub(crate) fn below_directory(directory: &Path) -> Files {
        let tree = Tree::open(directory).unwrap();
        Files { layers: vec![Layer { tree: Arc::clone(&tree), shown: directory.to_owned() }], root: tree }
    }

    /// Returns the text of a file, or `None` if it does not exist. Symlinks below the source directory are not
    /// followed.
    ///
    /// # Errors
    /// If the file cannot be read, is not text, or is too large; or if a relative path leads out of the source
    /// directory.
    pub(crate) fn read(&self, path: &str) -> io::Result<Option<Partial>> {
        let name = Path::new(path);
        if name.is_absolute() {
            let place = self.root.place(name).followed().map_err(|error| error.error)?;
            return Ok(text(&place)?.map(|text| Partial { shown: place.shown(), text }));
        }
        self.below(name)?;
        for layer in &self.layers {
            if let Some(text) = text(&layer.tree.place(name))? {
                return Ok(Some(Partial { shown: layer.shown.join(name), text }));
            }
        }
        Ok(None)
    }

    /// Returns the text of the template that others include by this name: with or without a suffix, or with the prefix
    /// `_partials/`.
    pub(crate) fn partial(&self, name: &str, suffixes: &[&str]) -> io::Result<Option<Partial>> {
        let name = Path::new(name).strip_prefix(PARTIALS).unwrap_or(Path::new(name));
        self.below(name)?;
        for suffix in [""].iter().chain(suffixes) {
            for layer in &self.layers {
                let place = layer.tree.place(&Path::new(PARTIALS).join(name)).with_suffix(suffix);
                let Some(text) = text(&place)? else { continue };
                let name = [name.as_os_str().as_encoded_bytes(), suffix.as_bytes()].concat();
                return Ok(Some(Partial { shown: layer.shown.join(PARTIALS).join(OsString::from_vec(name)), text }));
            }
        }
        Ok(None)
    }

    fn below(&self, name: &Path) -> io::Result<()> {
        if values::is_below(name) {
            return Ok(());
        }
        let shown = self.layers.first().map(|layer| layer.shown.display().to_string()).unwrap_or_default();
        Err(io::Error::new(io::ErrorKind::InvalidInput, format!("the name leads out of {shown}")))
    }
}

fn text(place: &PathHandle) -> io::Result<Option<String>> {
    let Some(file) = place.open_if_file().map_err(|error| error.error)? else { return Ok(None) };
    let mut text = String::new();
    if file.take(MAX_TEXT + 1).read_to_string(&mut text)? as u64 > MAX_TEXT {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {MAX_TEXT} bytes")));
    }
    Ok(Some(text))
}

fn item(place: &PathHandle) -> Result<Item> {
    let looks = place.stat()?.ok_or_else(|| PathError::missing("lstat", place.shown()))?;
    Ok(match looks.kind {
        Kind::Directory => Item::Directory,
        Kind::Symlink => Item::Symlink(place.read_link()?),
        Kind::File => {
            let bytes = place.read_of_size(looks.size)?;
            Item::File { bytes, executable: looks.mode & 0o100 != 0, sensitive: false }
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
