//! Committing changes in groups, with a single sync per step for the whole group.
//!
//! A change is made in steps, in an order that makes a crash at any point harmless:
//!
//! 1. *Staged*: the data to be kept is written under temporary names. No final file has been modified.
//! 2. *Kept*: the base and the *intent*, which is the future state of the target, are in their final places.
//! 3. *Prepared*: the new content is stored next to the target.
//! 4. *Replaced*: the target has its new state, unless another process has changed it since it was examined.
//! 5. *Recorded* and 6. *confirmed*: the new state is recorded, and files that are no longer needed are removed.
//!
//! Each step is on disk before the next one begins, except for the last step. Between the second and the last step, a
//! target that is equal to its intent is known to be our own unfinished work, and not a manual change. A [`Store`] may
//! need only some of the steps, and may use several threads for a step.

use crate::error::{PathError, Result};
use crate::path_handle::{Durability, PathHandle};
use crate::shares::{self, SHARE};
use std::fmt;

/// The changes of a step that must be on disk before the next step.
#[derive(Debug, Default)]
pub struct Unsynced {
    /// The files that were written.
    pub files: Vec<PathHandle>,
    /// The paths at which a name was created or removed.
    pub names: Vec<PathHandle>,
}

impl Unsynced {
    fn add(&mut self, other: Unsynced) {
        self.files.extend(other.files);
        self.names.extend(other.names);
    }
}

/// The storage of bases, intents and records, which implements the steps of a change.
pub trait Store: Sized {
    /// A change of objects that belong together, such as those of one entity.
    type Change;
    /// The error of a change.
    type Error: From<PathError>;

    /// Opens the store again, for another thread.
    ///
    /// # Errors
    /// If a directory cannot be opened.
    fn reopen(&self) -> Result<Self>;

    /// Drops cached directories, which other processes may have moved.
    fn forget_directories(&self);

    /// Returns the number of files of a change, which determines the cheaper way to sync.
    fn files(&self, _: &Self::Change) -> usize {
        1
    }

    /// Returns the memory usage of a change, in bytes.
    fn bytes(&self, _: &Self::Change) -> usize {
        0
    }

    /// Prepares a group of changes, before the first step.
    ///
    /// # Errors
    /// On failure, none of the changes is made.
    fn begin(&self, _: &mut [Self::Change]) -> Result<()> {
        Ok(())
    }

    /// Performs step 1.
    ///
    /// # Errors
    /// In this and all other steps, a failure ends the change.
    fn stage(&self, change: &mut Self::Change) -> std::result::Result<Unsynced, Self::Error>;

    /// Performs step 2.
    ///
    /// # Errors
    /// As in step 1.
    fn keep(&self, change: &mut Self::Change) -> std::result::Result<Unsynced, Self::Error>;

    /// Records the intents of the changes that have completed step 2. When this returns, they are on disk.
    ///
    /// # Errors
    /// On failure, none of the changes is made.
    fn intend(&self, _: &[&Self::Change]) -> Result<()> {
        Ok(())
    }

    /// Performs step 3.
    ///
    /// # Errors
    /// As in step 1.
    fn prepare(&self, _: &mut Self::Change) -> std::result::Result<Unsynced, Self::Error> {
        Ok(Unsynced::default())
    }

    /// Performs step 4.
    ///
    /// # Errors
    /// As in step 1.
    fn replace(&self, change: &mut Self::Change) -> std::result::Result<Unsynced, Self::Error>;

    /// Performs step 5.
    ///
    /// # Errors
    /// As in step 1.
    fn record(&self, change: &mut Self::Change) -> std::result::Result<Unsynced, Self::Error>;

    /// Records the results of the changes that have completed step 5.
    ///
    /// # Errors
    /// On failure, all changes fail, although they have been made.
    fn settle(&self, _: &[&Self::Change]) -> Result<()> {
        Ok(())
    }

    /// Performs step 6.
    ///
    /// # Errors
    /// As in step 1.
    fn confirm(&self, _: &mut Self::Change) -> std::result::Result<Unsynced, Self::Error> {
        Ok(Unsynced::default())
    }

    /// Completes a group of changes, after the last step.
    ///
    /// # Errors
    /// A failure does not affect the changes, which have been made.
    fn end(&self, _: &mut [Self::Change]) -> Result<()> {
        Ok(())
    }

    /// Cleans up after a change that has failed.
    fn abandon(&self, change: &mut Self::Change, error: &Self::Error);

    /// Performs a step for all changes that have not failed, one after the other unless the store uses several threads.
    fn take(&self, step: Step<Self>, changes: &mut [Self::Change], results: &mut Results<Self>) -> Unsynced {
        take_in_order(self, step, changes, results)
    }
}

/// A step of a change.
pub struct Step<S: Store> {
    act: fn(&S, &mut S::Change) -> std::result::Result<Unsynced, S::Error>,
    /// True if the step may free the blocks of files, so that it is limited by the device and not by the processor.
    pub(crate) may_free: bool,
}

impl<S: Store> Clone for Step<S> {
    fn clone(&self) -> Step<S> {
        *self
    }
}

impl<S: Store> Copy for Step<S> {}

impl<S: Store> fmt::Debug for Step<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("may_free", &self.may_free).finish_non_exhaustive()
    }
}

/// The indexes of steps 2 and 5.
const KEEP: usize = 1;
const RECORD: usize = 4;

impl<S: Store> Step<S> {
    fn all() -> [Step<S>; 6] {
        let making = |act| Step { act, may_free: false };
        let freeing = |act| Step { act, may_free: true };
        [
            making(S::stage),
            making(S::keep),
            making(S::prepare),
            freeing(S::replace),
            freeing(S::record),
            freeing(S::confirm),
        ]
    }

    /// Returns the number of threads for the step, if at most `threads` may be used, and the changes free files if
    /// `are_freed` is set.
    pub(crate) fn threads(&self, threads: usize, are_freed: bool) -> usize {
        if self.may_free && are_freed { shares::threads_that_free(threads) } else { threads }
    }
}

/// The results of changes so far.
pub type Results<S> = [std::result::Result<(), <S as Store>::Error>];

/// Makes changes, one step at a time for the whole group, and returns the result of each change.
///
/// The failure of a change does not affect the others, except for errors of a sync.
pub fn commit<S: Store>(store: &S, changes: &mut [S::Change]) -> Vec<std::result::Result<(), S::Error>> {
    if changes.is_empty() {
        return Vec::new();
    }
    let mut results: Vec<std::result::Result<(), S::Error>> = changes.iter().map(|_| Ok(())).collect();
    let durability = Durability::of(changes.iter().map(|change| store.files(change)).sum());
    fail_all(&mut results, store.begin(changes));
    for (number, step) in Step::all().into_iter().enumerate() {
        let unsynced = store.take(step, changes, &mut results);
        fail_all(&mut results, durability.sync(&unsynced.files, &unsynced.names));
        let recorded = match number {
            KEEP => store.intend(&succeeded(changes, &results)),
            RECORD => store.settle(&succeeded(changes, &results)),
            _ => Ok(()),
        };
        fail_all(&mut results, recorded);
    }
    for (change, result) in changes.iter_mut().zip(&results) {
        if let Err(error) = result {
            store.abandon(change, error);
        }
    }
    fail_all(&mut results, store.end(changes));
    results
}

fn succeeded<'c, C, E>(changes: &'c [C], results: &[std::result::Result<(), E>]) -> Vec<&'c C> {
    changes.iter().zip(results).filter(|(_, result)| result.is_ok()).map(|(change, _)| change).collect()
}

fn take_in_order<S: Store>(store: &S, step: Step<S>, changes: &mut [S::Change], results: &mut Results<S>) -> Unsynced {
    let mut unsynced = Unsynced::default();
    for (change, result) in changes.iter_mut().zip(results).filter(|(_, result)| result.is_ok()) {
        match (step.act)(store, change) {
            Ok(other) => unsynced.add(other),
            Err(error) => *result = Err(error),
        }
    }
    unsynced
}

/// Performs a step for all changes that have not failed, with at most this number of threads.
///
/// A step of one change must not depend on the same step of another.
pub(crate) fn take_concurrently<S>(
    store: &S,
    threads: usize,
    step: Step<S>,
    changes: &mut [S::Change],
    results: &mut Results<S>,
) -> Unsynced
where
    S: Store<Change: Send, Error: Send> + Send,
{
    let things = changes.len();
    let shares = changes.chunks_mut(SHARE).zip(results.chunks_mut(SHARE));
    let take = |store: &S, (changes, results): (&mut [S::Change], &mut Results<S>)| {
        take_in_order(store, step, changes, results)
    };
    let mut unsynced = Unsynced::default();
    for share in shares::work_on((things, threads), shares, (store, || store.reopen().ok()), take) {
        unsynced.add(share);
    }
    unsynced
}

/// Fails all changes of the group if a sync has failed, because the next step must not be performed before the previous
/// one is on disk.
fn fail_all<E: From<PathError>>(results: &mut [std::result::Result<(), E>], done: Result<()>) {
    if let Err(error) = done {
        for result in results.iter_mut().filter(|result| result.is_ok()) {
            *result = Err(error.clone().into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_handle::Tree;
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::thread;
    use std::thread::ThreadId;

    /// A store that records the steps, and fails at a given step of a given change.
    struct Noting {
        steps: RefCell<Vec<String>>,
        fails: (&'static str, &'static str),
        /// A path that is reported as changed in the first step.
        named: Option<PathHandle>,
    }

    impl Noting {
        fn note(&self, step: &'static str, name: &str) -> Result<Unsynced> {
            self.steps.borrow_mut().push(format!("{step} {name}"));
            if self.fails == (step, name) {
                return Err(PathError::missing(step, name));
            }
            let names = self.named.iter().filter(|_| step == "stage").cloned().collect();
            Ok(Unsynced { files: Vec::new(), names })
        }
    }

    impl Store for Noting {
        type Change = &'static str;
        type Error = PathError;

        fn reopen(&self) -> Result<Noting> {
            Err(PathError::missing("open", ""))
        }

        fn forget_directories(&self) {}

        fn begin(&self, _: &mut [&'static str]) -> Result<()> {
            self.note("begin", "all").map(drop)
        }

        fn stage(&self, name: &mut &'static str) -> Result<Unsynced> {
            self.note("stage", name)
        }

        fn keep(&self, name: &mut &'static str) -> Result<Unsynced> {
            self.note("keep", name)
        }

        fn replace(&self, name: &mut &'static str) -> Result<Unsynced> {
            self.note("replace", name)
        }

        fn record(&self, name: &mut &'static str) -> Result<Unsynced> {
            self.note("record", name)
        }

        fn abandon(&self, name: &mut &'static str, error: &PathError) {
            self.steps.borrow_mut().push(format!("abandon {name}: {error}"));
        }
    }

    fn steps(fails: (&'static str, &'static str), named: Option<PathHandle>) -> (Vec<String>, Vec<bool>) {
        let store = Noting { steps: RefCell::default(), fails, named };
        let results = commit(&store, &mut ["a", "b"]);
        (store.steps.into_inner(), results.iter().map(std::result::Result::is_ok).collect())
    }

    #[test]
    fn each_step_is_taken_with_all_before_the_next_one() {
        let expected =
            ["begin all", "stage a", "stage b", "keep a", "keep b", "replace a", "replace b", "record a", "record b"]
                .map(str::to_owned);
        assert_eq!(steps(("", ""), None), (expected.to_vec(), vec![true, true]));
    }

    #[test]
    fn without_changes_nothing_is_touched() {
        let store = Noting { steps: RefCell::default(), fails: ("", ""), named: None };
        assert!(commit(&store, &mut []).is_empty() && store.steps.borrow().is_empty());
    }

    #[test]
    fn a_change_that_fails_takes_no_further_step_and_the_others_do() {
        let (steps, results) = steps(("keep", "a"), None);
        let error = "abandon a: keep a: no such file or directory";
        let expected = ["begin all", "stage a", "stage b", "keep a", "keep b", "replace b", "record b", error];
        assert_eq!((steps, results), (expected.map(str::to_owned).to_vec(), vec![false, true]));
    }

    #[test]
    fn what_cannot_be_synced_fails_all() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("circle", folder.path().join("circle")).unwrap();
        let lost = Tree::open(folder.path()).unwrap().place(Path::new("circle/x"));
        let (steps, results) = steps(("", ""), Some(lost));
        assert_eq!(results, [false, false]);
        assert!(steps.iter().skip(1).all(|step| step.starts_with("stage") || step.starts_with("abandon")), "{steps:?}");
    }

    /// A store of numbers for several threads. Multiples of seven fail in step 2.
    struct Numbers {
        counted: Arc<AtomicUsize>,
        threads: Arc<Mutex<HashSet<ThreadId>>>,
    }

    impl Numbers {
        fn count(&self) {
            self.counted.fetch_add(1, Ordering::Relaxed);
            self.threads.lock().unwrap().insert(thread::current().id());
            // Gives other threads the opportunity to start.
            thread::yield_now();
        }
    }

    impl Store for Numbers {
        type Change = usize;
        type Error = PathError;

        fn reopen(&self) -> Result<Numbers> {
            Ok(Numbers { counted: Arc::clone(&self.counted), threads: Arc::clone(&self.threads) })
        }

        fn forget_directories(&self) {}

        fn stage(&self, _: &mut usize) -> Result<Unsynced> {
            self.count();
            Ok(Unsynced::default())
        }

        fn keep(&self, number: &mut usize) -> Result<Unsynced> {
            self.count();
            if number.is_multiple_of(7) {
                Err(PathError::missing("keep", number.to_string()))
            } else {
                Ok(Unsynced::default())
            }
        }

        fn replace(&self, number: &mut usize) -> Result<Unsynced> {
            // All changes have completed step 2.
            assert!(self.counted.load(Ordering::Relaxed) >= 2000);
            *number += 1_000_000;
            self.count();
            Ok(Unsynced::default())
        }

        fn record(&self, _: &mut usize) -> Result<Unsynced> {
            Ok(Unsynced::default())
        }

        fn abandon(&self, number: &mut usize, _: &PathError) {
            *number = 0;
        }

        fn take(&self, step: Step<Numbers>, changes: &mut [usize], results: &mut Results<Numbers>) -> Unsynced {
            take_concurrently(self, 4, step, changes, results)
        }
    }

    #[test]
    fn several_threads_take_each_step_with_all_before_the_next_one() {
        let store = Numbers { counted: Arc::default(), threads: Arc::default() };
        let mut changes: Vec<usize> = (1..=1000).collect();
        let results = commit(&store, &mut changes);
        for ((number, change), result) in (1..).zip(&changes).zip(&results) {
            let is_kept = number % 7 != 0;
            assert_eq!((*change, result.is_ok()), (if is_kept { number + 1_000_000 } else { 0 }, is_kept), "{number}");
        }
        assert_eq!(store.counted.load(Ordering::Relaxed), 2000 + 1000 - 1000 / 7);
        assert!(store.threads.lock().unwrap().len() > 1, "one thread alone was at work");
    }
}
