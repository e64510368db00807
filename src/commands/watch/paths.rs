//! The paths at which something may happen, and what each is about.
//!
//! Directories are watched, not the files in them, so that it is seen when a file is replaced; and all directories on the way to a path are,
//! so that it is seen when one of them is moved, or made. What is missing is watched as soon as it is there.

use crate::error::IoError;
use crate::index::{EntityIndex, PluginIndex, Table, define_index};
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

/// The bytes that are read at once.
const BUFFER_SIZE: usize = 1 << 14;

/// What says that an entry of a directory came or went.
const ENTRIES: WatchFlags = WatchFlags::CREATE.union(WatchFlags::DELETE).union(WatchFlags::MOVE);
/// What says that an entry has changed.
const CHANGES: WatchFlags = WatchFlags::MODIFY.union(WatchFlags::ATTRIB);
/// What says that a directory itself is not where it was.
const SELF: WatchFlags = WatchFlags::DELETE_SELF.union(WatchFlags::MOVE_SELF).union(WatchFlags::ONLYDIR);

define_index! {
    /// The index of a path among those that are watched, or on the way to one.
    NodeIndex
}

/// The directory below which all others are.
const TOP: NodeIndex = NodeIndex(0);

/// The system does not let us watch.
#[derive(Debug, thiserror::Error)]
pub(super) enum WatchError {
    /// There are too many directories for one user.
    #[error(
        "{needed} directories are to be watched, and the system allows fewer: raise fs.inotify.max_user_watches \
         (sysctl -w fs.inotify.max_user_watches=N; now {allowed})"
    )]
    TooManyDirectories {
        /// The number of directories.
        needed: usize,
        /// The limit, as the system says it.
        allowed: String,
    },
    /// There are too many processes of the user that watch something.
    #[error(
        "too many processes watch files already: raise fs.inotify.max_user_instances \
         (sysctl -w fs.inotify.max_user_instances=N; now {allowed})"
    )]
    TooManyInstances {
        /// The limit, as the system says it.
        allowed: String,
    },
    /// A directory cannot be watched.
    #[error(transparent)]
    Directory(#[from] IoError),
}

/// What a path is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Subject {
    /// An entity, which may have drifted.
    Entity(EntityIndex),
    /// The definitions of entities.
    Definitions,
}

/// How much of what is at a path counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// A file, or a directory without its entries.
    Path,
    /// A directory and its entries.
    Entries,
    /// A directory and everything below it.
    Tree,
}

/// What happened at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its mode, owner or another attribute has changed.
    Attributes,
    /// Something was written.
    Written,
    /// It is there, and was not, or was something else.
    Replaced,
    /// It is gone.
    Removed,
}

/// All that has been heard since somebody looked.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The entities that may have drifted.
    pub(super) entities: BTreeMap<EntityIndex, Option<Cause>>,
    /// The IDs of entities that plugins have told of, and what happened to each.
    pub(super) touched: BTreeMap<BString, BString>,
    /// The plugins that listen by now, and may have missed what happened before.
    pub(super) listening: Vec<PluginIndex>,
    /// True if definitions may have changed.
    pub(super) definitions: bool,
    /// True if something was missed, so that any entity may have drifted.
    pub(super) everything: bool,
}

/// The paths that are watched.
#[derive(Debug)]
pub(super) struct WatchedPaths {
    inotify: OwnedFd,
    nodes: Nodes,
    /// The paths of each entity, so that those of one are found without looking at all.
    of_entities: BTreeSet<(EntityIndex, NodeIndex)>,
    /// The nodes of each directory that is watched: with links, several paths may lead to one.
    by_watch: HashMap<i32, Vec<NodeIndex>>,
    /// The directories that this user may not read, so that nothing is heard of them.
    unreadable: Vec<NodeIndex>,
}

/// The paths that are watched, and those on the way to them.
#[derive(Debug)]
struct Nodes(Table<NodeIndex, Node>);

/// A path that is watched, or on the way to one. There are as many as entities: what can be told from others is not in it.
#[derive(Clone, Debug, Default)]
struct Node {
    /// The name in the directory; that of the directory below which all others are is its path.
    name: Box<OsStr>,
    parent: Option<NodeIndex>,
    /// The entries of the directory that are known, by their names.
    children: Vec<NodeIndex>,
    /// What the path itself is about.
    subjects: Vec<Subject>,
    /// What the entries of the directory are about.
    of_entries: Vec<Subject>,
    /// True if directories in it count as it does.
    is_tree: bool,
}

impl WatchedPaths {
    /// Returns no paths but that of a directory below which all others are.
    pub(super) fn new(root: &Path) -> Result<WatchedPaths, WatchError> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|error| match error {
            Errno::MFILE => WatchError::TooManyInstances { allowed: limit("max_user_instances") },
            error => IoError::new("inotify_init", root, error.into()).into(),
        })?;
        let nodes = Nodes(Table::from(vec![Node { name: root.as_os_str().into(), ..Node::default() }]));
        let (of_entities, by_watch) = (BTreeSet::new(), HashMap::new());
        Ok(WatchedPaths { inotify, nodes, of_entities, by_watch, unreadable: Vec::new() })
    }

    /// Returns the same, in memory that is asked for now.
    pub(super) fn moved(self) -> WatchedPaths {
        let (of_entities, by_watch) = (self.of_entities.clone(), self.by_watch.clone());
        WatchedPaths { nodes: Nodes(self.nodes.0.clone()), of_entities, by_watch, ..self }
    }

    /// Adds a path. One that is not below the root is none of our business.
    pub(super) fn add(&mut self, path: &Path, extent: Extent, subject: Subject) {
        let Ok(below) = path.strip_prefix(&*self.nodes.0[TOP].name) else { return };
        let index = below.components().fold(TOP, |node, name| self.nodes.child(node, name.as_os_str()));
        if let Subject::Entity(entity) = subject {
            self.of_entities.insert((entity, index));
        }
        let node = &mut self.nodes.0[index];
        push_new(&mut node.subjects, subject);
        if extent != Extent::Path {
            push_new(&mut node.of_entries, subject);
        }
        node.is_tree |= extent == Extent::Tree;
    }

    /// Returns the paths that are about an entity.
    pub(super) fn of(&self, entity: EntityIndex) -> impl Iterator<Item = PathBuf> {
        let from_here = self.of_entities.range((entity, TOP)..);
        from_here.take_while(move |(of, _)| *of == entity).map(|(_, node)| self.nodes.path(*node))
    }

    /// Watches all directories that are there now, and no others. What has happened before is not heard of: it has to be looked at after
    /// this.
    pub(super) fn arm(&mut self) -> Result<(), WatchError> {
        let mut armed: HashMap<i32, Vec<NodeIndex>> = HashMap::new();
        self.unreadable.clear();
        let mut left = vec![TOP];
        while let Some(index) = left.pop() {
            let node = &self.nodes.0[index];
            if node.children.is_empty() && node.of_entries.is_empty() {
                continue;
            }
            let path = self.nodes.path(index);
            match inotify::add_watch(&self.inotify, &path, self.flags(node)) {
                Ok(watch) => armed.entry(watch).or_default().push(index),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(Errno::ACCESS) => self.unreadable.push(index),
                Err(Errno::NOSPC) => {
                    let is_directory = |node: &&Node| !node.children.is_empty() || !node.of_entries.is_empty();
                    let needed = self.nodes.0.iter().filter(is_directory).count();
                    return Err(WatchError::TooManyDirectories { needed, allowed: limit("max_user_watches") });
                }
                Err(error) => return Err(IoError::new("inotify_add_watch", &path, error.into()).into()),
            }
            if node.is_tree {
                self.nodes.grow(index, &path);
            }
            left.extend(&self.nodes.0[index].children);
        }
        for watch in self.by_watch.keys().filter(|watch| !armed.contains_key(watch)) {
            // Those of directories that are gone have ended by themselves.
            let _ = inotify::remove_watch(&self.inotify, *watch);
        }
        self.by_watch = armed;
        Ok(())
    }

    /// Returns a warning if nothing is heard of some directories.
    pub(super) fn warning(&self) -> Option<String> {
        let (first, others) = self.unreadable.split_first()?;
        let path = self.nodes.path(*first);
        let path = path.display();
        let others = match others.len() {
            0 => String::new(),
            1 => " and of another directory".to_owned(),
            count => format!(" and of {count} other directories"),
        };
        Some(format!("Nothing is noticed of what happens in {path}{others}: you may not read it"))
    }

    /// Returns what is to be heard of a directory. Two paths may lead to it: what either needs is added to what is heard already.
    fn flags(&self, node: &Node) -> WatchFlags {
        let mut children = node.children.iter().map(|&child| &self.nodes.0[child]);
        let tells_changes = !node.of_entries.is_empty() || children.any(|child| !child.subjects.is_empty());
        let changes = if tells_changes { CHANGES } else { WatchFlags::empty() };
        ENTRIES | SELF | WatchFlags::MASK_ADD | changes
    }

    /// Takes all events that there are by now.
    pub(super) fn take(&mut self, heard: &mut Heard) -> Result<(), WatchError> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_SIZE];
        let mut is_moved = false;
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| name.to_bytes().as_bstr());
                    let nodes = self.by_watch.get(&event.wd()).map(Vec::as_slice).unwrap_or_default();
                    is_moved |= hear(&self.nodes, nodes, name, event.events(), heard);
                }
                Err(Errno::WOULDBLOCK) => break,
                Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(IoError::new("read inotify of", &self.nodes.path(TOP), error.into()).into());
                }
            }
        }
        if is_moved { self.arm() } else { Ok(()) }
    }
}

impl Nodes {
    /// Returns the entry of a directory with this name, which is added if it is not known.
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

    /// Returns the entry of a directory with this name, or the place that it would have.
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

    /// Adds the directories in one that counts with everything below it.
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
    /// Becomes readable when something has happened.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// Takes an event in directories. Returns true if other directories have to be watched from now on.
fn hear(all: &Nodes, nodes: &[NodeIndex], name: Option<&BStr>, flags: ReadFlags, heard: &mut Heard) -> bool {
    if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
        heard.everything = true;
        return true;
    }
    if flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT) {
        nodes.iter().for_each(|&node| concern_below(all, node, Cause::Removed, |_| true, heard));
        return true;
    }
    let Some((name, cause)) = name.zip(Cause::of(flags)) else { return false };
    let comes_or_goes = matches!(cause, Cause::Replaced | Cause::Removed);
    let mut is_moved = false;
    for &index in nodes {
        let node = &all.0[index];
        node.of_entries.iter().for_each(|&subject| heard.concern(subject, cause));
        is_moved |= comes_or_goes && node.is_tree && flags.contains(ReadFlags::ISDIR);
        let Ok(child) = all.find(index, &name.to_os_str_lossy()) else { continue };
        if comes_or_goes {
            // What was in a directory that is removed has been heard of. What has come with one is there now.
            let concerns_below = |index| match cause {
                Cause::Removed => flags.contains(ReadFlags::MOVED_FROM),
                _ => all.path(index).symlink_metadata().is_ok(),
            };
            concern_below(all, child, cause, concerns_below, heard);
            is_moved |= !all.0[child].children.is_empty() || !all.0[child].of_entries.is_empty();
        } else {
            all.0[child].subjects.iter().for_each(|&subject| heard.concern(subject, cause));
        }
    }
    is_moved
}

/// Concerns a path, and everything below it that this is true of.
fn concern_below(all: &Nodes, path: NodeIndex, cause: Cause, concerns: impl Fn(NodeIndex) -> bool, heard: &mut Heard) {
    let mut left = vec![path];
    while let Some(index) = left.pop() {
        let node = &all.0[index];
        if index != path && !concerns(index) {
            continue;
        }
        node.subjects.iter().chain(&node.of_entries).for_each(|&subject| heard.concern(subject, cause));
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

    /// Returns the words for it.
    pub(super) fn words(self) -> &'static str {
        match self {
            Cause::Attributes => "its attributes were changed",
            Cause::Written => "it was written",
            Cause::Replaced => "it was replaced",
            Cause::Removed => "it was removed",
        }
    }

    /// Returns the words' cause if one thing happens after another: a file that was replaced and then written was replaced.
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

    /// Adds what was heard apart.
    pub(super) fn add(&mut self, other: Heard) {
        self.entities.extend(other.entities);
        self.touched.extend(other.touched);
        self.listening.extend(other.listening);
        self.definitions |= other.definitions;
        self.everything |= other.everything;
    }

    /// Returns true if there is anything to be looked at.
    pub(super) fn is_anything(&self) -> bool {
        self.is_event() || !self.listening.is_empty()
    }

    /// Returns true if something has happened.
    pub(super) fn is_event(&self) -> bool {
        self.everything || self.definitions || !self.entities.is_empty() || !self.touched.is_empty()
    }
}

/// Adds a subject, unless it was added last: those of thousands of entities may be one file.
fn push_new(list: &mut Vec<Subject>, new: Subject) {
    if list.last() != Some(&new) {
        // Most paths are about one entity.
        if list.is_empty() {
            list.reserve_exact(1);
        }
        list.push(new);
    }
}

/// Returns a limit of inotify.
fn limit(name: &str) -> String {
    let read = fs::read_to_string(format!("/proc/sys/fs/inotify/{name}"));
    read.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests;
