//! Storms: events of a kind that occur for so many entities at once that only their number is recorded.

use crate::event::{Storm, What};
use jiff::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// The number of events of a kind within `WITHIN` that are reported one by one.
const SINGLE: usize = 20;
const WITHIN: Duration = Duration::from_secs(10);
/// The time without a further event after which a storm is over.
const QUIET: Duration = Duration::from_secs(2);
/// The time after which a storm is recorded, even if it continues.
const LONGEST: Duration = Duration::from_secs(30);
/// The number of entities named.
const SAMPLE: usize = 10;

/// The recent events by kind.
#[derive(Debug, Default)]
pub(super) struct Storms(BTreeMap<&'static str, Recent>);

#[derive(Debug, Default)]
struct Recent {
    /// The times of those that were reported one by one.
    single: VecDeque<Instant>,
    storm: Option<Brewing>,
}

/// A storm that is not over.
#[derive(Debug)]
struct Brewing {
    storm: Storm,
    began: Instant,
    last: Instant,
}

impl Brewing {
    fn over(&self) -> Instant {
        (self.last + QUIET).min(self.began + LONGEST)
    }
}

impl Storms {
    /// Takes an event. Returns it if it is to be reported by itself.
    pub(super) fn take(&mut self, what: What, time: Timestamp, now: Instant) -> Option<What> {
        let Some((kind, entity)) = what.of_entity() else { return Some(what) };
        let Recent { single, storm } = self.0.entry(kind).or_default();
        single.retain(|at| now.duration_since(*at) < WITHIN);
        if storm.is_none() && single.len() < SINGLE {
            single.push_back(now);
            return Some(what);
        }
        let Brewing { storm, last, .. } = storm.get_or_insert_with(|| Brewing {
            storm: Storm { of: kind.to_owned(), count: 0, sample: Vec::new(), began: time, ended: time },
            began: now,
            last: now,
        });
        storm.count += 1;
        (storm.ended, *last) = (time, now);
        // What is fought over has many of them.
        if storm.sample.len() < SAMPLE && !storm.sample.iter().any(|other| other == entity) {
            storm.sample.push(entity.to_owned());
        }
        None
    }

    /// Returns the storms that are over; all of them if `is_end`.
    pub(super) fn over(&mut self, now: Instant, is_end: bool) -> Vec<What> {
        let is_over = |brewing: &mut Brewing| is_end || brewing.over() <= now;
        let over = self.0.values_mut().filter_map(|recent| recent.storm.take_if(is_over));
        over.map(|brewing| What::Storm(brewing.storm)).collect()
    }

    /// Returns the storms that are not over.
    pub(super) fn brewing(&self) -> impl Iterator<Item = &Storm> {
        self.0.values().filter_map(|recent| recent.storm.as_ref()).map(|brewing| &brewing.storm)
    }

    /// Returns the time at which a storm may be over.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.values().filter_map(|recent| recent.storm.as_ref()).map(Brewing::over).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_names_each_entity_once() {
        let (now, time) = (Instant::now(), Timestamp::from_second(1_800_000_000).unwrap());
        let mut storms = Storms::default();
        for number in 0..40 {
            let entity = format!("file:/{}", number % 2);
            storms.take(What::Drifted { entity, reason: None, writer: None }, time, now);
        }
        let over = storms.over(now, true);
        let [What::Storm(Storm { count: 20, sample, .. })] = &over[..] else { panic!("{over:?}") };
        assert_eq!(sample, &["file:/0", "file:/1"]);
    }

    #[test]
    fn storm_ends_after_a_quiet_time_or_at_the_latest_after_half_a_minute() {
        let (begun, time) = (Instant::now(), Timestamp::from_second(1_800_000_000).unwrap());
        let mut storms = Storms::default();
        let drift = |storms: &mut Storms, milliseconds: u64| {
            let passed = Duration::from_millis(milliseconds);
            let what = What::Drifted { entity: format!("file:/{milliseconds}"), reason: None, writer: None };
            storms.take(what, time + passed, begun + passed)
        };
        assert!((0..20).all(|number| drift(&mut storms, number).is_some()) && storms.next().is_none());
        assert!((20..100).all(|number| drift(&mut storms, number).is_none()));
        assert_eq!(storms.next(), Some(begun + Duration::from_millis(2099)));
        assert_eq!(storms.over(begun + Duration::from_millis(2098), false), []);
        let over = storms.over(begun + Duration::from_millis(2099), false);
        let [What::Storm(Storm { of, count: 80, sample, began, ended })] = &over[..] else { panic!("{over:?}") };
        assert_eq!((of.as_str(), sample.len(), sample[0].as_str()), ("drifted", 10, "file:/20"));
        assert_eq!((*began, *ended), (time + Duration::from_millis(20), time + Duration::from_millis(99)));
        // Afterwards, events are reported one by one again.
        assert!(drift(&mut storms, 60_000).is_some());
        (1..20).for_each(|number| drop(drift(&mut storms, 60_000 + number)));
        (0..35).for_each(|second| drop(drift(&mut storms, 60_100 + 1000 * second)));
        assert_eq!(storms.next(), Some(begun + Duration::from_millis(90_100)));
        assert_eq!(storms.over(begun, true).len(), 1);
    }
}
