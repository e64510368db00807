//! All results of a run of the benchmark.

use crate::common::median;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The cost of a run of a program, including the child processes that it waited for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    /// The elapsed time, in seconds.
    pub(crate) wall: f64,
    /// The CPU time of user and kernel, in seconds.
    pub(crate) cpu: f64,
    /// The CPU time of all processes of the machine, in seconds.
    pub(crate) busy: f64,
    /// The resident set size of its largest process, in kilobytes.
    pub(crate) memory: i64,
    /// The amount of data and metadata written to disk, in KiB.
    pub(crate) written: i64,
}

/// The number of system calls of a run, by name.
pub(crate) type Calls = BTreeMap<String, u64>;

/// The system calls of a run and, if known, the number of inodes that it created.
type Counts = (Calls, Option<usize>);

/// The results: measurements by number of entities and of cores, and counts by number of entities.
#[derive(Default)]
pub(crate) struct Results {
    times: BTreeMap<Key, BTreeMap<(usize, usize), Vec<Measurement>>>,
    counts: BTreeMap<Key, (usize, Counts)>,
}

/// The names of a table and of a step.
type Key = (&'static str, &'static str);

impl Results {
    pub(crate) fn add(&mut self, table: &'static str, step: &'static str, case: (usize, usize), measured: Measurement) {
        self.times.entry((table, step)).or_default().entry(case).or_default().push(measured);
    }

    pub(crate) fn add_counts(&mut self, table: &'static str, step: &'static str, size: usize, counts: Counts) {
        self.counts.insert((table, step), (size, counts));
    }

    /// Returns the numbers of entities and of cores in a table, in ascending order.
    pub(crate) fn cases(&self, table: &str) -> Vec<(usize, usize)> {
        let of_table = self.times.iter().filter(|((of, _), _)| *of == table);
        let mut cases: Vec<_> = of_table.flat_map(|(_, cases)| cases.keys().copied()).collect();
        cases.sort_unstable();
        cases.dedup();
        cases
    }

    /// Returns all measurements of a table, in groups of the same step and case.
    pub(crate) fn all(&self, table: &str) -> impl Iterator<Item = &Vec<Measurement>> {
        let of_table = self.times.iter().filter(move |((of, _), _)| *of == table);
        of_table.flat_map(|(_, cases)| cases.values())
    }

    /// Returns the median of a measurement.
    pub(crate) fn median(&self, key: Key, case: (usize, usize), what: fn(&Measurement) -> f64) -> Option<f64> {
        median(self.times.get(&key)?.get(&case)?.iter().map(what).collect())
    }

    /// Returns the medians of the elapsed and of the CPU time.
    pub(crate) fn time(&self, key: Key, case: (usize, usize)) -> Option<(f64, f64)> {
        Some((self.median(key, case, |measured| measured.wall)?, self.median(key, case, |measured| measured.cpu)?))
    }

    /// Returns the number of entities for which calls were counted, and the counts.
    pub(crate) fn counts(&self, key: Key) -> Option<&(usize, Counts)> {
        self.counts.get(&key)
    }
}

/// Formats a number in groups of three digits.
pub(crate) fn thousands(number: usize) -> String {
    if number < 1000 {
        return number.to_string();
    }
    format!("{},{:03}", thousands(number / 1000), number % 1000)
}
