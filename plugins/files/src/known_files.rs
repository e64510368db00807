//! Definition files that are known to be valid. A limited scan reads only the relevant parts of them, and finds declarations that may
//! interact with the given ones: those of the same file, and those above and below it.
//!
//! They are recorded with the state that they had when they were found to be valid. Without the record, they are read completely, which
//! takes ten times as long for one of 10,000 declarations. What the dispatcher remembers cannot replace it, because a limited run asks only
//! for what it selects.

use bstr::{BString, ByteSlice};
use holo_change::{CanonicalPaths, Fingerprint, Tree, UnchangedRecord, is_settled};
use holo_plugin::definitions::{FileState, KnownFiles, OutlinedTable, TableId};
use holo_plugin::system::PackageManager;
use holo_plugin::system::package_manager::INDEX;
use holo_plugin::{Asset, Host, ScanLimit};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::mem;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The file of the record in the state directory, and its temporary name.
const RECORD: &str = ".definitions";
const STAGED: &str = ".definitions.new";
/// The entry of the record.
const ALL: &[u8] = b"definitions";

/// The definition files that a scan has found to be right, for the record, which the next apply writes.
#[derive(Debug, Default)]
pub(crate) struct News(Mutex<Option<Vec<FileState>>>);

impl News {
    fn set(&self, files: Option<Vec<FileState>>) -> Option<Vec<FileState>> {
        mem::replace(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), files)
    }

    /// Forgets the files, because of another problem that must be reported again.
    pub(crate) fn forget(&self) {
        self.set(None);
    }

    /// Writes the record. Without it, the next scan reads all files.
    pub(crate) fn keep(&self, host: &Host) {
        let Some(files) = self.set(None) else { return };
        let Ok(state) = Tree::open(host.state_dir()) else { return };
        let place = state.place(Path::new(RECORD));
        let mut record = UnchangedRecord::open(&place);
        match files.is_empty() {
            true => record.forget(ALL),
            false => record.insert(ALL, fingerprint(&files)),
        }
        record.keep(&place, &state.place(Path::new(STAGED)));
    }
}

/// The definition files of a scan.
pub(crate) struct ScannedFiles<'a> {
    host: &'a Host,
    /// `None` for a full scan.
    limit: Option<ScanLimit<'a>>,
    begun: SystemTime,
    news: &'a News,
    record: RefCell<Option<UnchangedRecord>>,
}

impl<'a> ScannedFiles<'a> {
    pub(crate) fn new(host: &'a Host, limit: Option<ScanLimit<'a>>, news: &'a News) -> ScannedFiles<'a> {
        ScannedFiles { host, limit, begun: SystemTime::now(), news, record: RefCell::default() }
    }

    fn knows(&self, files: &[FileState]) -> bool {
        let open =
            || Tree::open(self.host.state_dir()).map(|state| UnchangedRecord::open(&state.place(Path::new(RECORD))));
        let mut record = self.record.borrow_mut();
        let record = record.get_or_insert_with(|| open().unwrap_or_else(|_| UnchangedRecord::none()));
        record.knows(ALL, fingerprint(files))
    }
}

impl KnownFiles for ScannedFiles<'_> {
    fn are_right(&self, files: &[FileState]) -> bool {
        self.limit.is_some() && !self.host.verifies() && !files.is_empty() && self.knows(files)
    }

    fn found_right(&self, files: &[FileState]) {
        // A second change within the same clock tick of the file system would be invisible.
        let are_settled = files.iter().all(|file| is_settled(file.changed_at(), self.begun));
        self.news.set((are_settled && !self.knows(files)).then(|| files.to_vec()));
    }

    fn choose(&self, tables: &[(OutlinedTable<'_>, Option<TableId<'_>>)]) -> Option<Vec<bool>> {
        match self.limit? {
            ScanLimit::Prefix(prefix) => {
                Some(tables.iter().map(|(_, id)| id.is_none_or(|id| id.starts_with(prefix))).collect())
            }
            ScanLimit::Ids(ids) => Related::new(tables, self.host)?.to(ids),
            ScanLimit::Neighbours { needs, provides } => {
                Related::new(tables, self.host)?.to_neighbours(needs, provides, self.host)
            }
            // Whatever overlaps a path is at it, above it or below it.
            ScanLimit::Owners(assets) => {
                let assets = assets.iter().filter(|asset| asset.kind.starts_with(b"path"));
                let paths: Vec<Asset> = assets.map(|asset| Asset::new("path", asset.value.clone())).collect();
                Related::new(tables, self.host)?.to_neighbours(&paths, &paths, self.host)
            }
        }
    }
}

/// Returns the fingerprint of files, and of the program that has read them: another one may find a problem.
fn fingerprint(files: &[FileState]) -> Fingerprint {
    let program = std::env::current_exe().and_then(std::fs::metadata);
    let program = program.map(|program| (program.ino(), program.size(), program.mtime(), program.mtime_nsec())).ok();
    Fingerprint::new(&(files, program))
}

/// The key of a table's path.
const PATH: &str = "path";
/// The key of a directory that determines the permissions of everything below it.
const RECURSE: &str = "recurse";

/// Tables, indexed by the relations between their paths.
struct Related<'t> {
    tables: &'t [(OutlinedTable<'t>, Option<TableId<'t>>)],
    /// The directory and the file name of each table.
    names: Vec<(usize, &'t str)>,
    directories: Vec<Directory<'t>>,
}

/// A directory that contains declared files.
struct Directory<'t> {
    path: &'t Path,
    canonical: PathBuf,
    /// The symlinks in its path.
    symlinks: Vec<PathBuf>,
}

/// The paths of tables that interact with a set of tables.
#[derive(Default)]
struct Wanted {
    /// Tables with these paths are about the same file.
    same: HashSet<PathBuf>,
    /// Tables with these paths conflict unless they are directories or symlinks.
    above: HashSet<PathBuf>,
    /// The parents of all these paths.
    parents: HashSet<PathBuf>,
    /// All tables with paths below these interact: they cannot have anything below them, or determine its permissions.
    all_below: Vec<PathBuf>,
}

impl<'t> Related<'t> {
    /// Indexes tables. Returns `None` if the path of a table is unknown.
    fn new(tables: &'t [(OutlinedTable<'t>, Option<TableId<'t>>)], host: &Host) -> Option<Related<'t>> {
        let paths = Paths::new(host);
        let (mut names, mut directories, mut by_path) = (Vec::with_capacity(tables.len()), Vec::new(), HashMap::new());
        let mut last: Option<(&str, usize)> = None;
        for (table, id) in tables {
            let path = id.filter(|id| id.key == PATH).map(|id| id.name).or_else(|| table.text_of(PATH))?;
            let (directory, name) = path.rsplit_once('/').filter(|(_, name)| !["", ".", ".."].contains(name))?;
            // Usually the directory is that of the table before.
            if last.is_none_or(|(last, _)| last != directory) {
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
                last = Some((directory, index));
            }
            let index = last.map_or(0, |(_, index)| index);
            names.push((index, name));
        }
        Some(Related { tables, names, directories })
    }

    /// Returns for each table whether it interacts with these entities, directly or through others, or `None` if any entity may be meant.
    fn to(&self, ids: &[BString]) -> Option<Vec<bool>> {
        // What is not an ID may select any entity.
        let is_id =
            |id: &BString| id.split_once_str(":").is_some_and(|(kind, _)| !kind.is_empty() && !kind.contains(&b'/'));
        if !ids.iter().all(is_id) {
            return None;
        }
        let asked: HashSet<&[u8]> = ids.iter().map(|id| id.as_slice()).collect();
        let names: HashSet<&[u8]> = asked.iter().filter_map(|id| Some(id.split_once_str(":")?.1)).collect();
        let may_be = |name: &[u8]| match ids {
            // Comparing is faster than hashing.
            [only] => only.ends_with(name),
            _ => names.contains(name),
        };
        let is_asked = |id: &TableId<'_>| may_be(id.name.as_bytes()) && asked.iter().any(|asked| id.is(asked));
        let mut wanted = Wanted::default();
        for (index, (table, _)) in self.tables.iter().enumerate().filter(|(_, (_, id))| id.is_none()) {
            let is_asked = || table.text_of(PATH).is_some_and(|path| asked.contains(format!("file:{path}").as_bytes()));
            // It determines the permissions of everything below it.
            if table.has(RECURSE) && is_asked() {
                wanted.all_below.extend(self.canonical(index));
            }
        }
        Some(self.with_related(|index| self.id(index).is_some_and(is_asked), wanted))
    }

    /// Returns for each table whether its entity may be ordered next to one that needs and provides these assets, or interacts with such an
    /// entity. Returns `None` if that is unknown.
    fn to_neighbours(&self, needs: &[Asset], provides: &[Asset], host: &Host) -> Option<Vec<bool>> {
        // Declared files need only paths and accounts, and provide only paths and, below certain ones, the index of packages.
        if provides.iter().any(|asset| asset.kind != "path") {
            return None;
        }
        let paths = |assets: &'_ [Asset]| -> Vec<PathBuf> {
            assets.iter().filter(|asset| asset.kind == "path").map(|asset| asset.value.to_path_lossy().into()).collect()
        };
        let configuration = host.system().package_manager().filter(|_| needs.iter().any(|asset| asset.kind == INDEX));
        let configuration = configuration.into_iter().flat_map(PackageManager::configuration_paths);
        let (needs, mut provides) = (paths(needs), paths(provides));
        provides.extend(configuration);
        if needs.iter().chain(&provides).any(|path| path.components().any(|part| part == Component::ParentDir)) {
            return None;
        }
        let ends: HashSet<&Path> =
            needs.iter().flat_map(|path| path.ancestors()).chain(provides.iter().map(PathBuf::as_path)).collect();
        let parents: HashSet<&Path> = ends.iter().filter_map(|path| path.parent()).collect();
        let ways = |directory: &Directory<'t>| [directory.path.to_owned(), directory.canonical.clone()];
        let is_within = |path: &PathBuf| provides.iter().any(|provided| path.starts_with(provided));
        let within: Vec<bool> =
            self.directories.iter().map(|directory| ways(directory).iter().any(is_within)).collect();
        let is_near = |path: &PathBuf| parents.contains(path.as_path());
        let near: Vec<bool> = self.directories.iter().map(|directory| ways(directory).iter().any(is_near)).collect();
        let is_neighbour = |index: usize| {
            let Some((directory, name)) = self.names.get(index) else { return false };
            let is_end = |directory: &Directory<'t>| ways(directory).iter().any(|way| ends.contains(&*way.join(name)));
            within.get(*directory) == Some(&true)
                || near.get(*directory) == Some(&true) && self.directories.get(*directory).is_some_and(is_end)
        };
        Some(self.with_related(is_neighbour, Wanted::default()))
    }

    /// Returns for each table whether it is selected, has no known ID, is wanted, or interacts with one of those.
    fn with_related(&self, is_meant: impl Fn(usize) -> bool, mut wanted: Wanted) -> Vec<bool> {
        // Tables without a known ID are always read.
        let tables = 0..self.tables.len();
        let mut chosen: Vec<bool> = tables.map(|index| self.id(index).is_none() || is_meant(index)).collect();
        let mut new = chosen.clone();
        while new.contains(&true) {
            for (index, _) in new.iter().enumerate().filter(|(_, is_new)| **is_new) {
                self.add(index, &mut wanted);
            }
            new = self.found_by(&mem::take(&mut wanted), &chosen);
            chosen.iter_mut().zip(&new).for_each(|(chosen, is_new)| *chosen |= is_new);
        }
        chosen
    }

    fn id(&self, index: usize) -> Option<&TableId<'t>> {
        self.tables.get(index).and_then(|(_, id)| id.as_ref())
    }

    /// Returns true if nothing can be below the path of a table.
    fn is_in_the_way(&self, index: usize) -> bool {
        let ensure = self.tables.get(index).and_then(|(table, _)| table.text_of("ensure"));
        !matches!(ensure, Some("directory" | "symlink"))
    }

    fn directory_of(&self, index: usize) -> Option<(&Directory<'t>, &'t str)> {
        let (directory, name) = self.names.get(index)?;
        Some((self.directories.get(*directory)?, name))
    }

    /// Returns the path of a table, with canonical parents.
    fn canonical(&self, index: usize) -> Option<PathBuf> {
        self.directory_of(index).map(|(directory, name)| directory.canonical.join(name))
    }

    /// Adds every path that may interact with this table.
    fn add(&self, index: usize, wanted: &mut Wanted) {
        let (Some((directory, _)), Some(canonical)) = (self.directory_of(index), self.canonical(index)) else { return };
        let above = directory.canonical.ancestors().chain(directory.path.ancestors());
        let above: Vec<PathBuf> =
            above.chain(directory.symlinks.iter().map(PathBuf::as_path)).map(Path::to_owned).collect();
        let parents = above.iter().chain([&canonical]).filter_map(|path| path.parent());
        wanted.parents.extend(parents.map(Path::to_owned));
        wanted.above.extend(above);
        if self.is_in_the_way(index) {
            wanted.all_below.push(canonical.clone());
        }
        wanted.same.insert(canonical);
    }

    /// Returns for each table whether it is wanted and not chosen yet.
    fn found_by(&self, wanted: &Wanted, chosen: &[bool]) -> Vec<bool> {
        let is_below = |directory: &Directory<'_>| {
            let Directory { path, canonical, symlinks } = directory;
            let mut all_below = wanted.all_below.iter();
            all_below.any(|above| path.starts_with(above) || canonical.starts_with(above) || symlinks.contains(above))
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

/// Determines canonical paths, with a cache.
pub(crate) struct Paths {
    canonical: Option<CanonicalPaths>,
}

impl Paths {
    pub(crate) fn new(host: &Host) -> Paths {
        Paths { canonical: Tree::open(host.root()).ok().map(|root| CanonicalPaths::new(&root)) }
    }

    /// Returns the canonical form of a path, or the path itself if that cannot be determined.
    pub(crate) fn canonical(&self, path: &Path) -> PathBuf {
        self.canonical.as_ref().and_then(|canonical| canonical.of(path).ok()).unwrap_or_else(|| path.to_owned())
    }

    /// Returns the symlinks in a path, as far as they can be determined.
    pub(crate) fn symlinks(&self, path: &Path) -> Vec<PathBuf> {
        self.canonical.as_ref().and_then(|canonical| canonical.symlinks(path).ok()).unwrap_or_default()
    }
}
