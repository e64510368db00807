//! The declarations that may have to do with some of all: they are about the same file, or one is in the way of the other.

use crate::declared::Paths;
use bstr::{BString, ByteSlice};
use holo_plugin::definitions::OutlinedTable;
use holo_plugin::{Asset, Host};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// The key whose value is the path that a table is about.
const PATH: &str = "path";

/// Tables, by what their paths have to do with each other.
pub(super) struct Related<'t> {
    tables: &'t [(OutlinedTable<'t>, Option<String>)],
    /// The directory and the name that each table is about.
    names: Vec<(usize, &'t str)>,
    directories: Vec<Directory<'t>>,
}

/// A directory with declared files.
struct Directory<'t> {
    path: &'t Path,
    canonical: PathBuf,
    /// The symlinks that it leads through.
    symlinks: Vec<PathBuf>,
}

/// The paths that others can have to do with.
#[derive(Default)]
struct Wanted {
    /// A table about one of these is about the same file.
    same: HashSet<PathBuf>,
    /// A table about one of these is in the way, unless something can be in it.
    above: HashSet<PathBuf>,
    /// The parents of all these.
    parents: HashSet<PathBuf>,
    /// Nothing can be in one of these.
    in_the_way: Vec<PathBuf>,
}

impl<'t> Related<'t> {
    /// Returns none if it cannot be told what one of the tables is about.
    pub(super) fn new(tables: &'t [(OutlinedTable<'t>, Option<String>)], host: &Host) -> Option<Related<'t>> {
        let paths = Paths::new(host);
        let (mut names, mut directories, mut by_path) = (Vec::with_capacity(tables.len()), Vec::new(), HashMap::new());
        for (table, _) in tables {
            let path = table.text_of(PATH)?;
            let (directory, name) = path.rsplit_once('/').filter(|(_, name)| !["", ".", ".."].contains(name))?;
            let index = *by_path.entry(directory).or_insert_with(|| {
                let shown = if directory.is_empty() { "/" } else { directory };
                let within = Path::new(shown).join("x");
                directories.push(Directory {
                    path: Path::new(shown),
                    canonical: paths.canonical(&within).parent().map(Path::to_owned).unwrap_or_default(),
                    symlinks: paths.symlinks(&within),
                });
                directories.len() - 1
            });
            names.push((index, name));
        }
        Some(Related { tables, names, directories })
    }

    /// Returns for each table true if it has to do with these entities, be that through others; none if one of them is not known to concern
    /// nobody else.
    pub(super) fn to(&self, ids: &[BString]) -> Option<Vec<bool>> {
        let asked: HashSet<&[u8]> = ids.iter().map(|id| id.as_slice()).collect();
        let is_asked = |id: &Option<String>| id.as_ref().is_some_and(|id| asked.contains(id.as_bytes()));
        let found: HashSet<&str> =
            self.tables.iter().filter(|(_, id)| is_asked(id)).filter_map(|(_, id)| id.as_deref()).collect();
        if found.len() != asked.len() {
            return None;
        }
        Some(self.with_related(|_, id| is_asked(id)))
    }

    /// Returns for each table true if its entity may come right before or after one that needs and provides these assets, or has to do with
    /// such an entity; none if that cannot be told.
    pub(super) fn to_neighbours(&self, needs: &[Asset], provides: &[Asset]) -> Option<Vec<bool>> {
        // Declared files need nothing else than paths and accounts, and provide paths alone.
        if provides.iter().any(|asset| asset.kind != "path") {
            return None;
        }
        let paths = |assets: &'_ [Asset]| -> Vec<PathBuf> {
            assets.iter().filter(|asset| asset.kind == "path").map(|asset| asset.value.to_path_lossy().into()).collect()
        };
        let (needs, provides) = (paths(needs), paths(provides));
        let is_within = |path: &Path| provides.iter().any(|provided| path.starts_with(provided));
        let is_needed = |path: &Path| needs.iter().any(|needed| needed.starts_with(path));
        let is_neighbour = |index: usize| {
            self.directory_of(index).is_some_and(|(directory, name)| {
                [directory.path, &directory.canonical].into_iter().any(|directory| {
                    let path = directory.join(name);
                    is_within(directory) || is_within(&path) || is_needed(&path)
                })
            })
        };
        Some(self.with_related(|index, _| is_neighbour(index)))
    }

    /// Returns for each table true if it is meant, or may concern others, or has to do with one of those.
    fn with_related(&self, is_meant: impl Fn(usize, &Option<String>) -> bool) -> Vec<bool> {
        // Tables that may concern others are read anyway.
        let tables = self.tables.iter().enumerate();
        let mut chosen: Vec<bool> = tables.map(|(index, (_, id))| id.is_none() || is_meant(index, id)).collect();
        let mut new = chosen.clone();
        while new.contains(&true) {
            let mut wanted = Wanted::default();
            for (index, _) in new.iter().enumerate().filter(|(_, is_new)| **is_new) {
                self.add(index, &mut wanted);
            }
            new = self.found_by(&wanted, &chosen);
            chosen.iter_mut().zip(&new).for_each(|(chosen, is_new)| *chosen |= is_new);
        }
        chosen
    }

    /// Returns true if nothing can be in what a table is about.
    fn is_in_the_way(&self, index: usize) -> bool {
        let ensure = self.tables.get(index).and_then(|(table, _)| table.text_of("ensure"));
        !matches!(ensure, Some("directory" | "symlink"))
    }

    fn directory_of(&self, index: usize) -> Option<(&Directory<'t>, &'t str)> {
        let (directory, name) = self.names.get(index)?;
        Some((self.directories.get(*directory)?, name))
    }

    /// Adds what others can be that have to do with a table.
    fn add(&self, index: usize, wanted: &mut Wanted) {
        let Some((directory, name)) = self.directory_of(index) else { return };
        let canonical = directory.canonical.join(name);
        let above = directory.canonical.ancestors().chain(directory.path.ancestors());
        let above: Vec<PathBuf> =
            above.chain(directory.symlinks.iter().map(PathBuf::as_path)).map(Path::to_owned).collect();
        let parents = above.iter().chain([&canonical]).filter_map(|path| path.parent());
        wanted.parents.extend(parents.map(Path::to_owned));
        wanted.above.extend(above);
        if self.is_in_the_way(index) {
            wanted.in_the_way.push(canonical.clone());
        }
        wanted.same.insert(canonical);
    }

    /// Returns for each table true if it is wanted, and not chosen yet.
    fn found_by(&self, wanted: &Wanted, chosen: &[bool]) -> Vec<bool> {
        let is_below = |directory: &Directory<'_>| {
            let Directory { path, canonical, symlinks } = directory;
            let mut in_the_way = wanted.in_the_way.iter();
            in_the_way.any(|above| path.starts_with(above) || canonical.starts_with(above) || symlinks.contains(above))
        };
        let below: Vec<bool> = self.directories.iter().map(is_below).collect();
        let near: Vec<bool> =
            self.directories.iter().map(|directory| wanted.parents.contains(&directory.canonical)).collect();
        let is_found = |index: usize, directory: usize| {
            if below.get(directory) == Some(&true) {
                return true;
            }
            let Some((directory, name)) = self.directory_of(index).filter(|_| near.get(directory) == Some(&true))
            else {
                return false;
            };
            let canonical = directory.canonical.join(name);
            wanted.same.contains(&canonical) || wanted.above.contains(&canonical) && self.is_in_the_way(index)
        };
        let names = self.names.iter().enumerate();
        names.zip(chosen).map(|((index, (directory, _)), chosen)| !chosen && is_found(index, *directory)).collect()
    }
}
