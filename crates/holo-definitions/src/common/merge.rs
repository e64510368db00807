//! Common keys from several places.

use super::Rule;
use std::fmt::Debug;

/// A key that has two values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The key.
    pub key: &'static str,
    /// The value that stays.
    pub own: String,
    /// The other value.
    pub other: String,
}

/// The value of a key, which another place may have too.
pub(super) trait Merge {
    /// Merges the value of another place by a rule; two values that contradict are returned.
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

impl Merge for u32 {
    /// Nothing is said by 0.
    fn merge(&mut self, other: &u32, rule: Rule) -> Option<(String, String)> {
        let said = |number: u32| (number > 0).then_some(number);
        let mut own = said(*self);
        let contradiction = own.merge(&said(*other), rule);
        *self = own.unwrap_or_default();
        contradiction
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
        assert_eq!((keys.retries, keys.health_check.len(), keys.delay().as_secs()), (2, 2, 5));
        let contradictions = keys.unite(&read("retries = 3\nretry_delay = 7\ntimeout = 9\n"));
        let both = |key, own: &str, other: &str| Contradiction { key, own: own.to_owned(), other: other.to_owned() };
        assert_eq!(contradictions, [both("retries", "2", "3"), both("retry_delay", "5s", "7s")]);
        assert_eq!((keys.retries, keys.timeout.map(|time| time.as_secs())), (2, Some(9)));
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
