//! Entities that somebody else changes as often as they are repaired.

use crate::report::Writer;
use bstr::{BStr, BString};
use holo_protocol::Limit;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// The time after which an entity that was left alone is repaired again.
const LEFT_ALONE: Duration = Duration::from_secs(60 * 60);

/// The repairs of each entity, and those that are left alone.
#[derive(Debug, Default)]
pub(super) struct Fights {
    repairs: HashMap<BString, VecDeque<Instant>>,
    left_alone: HashMap<BString, Instant>,
    /// The last process that is known to have written something of an entity.
    writers: HashMap<BString, Writer>,
}

/// An answer to whether an entity may be repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may be.
    Repair,
    /// It was repaired too often: this is the first time that it is not. It is left alone until then.
    Stop(Instant),
    /// It is left alone for now.
    LeftAlone,
}

impl Fights {
    /// Says if an entity may be repaired now.
    pub(super) fn judge(&mut self, id: &BStr, limit: Limit, now: Instant) -> Verdict {
        if self.is_left_alone(id, now) {
            return Verdict::LeftAlone;
        }
        self.left_alone.remove(id);
        let Some(repairs) = self.repairs.get_mut(id) else { return Verdict::Repair };
        repairs.retain(|&at| now.duration_since(at) < limit.within);
        let times = usize::try_from(limit.times).unwrap_or(usize::MAX);
        let Some(&first) = repairs.len().checked_sub(times).and_then(|index| repairs.get(index)) else {
            return Verdict::Repair;
        };
        let until = (now + LEFT_ALONE).max(first + limit.within);
        self.left_alone.insert(id.to_owned(), until);
        Verdict::Stop(until)
    }

    /// Returns true if an entity was repaired too often, and is not to be for now.
    pub(super) fn is_left_alone(&self, id: &BStr, now: Instant) -> bool {
        self.left_alone.get(id).is_some_and(|&until| now < until)
    }

    /// Notes that an entity was repaired.
    pub(super) fn repaired(&mut self, id: &BStr, now: Instant) {
        self.repairs.entry(id.to_owned()).or_default().push_back(now);
    }

    /// Notes the process that has written something of an entity.
    pub(super) fn written(&mut self, id: &BStr, writer: &Writer) {
        self.writers.insert(id.to_owned(), writer.clone());
    }

    /// Returns the last process that is known to have written something of an entity.
    pub(super) fn writer(&self, id: &BStr) -> Option<&Writer> {
        self.writers.get(id)
    }

    /// Returns the time at which the first of those that are left alone is to be looked at again.
    pub(super) fn next(&self) -> Option<Instant> {
        self.left_alone.values().min().copied()
    }

    /// Returns those that need not be left alone any longer.
    pub(super) fn release(&mut self, now: Instant) -> Vec<BString> {
        let due = self.left_alone.iter().filter(|&(_, &until)| until <= now);
        let due: Vec<BString> = due.map(|(id, _)| id.clone()).collect();
        self.left_alone.retain(|_, until| *until > now);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { times: 3, within: Duration::from_secs(600) };

    #[test]
    fn an_entity_that_was_repaired_often_is_left_alone_for_an_hour() {
        let id = BStr::new("file:/x");
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut fights = Fights::default();
        for second in [0, 10, 20] {
            assert_eq!(fights.judge(id, LIMIT, at(second)), Verdict::Repair);
            fights.repaired(id, at(second));
        }
        assert_eq!(fights.next(), None);
        assert_eq!(fights.judge(id, LIMIT, at(30)), Verdict::Stop(at(3630)));
        assert_eq!(fights.judge(id, LIMIT, at(3000)), Verdict::LeftAlone);
        assert_eq!(fights.judge("file:/y".into(), LIMIT, at(30)), Verdict::Repair);
        assert_eq!(fights.next(), Some(at(3630)));
        assert_eq!(fights.release(at(3630)), [id]);
        assert_eq!(fights.next(), None);
        assert_eq!(fights.judge(id, LIMIT, at(3630)), Verdict::Repair);
    }

    #[test]
    fn repairs_of_long_ago_do_not_count() {
        let id = BStr::new("file:/x");
        let begin = Instant::now();
        let mut fights = Fights::default();
        for minutes in (0..100).step_by(6) {
            let now = begin + Duration::from_secs(minutes * 60);
            assert_eq!(fights.judge(id, LIMIT, now), Verdict::Repair, "after {minutes} min");
            fights.repaired(id, now);
        }
    }

    #[test]
    fn a_long_limit_holds_longer_than_the_hour() {
        let id = BStr::new("file:/x");
        let begin = Instant::now();
        let at = |hours: u64| begin + Duration::from_secs(hours * 3600);
        let limit = Limit { times: 2, within: Duration::from_secs(24 * 3600) };
        let mut fights = Fights::default();
        for hour in [0, 2, 5] {
            fights.repaired(id, at(hour));
        }
        // Two of the three count: the third was made by a person's apply.
        assert_eq!(fights.judge(id, limit, at(6)), Verdict::Stop(at(26)));
        assert_eq!(fights.release(at(25)), [""; 0]);
        assert_eq!(fights.judge(id, limit, at(26)), Verdict::Repair);
    }
}
