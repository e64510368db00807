//! Merging of common keys from several tables.

use super::Rule;
use super::receipts::Receipts;
use std::fmt::Debug;

/// A key with two different values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The key.
    pub key: &'static str,
    /// The value that is kept.
    pub own: String,
    /// The other value.
    pub other: String,
}

/// A value that can be merged with that of another table.
pub(super) trait Merge {
    /// Merges the value of another table according to a rule. Returns both values if they contradict each other.
    fn merge(&mut self, other: &Self, rule: Rule) -> Option<(String, String)>;
}

impl<T: Clone + PartialEq> Merge for Vec<T> {
    fn merge(&mut self, other: &Vec<T>, _: Rule) -> Option<(String, String)> {
        for item in other {
            if !self.contains(item) {
                self.push(item.clone());
            }
        }
        None
    }
}

impl<T: Clone + PartialEq + Debug> Merge for Option<T> {
    fn merge(&mut self, other: &Option<T>, rule: Rule) -> Option<(String, String)> {
        match (&self, other) {
            _ if rule == Rule::Own => {}
            (None, other) => self.clone_from(other),
            (Some(own), Some(other)) if own != other => return Some((format!("{own:?}"), format!("{other:?}"))),
            _ => {}
        }
        None
    }
}

impl Merge for Receipts {
    fn merge(&mut self, other: &Receipts, _: Rule) -> Option<(String, String)> {
        self.unite(other)
    }
}

impl Merge for u32 {
    /// The value 0 means unset.
    fn merge(&mut self, other: &u32, rule: Rule) -> Option<(String, String)> {
        let said = |number: u32| (number > 0).then_some(number);
        let mut own = said(*self);
        let contradiction = own.merge(&said(*other), rule);
        *self = own.unwrap_or_default();
        contradiction
    }
}

impl Merge for bool {
    /// The value false means unset.
    fn merge(&mut self, other: &bool, _: Rule) -> Option<(String, String)> {
        *self |= other;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::CommonKeys;
    use toml::de::DeTable;

    fn read(text: &str) -> CommonKeys {
        CommonKeys::read(DeTable::parse(text).unwrap().into_inner()).unwrap()
    }

    #[test]
    fn keys_from_several_places_are_united() {
        let mut keys = read("after = ['a', 'b']\nretries = 2\nhealth_check = [{ command = 'x' }]\n");
        let other = "after = ['c', 'a']\nretries = 2\nretry_delay = '5s'\nhealth_check = [{ command = ['x'] }, { command = 'y' }]\n";
        assert_eq!(keys.unite(&read(other)), []);
        assert_eq!(keys.after, ["a", "b", "c"]);
        assert_eq!((keys.retries, keys.health_check.len(), keys.delay(1).as_secs()), (2, 2, 5));
        let contradictions = keys.unite(&read("retries = 3\nretry_delay = 7\ntimeout = 9\n"));
        let both = |key, own: &str, other: &str| Contradiction { key, own: own.to_owned(), other: other.to_owned() };
        assert_eq!(contradictions, [both("retries", "2", "3"), both("retry_delay", "5s", "7s")]);
        assert_eq!((keys.retries, keys.timeout.map(|time| time.as_secs())), (2, Some(9)));
    }

    #[test]
    fn what_says_when_to_work_is_united_too() {
        let mut keys = read("limit = '3/10m'\npoll = '1m'\n");
        let other = "noop = true\nretry_backoff = true\nlimit = '5/1h'\nschedule = { hours = '2-5' }\n";
        let contradiction = Contradiction { key: "limit", own: "3/10m".to_owned(), other: "5/1h".to_owned() };
        assert_eq!(keys.unite(&read(other)), [contradiction]);
        assert!(keys.noop && keys.retry_backoff && keys.schedule.is_some());
        assert_eq!(keys.unite(&read("noop = false\nschedule = { hours = '2-6' }\n"))[0].other, "hours=2-6");
    }

    #[test]
    fn delays_grow_by_half_if_that_is_wanted() {
        let keys = read("retry_delay = '4s'\nretry_backoff = true\n");
        assert_eq!([1, 2, 3].map(|attempt| keys.delay(attempt).as_secs()), [4, 6, 9]);
        assert!(keys.delay(u32::MAX) > keys.delay(90));
        assert_eq!(read("retry_delay = 4\n").delay(7).as_secs(), 4);
        assert!(read("retry_delay = 0\nretry_backoff = true\n").delay(u32::MAX).is_zero());
    }

    #[test]
    fn values_that_say_when_to_work_are_checked() {
        for (text, says) in [
            ("noop = 'yes'\n", "noop: expected true or false"),
            ("retry_backoff = 2\n", "retry_backoff: expected true or false"),
            ("poll = '1'\n", "poll: a duration needs a unit"),
            ("poll = 0\n", "poll: that is too short: a second is the least"),
            ("poll = true\n", "poll: expected a duration such as \"90s\" or a number of seconds, found true"),
            ("limit = 3\n", "limit: expected a string, found 3; write it in quotes: \"3\""),
            ("limit = '3'\n", "limit: expected a number, a slash and a duration, as in \"3/10m\""),
            (
                "semaphore = 'db'\n",
                "semaphore: expected a name, a colon and a number of entities, at least 1, as in \"db:2\"",
            ),
            ("schedule = '2-5'\n", "schedule: expected a table"),
            ("schedule = {}\n", "schedule: needs hours, days or both, as in { hours = \"2-5\", days = \"mon-fri\" }"),
            ("schedule = { hours = '5' }\n", "schedule.hours: expected ranges of hours, as in"),
            ("schedule = { days = 'weekdays' }\n", "schedule.days: expected days of the week, as in"),
            ("schedule = { hour = '2-5' }\n", "schedule.hour: unknown key, did you mean hours?"),
        ] {
            let error = CommonKeys::read(DeTable::parse(text).unwrap().into_inner()).unwrap_err();
            assert!(error.to_string().starts_with(says), "{text}{error}");
            assert!(error.span().is_some());
        }
    }

    #[test]
    fn invalid_values_are_named() {
        let wrong = |text| CommonKeys::read(DeTable::parse(text).unwrap().into_inner()).unwrap_err();
        let error = wrong("after = ['a']\nretries = 'x'\n");
        assert!(error.to_string().starts_with("retries: expected a whole number"), "{error}");
        assert_eq!(error.span(), Some(24..27));
        assert!(wrong("name = 'x'\n").to_string().starts_with("name: unknown key"));
        assert!(CommonKeys::include("unless") && !CommonKeys::include("name"));
    }
}
