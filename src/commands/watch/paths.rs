//! Watches paths, and maps events to their subjects.
//!
//! Directories are watched rather than files, so that the replacement of a file is noticed. All ancestors of a path are
//! watched too, in case one of them is moved or created. Missing directories are watched as soon as they exist.

use crate::entities::node::{EntityIndex, PluginIndex, Table, define_index};
use crate::error::IoError;
use bstr::{BStr, BString, ByteSlice};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::iter::successors;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The size of the read buffer, in bytes.
const BUFFER_SIZE: usize = 1 << 14;

/// The number of paths that may be added later in any case.
const TOO_MANY: usize = 1000;

/// Events for a directory entry that appears or disappears.
const ENTRIES: WatchFlags = WatchFlags::CREATE.union(WatchFlags::DELETE).union(WatchFlags::MOVE);
/// Events for a changed entry.
const CHANGES: WatchFlags = WatchFlags::MODIFY.union(WatchFlags::ATTRIB);
/// Events for a directory that is moved or deleted itself.
const SELF: WatchFlags = WatchFlags::DELETE_SELF.union(WatchFlags::MOVE_SELF).union(WatchFlags::ONLYDIR);

define_index! {
    /// The index of a watched path, or of an ancestor of one.
    NodeIndex
}

/// The common ancestor of all paths.
const TOP: NodeIndex = NodeIndex(0);

/// The system does not allow us to watch.
#[derive(Debug, thiserror::Error)]
pub(super) enum WatchError {
    /// The user's limit of watched directories is exceeded.
    #[error(
        "{needed} directories are to be watched, and the system allows fewer: raise fs.inotify.max_user_watches \
         (sysctl -w fs.inotify.max_user_watches={}; now {allowed})", raised(.allowed, *.needed)
    )]
    TooManyDirectories {
        /// The number of directories.
        needed: usize,
        /// The limit, as text.
        allowed: String,
    },
    /// The user's limit of processes that watch files is exceeded.
    #[error(
        "too many processes watch files already: raise fs.inotify.max_user_instances \
         (sysctl -w fs.inotify.max_user_instances={}; now {allowed})", raised(.allowed, MORE_INSTANCES)
    )]
    TooManyInstances {
        /// The limit, as text.
        allowed: String,
    },
    /// A directory cannot be watched.
    #[error(transparent)]
    Directory(#[from] IoError),
}

/// The subject of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Subject {
    /// An entity, which may have drifted.
    Entity(EntityIndex),
    /// The definitions of entities.
    Definitions,
}

/// How much below a path is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// A file, or a directory without its entries.
    Path,
    /// A directory and its entries.
    Entries,
    /// A directory and its entries, except for their contents.
    Names,
    /// A directory and everything below it.
    Tree,
}

/// The kind of an event at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its mode, owner or another attribute has changed.
    Attributes,
    /// A file was written.
    Written,
    /// It was created, or replaced by another file.
    Replaced,
    /// It was removed.
    Removed,
}

/// The events since the last check.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The entities that may have drifted.
    pub(super) entities: BTreeMap<EntityIndex, Option<Cause>>,
    /// The IDs of entities that plugins have reported, each with a reason.
    pub(super) touched: BTreeMap<BString, BString>,
    /// The plugins that have started to listen, and may have missed earlier events.
    pub(super) listening: Vec<PluginIndex>,
    /// Whether definitions may have changed.
    pub(super) definitions: bool,
    /// Whether events were lost, so that any entity may have drifted.
    pub(super) everything: bool,
}

/// The watched paths.
#[derive(Debug)]
pub(super) struct WatchedPaths {
    inotify: OwnedFd,
    nodes: Nodes,
    /// The paths of each entity, so that they are found without a search.
    of_entities: BTreeSet<(EntityIndex, NodeIndex)>,
    /// The nodes of each watched directory; through symlinks, several paths may lead to one.
    by_watch: HashMap<i32, Vec<NodeIndex>>,
    /// The nodes of watches that have ended, until all of their events are read.
    ended: HashMap<i32, Vec<NodeIndex>>,
    /// The number of nodes when all paths were new.
    first_size: usize,
    /// The directories that the current user may not read, and that therefore report no events.
    unreadable: Vec<NodeIndex>,
}

/// The watched paths and their ancestors.
#[derive(Debug)]
struct Nodes(Table<NodeIndex, Node>);

/// A watched path, or an ancestor of one. There are as many as entities, so fields that can be derived are left out.
#[derive(Clone, Debug, Default)]
struct Node {
    /// The name in the parent directory; for the common ancestor, its whole path.
    name: Box<OsStr>,
    parent: Option<NodeIndex>,
    /// The known entries of the directory, sorted by name.
    children: Vec<NodeIndex>,
    /// The subjects of the path itself.
    subjects: Vec<Subject>,
    /// The subjects of the directory's entries.
    of_entries: Vec<Subject>,
    /// The subjects of the names and attributes of the directory's entries.
    of_names: Vec<Subject>,
    /// Whether subdirectories are watched in the same way.
    is_tree: bool,
}

impl WatchedPaths {
    /// Creates a set of paths with this common ancestor.
    pub(super) fn new(root: &Path) -> Result<WatchedPaths, WatchError> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|error| match error {
            Errno::MFILE => WatchError::TooManyInstances { allowed: limit("max_user_instances") },
            error => IoError::new("inotify_init", root, error.into()).into(),
        })?;
        let nodes = Nodes(Table::from(vec![Node { name: root.as_os_str().into(), ..Node::default() }]));
        let (of_entities, by_watch, ended) = (BTreeSet::new(), HashMap::new(), HashMap::new());
        Ok(WatchedPaths { inotify, nodes, of_entities, by_watch, ended, first_size: 0, unreadable: Vec::new() })
    }

    /// Returns a copy in newly allocated memory.
    pub(super) fn moved(self) -> WatchedPaths {
        let (of_entities, by_watch) = (self.of_entities.clone(), self.by_watch.clone());
        WatchedPaths { nodes: Nodes(self.nodes.0.clone()), of_entities, by_watch, ..self }
    }

    /// Adds a path. A path outside of the root is ignored. Returns false if it is watched for the subject already.
    pub(super) fn add(&mut self, path: &Path, extent: Extent, subject: Subject) -> bool {
        let Ok(below) = path.strip_prefix(&*self.nodes.0[TOP].name) else { return false };
        let index = below.components().fold(TOP, |node, name| self.nodes.child(node, name.as_os_str()));
        let is_new = match subject {
            Subject::Entity(entity) => self.of_entities.insert((entity, index)),
            Subject::Definitions => true,
        };
        let node = &mut self.nodes.0[index];
        if is_new {
            push_new(&mut node.subjects, subject);
        }
        match extent {
            Extent::Path => is_new,
            Extent::Names if node.of_names.contains(&subject) => is_new,
            Extent::Names => {
                node.of_names.push(subject);
                true
            }
            Extent::Entries | Extent::Tree => {
                push_new(&mut node.of_entries, subject);
                node.is_tree |= extent == Extent::Tree;
                is_new
            }
        }
    }

    /// Notes that all paths are in use now.
    pub(super) fn are_all(&mut self) {
        self.first_size = self.nodes.0.len();
    }

    /// Returns true if many paths were added later. Those that are gone are only dropped with the whole set.
    pub(super) fn are_too_many(&self) -> bool {
        self.nodes.0.len() > 2 * self.first_size + TOO_MANY
    }

    /// Returns the paths of an entity.
    pub(super) fn of(&self, entity: EntityIndex) -> impl Iterator<Item = PathBuf> {
        let from_here = self.of_entities.range((entity, TOP)..);
        from_here.take_while(move |(of, _)| *of == entity).map(|(_, node)| self.nodes.path(*node))
    }

    /// Watches all directories that exist now, and no others. Earlier changes are not reported, so a check must follow; what has happened to
    /// directories that were watched before is still reported.
    pub(super) fn arm(&mut self) -> Result<(), WatchError> {
        let mut armed: HashMap<i32, Vec<NodeIndex>> = HashMap::new();
        self.unreadable.clear();
        let mut left = vec![TOP];
        while let Some(index) = left.pop() {
            let node = &self.nodes.0[index];
            if !node.is_directory() {
                continue;
            }
            let path = self.nodes.path(index);
            match inotify::add_watch(&self.inotify, &path, self.flags(node)) {
                Ok(watch) => armed.entry(watch).or_default().push(index),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(Errno::ACCESS) => self.unreadable.push(index),
                Err(Errno::NOSPC) => {
                    let needed = self.nodes.0.iter().filter(|node| node.is_directory()).count();
                    return Err(WatchError::TooManyDirectories { needed, allowed: limit("max_user_watches") });
                }
                Err(error) => return Err(IoError::new("inotify_add_watch", &path, error.into()).into()),
            }
            if node.is_tree {
                self.nodes.grow(index, &path);
            }
            left.extend(&self.nodes.0[index].children);
        }
        for (watch, nodes) in std::mem::take(&mut self.by_watch) {
            if !armed.contains_key(&watch) {
                // Those of deleted directories have ended by themselves.
                let _ = inotify::remove_watch(&self.inotify, watch);
                self.ended.insert(watch, nodes);
            }
        }
        self.by_watch = armed;
        Ok(())
    }

    /// Returns a warning if some directories report no events.
    pub(super) fn warning(&self) -> Option<String> {
        let (first, others) = self.unreadable.split_first()?;
        let path = self.nodes.path(*first);
        let path = path.display();
        let others = match others.len() {
            0 => String::new(),
            1 => " and another directory".to_owned(),
            count => format!(" and of {count} other directories"),
        };
        Some(format!("Changes are not noticed in {path}{others}: you may not read it"))
    }

    /// Returns the events to watch for in a directory. If two paths lead to the same directory, their events are
    /// combined.
    fn flags(&self, node: &Node) -> WatchFlags {
        let mut children = node.children.iter().map(|&child| &self.nodes.0[child]);
        let tells_changes = !node.of_entries.is_empty() || children.any(|child| !child.subjects.is_empty());
        let changes = match tells_changes {
            true => CHANGES,
            false if node.of_names.is_empty() => WatchFlags::empty(),
            false => WatchFlags::ATTRIB,
        };
        ENTRIES | SELF | WatchFlags::MASK_ADD | changes
    }

    /// Reads all pending events.
    pub(super) fn take(&mut self, heard: &mut Heard) -> Result<(), WatchError> {
        let moves = self.read(heard)?;
        self.follow(&moves, heard)
    }

    /// Reads all pending events. Returns which paths must be watched anew.
    fn read(&mut self, heard: &mut Heard) -> Result<Moves, WatchError> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_SIZE];
        let mut moves = Moves::default();
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| name.to_bytes().as_bstr());
                    let nodes = self.by_watch.get(&event.wd()).or_else(|| self.ended.get(&event.wd()));
                    hear(&self.nodes, nodes.map_or(&[], Vec::as_slice), name, event.events(), heard, &mut moves);
                    if event.events().contains(ReadFlags::IGNORED) {
                        self.ended.remove(&event.wd());
                    }
                }
                Err(Errno::WOULDBLOCK) => return Ok(moves),
                Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(IoError::new("read inotify of", &self.nodes.path(TOP), error.into()).into());
                }
            }
        }
    }

    /// Watches directories where they are now. What came into a new one before it was watched has had no event, so
    /// it is looked for afterwards.
    fn follow(&mut self, moves: &Moves, heard: &mut Heard) -> Result<(), WatchError> {
        if moves.is_any {
            self.arm()?;
        }
        let exists = |index: NodeIndex| self.nodes.path(index).symlink_metadata().is_ok();
        for &path in moves.appeared.iter().filter(|&&path| exists(path)) {
            concern_below(&self.nodes, path, Cause::Replaced, exists, heard);
        }
        Ok(())
    }
}

/// The directories that have come, gone or moved.
#[derive(Debug, Default)]
struct Moves {
    /// Whether there are any.
    is_any: bool,
    /// The paths that have appeared, and may have brought others below them.
    appeared: Vec<NodeIndex>,
}

impl Node {
    /// Returns true if it is a directory that is watched.
    fn is_directory(&self) -> bool {
        !(self.children.is_empty() && self.of_entries.is_empty() && self.of_names.is_empty())
    }

    /// Returns the subjects of the path, and of what is in it.
    fn all_subjects(&self) -> impl Iterator<Item = Subject> {
        self.subjects.iter().chain(&self.of_entries).chain(&self.of_names).copied()
    }
}

impl Nodes {
    /// Returns the entry of a directory with this name; adds it if it is unknown.
    fn child(&mut self, of: NodeIndex, name: &OsStr) -> NodeIndex {
        match self.find(of, name) {
            Ok(child) => child,
            Err(place) => {
                let child = self.0.push(Node { name: name.into(), parent: Some(of), ..Node::default() });
                self.0[of].children.insert(place, child);
                child
            }
        }
    }

    /// Returns the entry of a directory with this name, or the position at which to insert it.
    fn find(&self, of: NodeIndex, name: &OsStr) -> Result<NodeIndex, usize> {
        let children = &self.0[of].children;
        let place = children.binary_search_by(|&child| (*self.0[child].name).cmp(name))?;
        children.get(place).copied().ok_or(place)
    }

    fn path(&self, index: NodeIndex) -> PathBuf {
        let parent = |&index: &NodeIndex| self.0[index].parent;
        let mut names: Vec<&OsStr> = successors(Some(index), parent).map(|index| &*self.0[index].name).collect();
        names.reverse();
        names.into_iter().collect()
    }

    /// Adds the subdirectories of a directory that is watched with everything below it.
    fn grow(&mut self, index: NodeIndex, path: &Path) {
        let Ok(entries) = fs::read_dir(path) else { return };
        let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        for directory in directories {
            let child = self.child(index, &directory.file_name());
            let of_entries = self.0[index].of_entries.clone();
            let node = &mut self.0[child];
            of_entries.into_iter().for_each(|subject| push_new(&mut node.of_entries, subject));
            node.is_tree = true;
        }
    }
}

impl AsFd for WatchedPaths {
    /// Returns a descriptor that becomes readable when there are events.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// Handles an event in a directory.
fn hear(all: &Nodes, nodes: &[NodeIndex], name: Option<&BStr>, flags: ReadFlags, heard: &mut Heard, moves: &mut Moves) {
    if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
        heard.everything = true;
        moves.is_any = true;
        return;
    }
    if flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT) {
        nodes.iter().for_each(|&node| concern_below(all, node, Cause::Removed, |_| true, heard));
        moves.is_any = true;
        return;
    }
    let Some((name, cause)) = name.zip(Cause::of(flags)) else { return };
    let comes_or_goes = matches!(cause, Cause::Replaced | Cause::Removed);
    for &index in nodes {
        let node = &all.0[index];
        node.of_entries.iter().for_each(|&subject| heard.concern(subject, cause));
        if cause != Cause::Written {
            node.of_names.iter().for_each(|&subject| heard.concern(subject, cause));
        }
        moves.is_any |= comes_or_goes && node.is_tree && flags.contains(ReadFlags::ISDIR);
        let Ok(child) = all.find(index, &name.to_os_str_lossy()) else { continue };
        if comes_or_goes {
            // Entries of a deleted directory have had their own events. Those of a new one are looked for later.
            concern_below(all, child, cause, |_| flags.contains(ReadFlags::MOVED_FROM), heard);
            if cause == Cause::Replaced && !all.0[child].children.is_empty() {
                moves.appeared.push(child);
            }
            moves.is_any |= all.0[child].is_directory();
        } else {
            all.0[child].subjects.iter().for_each(|&subject| heard.concern(subject, cause));
        }
    }
}

/// Marks a path and those of its descendants that the predicate accepts.
fn concern_below(all: &Nodes, path: NodeIndex, cause: Cause, concerns: impl Fn(NodeIndex) -> bool, heard: &mut Heard) {
    let mut left = vec![path];
    while let Some(index) = left.pop() {
        let node = &all.0[index];
        if index != path && !concerns(index) {
            continue;
        }
        node.all_subjects().for_each(|subject| heard.concern(subject, cause));
        left.extend(&node.children);
    }
}

impl Cause {
    fn of(flags: ReadFlags) -> Option<Cause> {
        if flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
            Some(Cause::Removed)
        } else if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            Some(Cause::Replaced)
        } else if flags.contains(ReadFlags::MODIFY) {
            Some(Cause::Written)
        } else {
            flags.contains(ReadFlags::ATTRIB).then_some(Cause::Attributes)
        }
    }

    /// Returns the description shown to users.
    pub(super) fn words(self) -> &'static str {
        match self {
            Cause::Attributes => "its attributes were changed",
            Cause::Written => "it was written",
            Cause::Replaced => "it was replaced",
            Cause::Removed => "it was removed",
        }
    }

    /// Combines two successive events: a file that was replaced and then written counts as replaced.
    fn then(self, later: Cause) -> Cause {
        match (self, later) {
            (_, Cause::Replaced | Cause::Removed) => later,
            (Cause::Attributes | Cause::Removed, _) => later,
            (Cause::Written | Cause::Replaced, Cause::Attributes | Cause::Written) => self,
        }
    }
}

impl Heard {
    fn concern(&mut self, subject: Subject, cause: Cause) {
        match subject {
            Subject::Definitions => self.definitions = true,
            Subject::Entity(entity) => {
                let known = self.entities.entry(entity).or_default();
                *known = Some(known.map_or(cause, |earlier| earlier.then(cause)));
            }
        }
    }

    /// Merges other events.
    pub(super) fn add(&mut self, other: Heard) {
        self.entities.extend(other.entities);
        self.touched.extend(other.touched);
        self.listening.extend(other.listening);
        self.definitions |= other.definitions;
        self.everything |= other.everything;
    }

    /// Returns true if a check is needed.
    pub(super) fn is_anything(&self) -> bool {
        self.is_event() || !self.listening.is_empty()
    }

    /// Returns true if there was an event.
    pub(super) fn is_event(&self) -> bool {
        self.everything || self.definitions || !self.entities.is_empty() || !self.touched.is_empty()
    }
}

/// Adds a subject unless it was the last one added: thousands of entities may share a file.
fn push_new(list: &mut Vec<Subject>, new: Subject) {
    if list.last() != Some(&new) {
        // Most paths have a single subject.
        if list.is_empty() {
            list.reserve_exact(1);
        }
        list.push(new);
    }
}

/// The number of further processes that may watch files if a limit on them is raised.
const MORE_INSTANCES: usize = 128;

/// Returns a limit that leaves room for more than what is allowed now.
fn raised(allowed: &str, more: usize) -> usize {
    allowed.parse::<usize>().unwrap_or_default() + more
}

/// Returns a limit of inotify.
fn limit(name: &str) -> String {
    let read = fs::read_to_string(format!("/proc/sys/fs/inotify/{name}"));
    read.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests;
