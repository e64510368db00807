//! Reproducible random tests: a generator with a seed, and a loop over many cases.

use crate::files::fail;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{env, thread};

/// The variable with the number of cases for every property test.
pub const CASES: &str = "HOLO_TEST_CASES";
/// The variable with a seed: every property test runs only the case with this seed.
pub const SEED: &str = "HOLO_TEST_SEED";

/// A generator of pseudo-random numbers (`SplitMix64`). The same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Returns a generator with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number less than `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        usize::try_from(self.number() % bound).unwrap_or_default()
    }

    /// Returns `true` with this probability in percent.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the choices.
    ///
    /// # Panics
    /// If there are none.
    #[track_caller]
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        choices.get(self.below(choices.len())).unwrap_or_else(|| fail("there is nothing to pick from"))
    }

    /// Shuffles the elements.
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        for end in (1..elements.len()).rev() {
            elements.swap(end, self.below(end + 1));
        }
    }
}

/// Runs a case with many seeds on several threads: as many as [`CASES`] sets, otherwise `usual`, or only that of
/// [`SEED`].
///
/// # Panics
/// If a case panics, with its seed. Cases that are already running are finished, but no further ones are started.
#[track_caller]
pub fn cases(usual: u64, case: impl Fn(&mut Random) + Sync) {
    run(CASES, usual, 1, case);
}

/// The same for a test of its own: its variable sets the number of cases.
///
/// # Panics
/// If a case panics, with its seed.
#[track_caller]
pub fn cases_of(variable: &str, usual: u64, case: impl Fn(&mut Random) + Sync) {
    run(variable, usual, 1, case);
}

/// Like [`cases`], for cases that mostly wait: on eight times as many threads.
///
/// # Panics
/// Like [`cases`].
#[track_caller]
pub fn cases_that_wait(usual: u64, case: impl Fn(&mut Random) + Sync) {
    run(CASES, usual, 8, case);
}

#[track_caller]
#[expect(clippy::panic, reason = "a test fails so")]
fn run(variable: &str, usual: u64, threads_per_core: usize, case: impl Fn(&mut Random) + Sync) {
    if let Some(seed) = given(SEED) {
        case(&mut Random::new(seed));
        return;
    }
    let count = given(variable).unwrap_or(usual);
    let (next, has_failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let failures = Mutex::new(Vec::new());
    let work = || {
        while !has_failed.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                break;
            }
            if let Err(panicked) = catch_unwind(AssertUnwindSafe(|| case(&mut Random::new(seed)))) {
                has_failed.store(true, Ordering::Relaxed);
                if let Ok(mut failures) = failures.lock() {
                    failures.push((seed, text(&*panicked)));
                }
            }
        }
    };
    thread::scope(|scope| {
        let threads = threads_per_core * thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let failures = failures.into_inner().unwrap_or_default();
    if let Some((seed, text)) = failures.into_iter().min() {
        panic!("the case with seed {seed} failed; {SEED}={seed} runs it alone\n{text}");
    }
}

/// Returns true unless [`CASES`] or [`SEED`] limits property tests to a few cases. Assertions about how often something
/// occurs hold only for many.
#[must_use]
pub fn are_many() -> bool {
    given(SEED).is_none() && given(CASES).is_none_or(|count| count >= 100)
}

/// Returns the number that a variable is set to, if it is.
///
/// # Panics
/// If its value is not a number.
#[must_use]
#[track_caller]
#[expect(clippy::panic, reason = "whoever runs tests wants to know")]
pub fn given(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok().filter(|value| !value.is_empty())?;
    match value.parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{variable}={value} is not a number"),
    }
}

fn text(panicked: &(dyn Any + Send)) -> String {
    let text = panicked.downcast_ref::<String>().cloned();
    text.or_else(|| panicked.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [random.number(), random.number(), random.number()]
        };
        // Test vectors of the algorithm's authors.
        assert_eq!(
            numbers(1_234_567),
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
        assert_ne!(numbers(1), numbers(2));
    }

    #[test]
    fn choices_are_among_those_given() {
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| random.below(7) < 7));
        assert_eq!((random.below(0), random.below(1)), (0, 0));
        assert!((0..100).all(|_| !random.chance(0) && random.chance(100)));
        let seen: std::collections::BTreeSet<_> = (0..100).map(|_| *random.pick(&["a", "b", "c"])).collect();
        assert_eq!(seen.len(), 3);
        let mut elements: Vec<usize> = (0..20).collect();
        random.shuffle(&mut elements);
        assert!(!elements.is_sorted());
        elements.sort_unstable();
        assert!(elements.into_iter().eq(0..20));
    }

    #[test]
    fn a_case_that_fails_is_named_by_its_seed() {
        if env::var_os(SEED).is_some() || env::var_os(CASES).is_some() {
            return;
        }
        let run = AtomicU64::new(0);
        cases(10, |_| {
            run.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(run.into_inner(), 10);
        let first = Random::new(5).number();
        let failed = catch_unwind(|| cases(10, |random| assert!(random.number() != first, "this is the one")));
        let text = text(&*failed.unwrap_err());
        assert!(text.contains("seed 5 failed; HOLO_TEST_SEED=5 runs it alone\nthis is the one"), "{text}");
    }
}
