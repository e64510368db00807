//! What archives have in common: the process, the trees that they work in, and who else there is.

use crate::definition::Ensure;
use crate::record::Record;
use holo_change::Tree;
use holo_change::base_store::Remembered;
use holo_change::error::Result;
use holo_plugin::Host;
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What an ID begins with.
pub(crate) const PREFIX: &str = "archive:";

/// What lives as long as the process.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The state directory, while this process works in it: of two dispatchers, one may have been killed while its plugin still works.
    held: Mutex<Option<OwnedFd>>,
    pub(crate) turns: Turns,
    /// Held while directories are made or removed that more than one archive may need.
    directories: Mutex<()>,
}

impl Shared {
    /// Keeps other processes out until this one ends.
    pub(crate) fn hold(&self, host: &Host) -> Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            *held = Some(Tree::open(host.state_dir())?.hold()?);
        }
        Ok(())
    }

    pub(crate) fn directories(&self) -> MutexGuard<'_, ()> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The paths that an archive works on: its download, and the directories that it is, or was, extracted to. All of them are canonical.
pub(crate) type Areas = Vec<PathBuf>;

/// Has archives of one set that work on the same paths do so one after the other, in the plan's order.
///
/// Each archive is begun after all before it have been, so that waiting for those comes to an end.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    waiting: Mutex<Vec<(String, Areas)>>,
    ended: Condvar,
}

impl Turns {
    /// Takes the archives of a set, in their order.
    pub(crate) fn announce(&self, set: impl IntoIterator<Item = (String, Areas)>) {
        *self.waiting() = set.into_iter().collect();
    }

    /// Waits until all archives have ended that were announced before this one and work on some of its paths.
    pub(crate) fn wait(&self, id: &str) {
        let is_free = |waiting: &Vec<(String, Areas)>| {
            let before = waiting.iter().position(|(other, _)| other == id).unwrap_or(0);
            let (earlier, rest) = waiting.split_at(before);
            rest.first().is_none_or(|(_, own)| earlier.iter().all(|(_, areas)| !overlap(own, areas)))
        };
        let mut waiting = self.waiting();
        while !is_free(&waiting) {
            waiting = self.ended.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes note that an archive has ended, well or not.
    pub(crate) fn end(&self, id: &str) {
        self.waiting().retain(|(other, _)| other != id);
        self.ended.notify_all();
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<(String, Areas)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn overlap(one: &[PathBuf], other: &[PathBuf]) -> bool {
    one.iter().any(|one| other.iter().any(|other| are_nested(one, other)))
}

/// Whether one of two paths is the other, or in it.
pub(crate) fn are_nested(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// Which archives there are, as the last scan found them.
#[derive(Debug, Default)]
pub(crate) struct Scene {
    /// Those that nothing defines any more.
    pub(crate) orphans: BTreeMap<String, Remembered<Record>>,
    /// Those that are defined and not left out by a condition.
    pub(crate) defined: Vec<Defined>,
}

/// An archive that is defined: where its download is, and where it is extracted to. Both are canonical.
#[derive(Debug)]
pub(crate) struct Defined {
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    pub(crate) tree: Option<PathBuf>,
    pub(crate) ensure: Ensure,
}

impl Scene {
    /// The orphans of which an archive takes something over: the path of its download, or the directory that it is extracted to.
    pub(crate) fn predecessors(&self, path: &Path, tree: Option<&Path>) -> Vec<&Remembered<Record>> {
        let has = |record: &Record| {
            record.path.as_deref().is_some_and(|own| Path::new(own) == path)
                || tree.is_some_and(|tree| record.trees.iter().any(|own| Path::new(own) == tree))
        };
        self.orphans.values().filter(|orphan| has(&orphan.base)).collect()
    }

    pub(crate) fn is_orphan(&self, id: &str) -> bool {
        self.orphans.contains_key(id)
    }
}

/// The canonical path of something; the path itself where that cannot be told, which whoever works there will say.
pub(crate) fn canonical(root: &Arc<Tree>, path: &str, last: bool) -> PathBuf {
    root.canonical(Path::new(path), last).unwrap_or_else(|_| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn those_that_share_a_tree_come_one_after_the_other() {
        let turns = Turns::default();
        let areas = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Areas>();
        turns.announce([
            ("a".to_owned(), areas(&["/srv/a", "/opt"])),
            ("b".to_owned(), areas(&["/srv/b", "/usr"])),
            ("c".to_owned(), areas(&["/srv/c", "/opt/app"])),
        ]);
        // Neither those that come first nor those that nobody has announced wait for anything.
        ["a", "b", "x"].iter().for_each(|id| turns.wait(id));
        thread::scope(|scope| {
            let (sender, come) = mpsc::channel();
            let turns = &turns;
            scope.spawn(move || {
                turns.wait("c");
                sender.send(()).unwrap();
            });
            assert!(come.recv_timeout(Duration::from_millis(50)).is_err());
            turns.end("b");
            assert!(come.recv_timeout(Duration::from_millis(50)).is_err());
            turns.end("a");
            come.recv_timeout(Duration::from_secs(10)).unwrap();
        });
        assert!(are_nested(Path::new("/"), Path::new("/x")) && !are_nested(Path::new("/opt/a"), Path::new("/opt/ab")));
    }
}
