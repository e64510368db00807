//! Common keys for plugins whose definitions have a format of their own.

use super::CommonKeys;
use super::keys::NAMES;
use crate::Host;
use crate::templates::Templates;
use holo_facts::reading::{self, ValueError};
use std::fmt::Debug;
use toml::Spanned;
use toml::de::DeTable;

impl CommonKeys {
    /// Returns the keys that every definition can have.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.into_iter()
    }

    /// Returns true if every definition can have this key.
    #[must_use]
    pub fn include(key: &str) -> bool {
        NAMES.contains(&key)
    }

    /// Reads a table that holds nothing else.
    ///
    /// # Errors
    /// The mistake in a value.
    pub fn read(table: DeTable<'_>) -> Result<CommonKeys, ValueError> {
        reading::read(&Spanned::new(0..0, table))
    }

    /// Adds what another place says of the same entity, but for conditions and the provider: lists are united, and what was open is taken
    /// from there. What contradicts is returned, as the key and both values, and stays as it was.
    pub fn unite(&mut self, other: &CommonKeys) -> Vec<(&'static str, String, String)> {
        unite(&mut self.after, &other.after);
        unite(&mut self.before, &other.before);
        unite(&mut self.requires, &other.requires);
        unite(&mut self.subscribes, &other.subscribes);
        unite(&mut self.notifies, &other.notifies);
        unite(&mut self.written, &other.written);
        unite(&mut self.health_check, &other.health_check);
        // None is what is not said.
        let mut retries = (self.retries > 0).then_some(self.retries);
        let contradictions = [
            contradiction("timeout", &mut self.timeout, other.timeout),
            contradiction("retries", &mut retries, (other.retries > 0).then_some(other.retries)),
            contradiction("retry_delay", &mut self.retry_delay, other.retry_delay),
        ];
        self.retries = retries.unwrap_or_default();
        contradictions.into_iter().flatten().collect()
    }

    /// Returns the reason why the conditions leave out what they are for, if they do.
    ///
    /// # Errors
    /// If one cannot be evaluated; the text begins with its key.
    pub fn left_out(&self, host: &Host) -> Result<Option<String>, String> {
        if self.only_if.is_none() && self.unless.is_none() {
            return Ok(None);
        }
        self.why_skipped(&Templates::new(host)).map_err(|(key, problem)| format!("{key}: {problem}"))
    }
}

fn unite<T: Clone + PartialEq>(own: &mut Vec<T>, others: &[T]) {
    for other in others {
        if !own.contains(other) {
            own.push(other.clone());
        }
    }
}

fn contradiction<T: Copy + PartialEq + Debug>(
    key: &'static str,
    own: &mut Option<T>,
    other: Option<T>,
) -> Option<(&'static str, String, String)> {
    match (*own, other) {
        (Some(one), Some(two)) if one != two => Some((key, format!("{one:?}"), format!("{two:?}"))),
        (own_value, _) => {
            *own = own_value.or(other);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let both = |key, one: &str, two: &str| (key, one.to_owned(), two.to_owned());
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
