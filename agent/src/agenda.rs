//! The times at which work is due, computed only from the configuration and the current time.

use jiff::Timestamp;
use std::time::Duration;

/// The delay before the first retry; it doubles with each further failure.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The maximum delay before a retry.
const LAST_RETRY: Duration = Duration::from_secs(5 * 60);

/// The offset within each interval at which a machine starts its runs.
///
/// It is derived from the machine ID, so that it is the same after each start, and the runs of a fleet are spread over
/// the interval.
#[derive(Clone, Copy, Debug)]
pub struct Rhythm {
    hash: u64,
}

impl Rhythm {
    /// Returns the offset of the machine with this ID.
    #[must_use]
    pub fn new(machine_id: &str) -> Rhythm {
        // FNV-1a: independent of the compiler, and sufficiently uniform for this purpose.
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Rhythm { hash: machine_id.trim().bytes().fold(0xcbf2_9ce4_8422_2325, step) }
    }

    /// Returns the time from now until the next run, given the start of the last one: at most one and a half intervals.
    #[must_use]
    pub fn until_next(self, now: Timestamp, last: Option<Timestamp>, interval: Duration) -> Duration {
        let length = interval.as_nanos().max(1);
        let moment = u128::from(self.hash) % length;
        let passed = now.as_nanosecond().rem_euclid(length.cast_signed()).cast_unsigned();
        let wait = length - (passed + length - moment) % length;
        // Avoids two runs in quick succession if the clock is slightly off or was set back.
        let since = last.map(|last| now.duration_since(last).unsigned_abs());
        let is_too_soon = since.is_some_and(|since| since < interval / 2) && wait < length / 2;
        let wait = if is_too_soon { wait + length } else { wait };
        Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// Returns the time until the first run after a start: zero if the last successful one is too long ago.
    #[must_use]
    pub fn until_first(self, now: Timestamp, last: Option<Timestamp>, interval: Duration) -> Duration {
        let is_recent = |last: Timestamp| last <= now && now.duration_since(last).unsigned_abs() < interval;
        if last.is_some_and(is_recent) { self.until_next(now, last, interval) } else { Duration::ZERO }
    }
}

/// Returns the delay after this number of consecutive failures.
#[must_use]
pub fn retry_after(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(2u32.saturating_pow(failures.saturating_sub(1))).min(LAST_RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holo_testing::random::cases;

    fn time(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn runs_come_once_an_interval_at_the_moment_of_the_machine() {
        cases(500, |random| {
            let rhythm = Rhythm::new(&random.below(1 << 40).to_string());
            let interval = Duration::from_secs(1 + u64::try_from(random.below(100_000)).unwrap());
            let mut now = time(i64::try_from(random.below(1 << 30)).unwrap());
            let mut runs = Vec::new();
            for _ in 0..5 {
                let wait = rhythm.until_next(now, runs.last().copied(), interval);
                assert!(wait > Duration::ZERO && wait <= interval + interval / 2, "{wait:?} of {interval:?}");
                now += wait;
                runs.push(now);
            }
            for pair in runs.windows(2) {
                assert_eq!(pair[1].duration_since(pair[0]).unsigned_abs(), interval);
            }
        });
    }

    #[test]
    fn a_clock_that_is_a_little_off_has_nothing_run_twice() {
        let (rhythm, interval) = (Rhythm::new("x"), Duration::from_secs(600));
        let due = time(0) + rhythm.until_next(time(0), None, interval);
        let early = due - Duration::from_millis(3);
        let next = rhythm.until_next(early, Some(early), interval);
        assert_eq!(next, interval + Duration::from_millis(3));
    }

    #[test]
    fn machines_are_spread_over_the_interval() {
        let interval = Duration::from_secs(1800);
        let mut buckets = [0; 6];
        for machine in 0..600 {
            let wait = Rhythm::new(&format!("{machine:032x}")).until_next(time(0), None, interval);
            buckets[usize::try_from((wait.as_secs() / 300).min(5)).unwrap()] += 1;
        }
        assert!(buckets.iter().all(|&number| (50..=150).contains(&number)), "{buckets:?}");
        // It is the same after each start.
        assert_eq!(
            Rhythm::new("abc\n").until_next(time(0), None, interval),
            Rhythm::new("abc").until_next(time(0), None, interval)
        );
    }

    #[test]
    fn the_first_run_is_at_once_unless_there_was_one() {
        let (rhythm, interval) = (Rhythm::new("x"), Duration::from_secs(600));
        assert_eq!(rhythm.until_first(time(1000), None, interval), Duration::ZERO);
        assert_eq!(rhythm.until_first(time(1000), Some(time(400)), interval), Duration::ZERO);
        assert!(rhythm.until_first(time(1000), Some(time(401)), interval) > Duration::ZERO);
        // A last run in the future is ignored: the clock was set back.
        assert_eq!(rhythm.until_first(time(1000), Some(time(1001)), interval), Duration::ZERO);
    }

    #[test]
    fn retries_come_slower_and_slower() {
        let times: Vec<u64> = [1, 2, 3, 9, 10, 11, 40].map(|failures| retry_after(failures).as_secs()).into();
        assert_eq!(times, [1, 2, 4, 256, 300, 300, 300]);
    }
}
