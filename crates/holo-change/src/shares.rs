//! Distributing work among threads.

use crate::error::Result;
use std::sync::{Mutex, PoisonError};
use std::{panic, thread};

/// The minimum number of consecutive items that a thread processes at a time.
pub(crate) const SHARE: usize = 64;

/// The number of shares per thread if the number of items is known.
const SHARES: usize = 4;

/// The number of threads per processor for operations that wait for the device: some devices free the blocks of only
/// one file per thread at a time.
const THREADS_THAT_WAIT: usize = 4;

/// Returns the number of threads for freeing files, if at most `threads` may be used for other work.
pub(crate) fn threads_that_free(threads: usize) -> usize {
    if threads > 1 { threads * THREADS_THAT_WAIT } else { 1 }
}

/// Returns the number of threads for freeing this number of files, if no limit is set.
pub(crate) fn threads_to_free(files: usize) -> usize {
    // Determining the number of processors takes several system calls.
    if files < 2 * SHARE { 1 } else { threads_that_free(thread::available_parallelism().map_or(1, usize::from)) }
}

/// Processes shares of items with at most this number of threads, and returns the results in no particular order. Paths
/// should be sorted, so that few directories are used by two threads.
///
/// Threads that share open directories would contend for them. Therefore each additional thread uses a context from
/// `reopen`. If that fails, the other threads do the work.
pub(crate) fn work_on<C: Send, S: Send, R: Send>(
    (things, threads): (usize, usize),
    shares: impl Iterator<Item = S> + Send,
    (own, reopen): (&C, impl Fn() -> Option<C>),
    work: impl Fn(&C, S) -> R + Sync,
) -> Vec<R> {
    let helpers = threads.min(things / SHARE).saturating_sub(1);
    let shares = Mutex::new(shares);
    let next = || shares.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work_on_shares = |context: &C| std::iter::from_fn(next).map(|share| work(context, share)).collect::<Vec<R>>();
    thread::scope(|scope| {
        let work_on_shares = &work_on_shares;
        let start = |context: C| thread::Builder::new().spawn_scoped(scope, move || work_on_shares(&context)).ok();
        let started: Vec<_> = (0..helpers).filter_map(|_| reopen().and_then(start)).collect();
        let mut results = work_on_shares(own);
        for thread in started {
            results.extend(thread.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)));
        }
        results
    })
}

/// Processes items with at most this number of threads, and returns the results in order. Each additional thread uses a
/// context from `reopen`.
pub fn in_shares<T: Sync, C: Send, R: Send>(
    all: &[T],
    threads: usize,
    own: &C,
    reopen: impl Fn() -> Result<C>,
    work: impl Fn(&T, &C) -> R + Sync,
) -> Vec<R> {
    let shares = all.chunks(share_size(all.len(), threads)).enumerate();
    in_order(work_on((all.len(), threads), shares, (own, || reopen().ok()), |with, (number, share)| {
        (number, share.iter().map(|one| work(one, with)).collect())
    }))
}

/// Like [`in_shares`], for items that are large enough to be distributed individually.
pub fn one_by_one<T: Sync, C: Send, R: Send>(
    all: &[T],
    threads: usize,
    own: &C,
    reopen: impl Fn() -> Result<C>,
    work: impl Fn(&T, &C) -> R + Sync,
) -> Vec<R> {
    let shares = all.iter().enumerate();
    in_order(work_on((all.len() * SHARE, threads), shares, (own, || reopen().ok()), |with, (number, one)| {
        (number, vec![work(one, with)])
    }))
}

/// Like [`in_shares`], for mutable items.
pub(crate) fn in_shares_mut<T: Send, C: Send, R: Send>(
    all: &mut [T],
    threads: usize,
    own: &C,
    reopen: impl Fn() -> Result<C>,
    work: impl Fn(&mut T, &C) -> R + Sync,
) -> Vec<R> {
    let count = all.len();
    let shares = all.chunks_mut(share_size(count, threads)).enumerate();
    in_order(work_on((count, threads), shares, (own, || reopen().ok()), |with, (number, share)| {
        (number, share.iter_mut().map(|one| work(one, with)).collect())
    }))
}

/// Returns a size such that each thread processes several shares, and faster threads process more.
fn share_size(count: usize, threads: usize) -> usize {
    count.div_ceil(threads.max(1) * SHARES).max(SHARE)
}

fn in_order<R>(mut shares: Vec<(usize, Vec<R>)>) -> Vec<R> {
    shares.sort_unstable_by_key(|(number, _)| *number);
    shares.into_iter().flat_map(|(_, results)| results).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::PathError;
    use std::collections::{BTreeSet, HashSet};
    use std::sync::Barrier;

    #[test]
    fn each_share_is_worked_on_once() {
        for (things, threads) in [(0, 4), (1, 4), (63, 4), (1000, 1), (1000, 4), (1000, 64)] {
            let numbers: Vec<usize> = (0..things).collect();
            let done =
                work_on((things, threads), numbers.chunks(SHARE), (&(), || Some(())), |(), share| share.to_vec());
            let all: Vec<usize> = done.into_iter().flatten().collect();
            assert_eq!(all.len(), things);
            assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), numbers.into_iter().collect());
        }
    }

    #[test]
    fn without_another_thread_one_does_all() {
        let numbers: Vec<usize> = (0..1000).collect();
        let caller = thread::current().id();
        let by = work_on((1000, 8), numbers.chunks(SHARE), (&(), || None), |(), _| thread::current().id());
        assert_eq!(by, vec![caller; 1000_usize.div_ceil(SHARE)]);
    }

    #[test]
    fn results_come_in_order_from_several_threads() {
        let numbers: Vec<usize> = (0..1000).collect();
        let (seen, all_at_work) = (Mutex::new(HashSet::new()), Barrier::new(4));
        let work = |number: &usize, (): &()| {
            if seen.lock().unwrap().insert(thread::current().id()) {
                all_at_work.wait();
            }
            number * 2
        };
        let results = in_shares(&numbers, 4, &(), || Ok(()), work);
        assert!(results.iter().zip(&numbers).all(|(result, number)| *result == number * 2), "{results:?}");
        assert_eq!((results.len(), seen.lock().unwrap().len()), (1000, 4));
    }

    #[test]
    fn results_are_the_same_without_other_threads() {
        let failing = || Err(PathError::missing("open", "x"));
        let mut numbers: Vec<usize> = (0..1000).collect();
        for threads in [0, 1, 4] {
            assert_eq!(in_shares(&numbers, threads, &(), failing, |number, ()| *number), numbers);
        }
        assert_eq!(in_shares_mut(&mut numbers, 4, &(), failing, |number, ()| std::mem::take(number)).len(), 1000);
        assert_eq!(numbers, vec![0; 1000]);
        assert!(in_shares(&[] as &[usize], 4, &(), failing, |number, ()| *number).is_empty());
    }
}
