//! Applies of critical entities: their rate limit, and those that are due.

use crate::journal::{Level, say};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// The maximum number of applies of an entity within `WITHIN`.
const TIMES: usize = 3;
/// The period in which applies are counted.
const WITHIN: Duration = Duration::from_secs(10 * 60);
/// The time for which an entity is not applied after it reached the limit.
const PAUSE: Duration = Duration::from_secs(60 * 60);

/// The due and past applies.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    due: BTreeSet<String>,
    tried: BTreeMap<String, Tried>,
}

/// The past applies of an entity.
#[derive(Debug, Default)]
struct Tried {
    at: Vec<Instant>,
    left_until: Option<Instant>,
}

impl Repairs {
    /// Schedules an apply of a critical entity, and of those that it requires, unless the limit is reached. An agent
    /// that ends after one round applies an entity only once.
    pub(super) fn want(&mut self, entity: &str, requires: &BTreeSet<String>, is_once: bool, now: Instant) {
        let tried = self.tried.entry(entity.to_owned()).or_default();
        if tried.left_until.is_some_and(|until| until > now) || (is_once && !tried.at.is_empty()) {
            return;
        }
        tried.left_until = None;
        tried.at.retain(|at| now.duration_since(*at) < WITHIN);
        if tried.at.len() >= TIMES {
            let text =
                format!("is critical although it was applied {TIMES} times in {} minutes", WITHIN.as_secs() / 60);
            say(Level::Error, format_args!("{entity} {text}; it is left alone for an hour"));
            tried.left_until = Some(now + PAUSE);
            return;
        }
        tried.at.push(now);
        self.due.insert(entity.to_owned());
        self.due.extend(requires.iter().cloned());
    }

    /// Resets the limit of an entity that is no longer critical.
    pub(super) fn forget(&mut self, entity: &str) {
        self.tried.remove(entity);
    }

    /// Returns true if applies are due.
    pub(super) fn are_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes the entities to apply.
    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.due).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_that_stays_critical_is_left_alone_for_an_hour() {
        let begun = Instant::now();
        let (mut repairs, requires) = (Repairs::default(), BTreeSet::from(["package:x".to_owned()]));
        let mut applied = Vec::new();
        for minute in 0..200 {
            repairs.want("service:x", &requires, false, begun + Duration::from_secs(60 * minute));
            if repairs.are_due() {
                assert_eq!(repairs.take(), ["package:x", "service:x"]);
                applied.push(minute);
            }
        }
        assert_eq!(applied, [0, 1, 2, 63, 64, 65, 126, 127, 128, 189, 190, 191]);
        // The limit is reset when an entity has been healthy in between.
        repairs.forget("service:x");
        repairs.want("service:x", &requires, false, begun + Duration::from_secs(60 * 200));
        assert!(repairs.are_due());
    }
}
