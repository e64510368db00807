//! Progress reports at a limited rate.

use crate::Output;
use holo_protocol::Progress;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(200);

/// Counts progress, and reports it periodically.
#[derive(Clone, Debug)]
pub struct Meter {
    what: String,
    total: Option<u64>,
    done: u64,
    said: Instant,
}

impl Meter {
    /// Creates a meter for a total number of bytes, if known. `what` is a fragment such as `downloading`.
    #[must_use]
    pub fn of_bytes(what: impl Into<String>, total: Option<u64>) -> Meter {
        Meter { what: what.into(), total, done: 0, said: Instant::now() }
    }

    /// Sets the number of bytes that have been processed.
    pub fn reached(&mut self, done: u64, output: &mut Output<'_>) {
        self.done = done;
        if self.is_due() {
            self.said = Instant::now();
            let done_of = self.total.filter(|total| *total > 0).map(|total| (done, total));
            output.progress(&Progress { done_of, text: &self.text() });
        }
    }

    /// Returns true if a report is due, for callers for which determining the progress is expensive.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.said.elapsed() >= EVERY
    }

    /// Adds to the number of bytes that have been processed.
    pub fn advance(&mut self, by: u64, output: &mut Output<'_>) {
        self.reached(self.done.saturating_add(by), output);
    }

    fn text(&self) -> String {
        match self.total {
            Some(total) => format!("{}, {} of {}", self.what, amount(self.done), amount(total)),
            None => format!("{}, {}", self.what, amount(self.done)),
        }
    }
}

/// Formats a number of bytes with a unit, in powers of 1000.
fn amount(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")];
    match units.iter().find(|(size, _)| bytes >= *size) {
        Some((size, unit)) => format!("{}.{} {unit}", bytes / size, bytes % size * 10 / size),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_done_of_what() {
        let mut meter = Meter::of_bytes("downloading", Some(2_000_000));
        assert_eq!(meter.text(), "downloading, 0 B of 2.0 MB");
        meter.done = 1_999_999;
        assert_eq!(meter.text(), "downloading, 1.9 MB of 2.0 MB");
        meter.total = None;
        meter.done = 12_345;
        assert_eq!(meter.text(), "downloading, 12.3 kB");
        meter.done = u64::MAX;
        assert_eq!(meter.text(), "downloading, 18446744073.7 GB");
    }
}
