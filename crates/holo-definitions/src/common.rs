//! Keys that every definition can have, and their merging from several tables.

mod health_check;
mod receipts;
mod register;

pub use health_check::{HealthCheck, Probe};
pub use receipts::{Receipt, Receipts};

use crate::definition::Invalid;
use crate::reading::{self, ValueError};
use crate::templates::Templates;
use holo_protocol::Registration;
use holo_protocol::controls::{self, ControlError, Controls, Days, Hours, Limit, OnEdit, Schedule, Semaphore};
use serde::{Deserialize, Deserializer, de};
use std::fmt::Debug;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeTable;

/// The rule by which the values of a key are merged if several tables define an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// A list of entities: lists are united. The location of each ID is kept for hints on misspelt names.
    Edge,
    /// A list: lists are united.
    List,
    /// A value, which must be the same in all tables.
    Value,
    /// A value that only affects its own table.
    Own,
}

/// Declares the common keys: a single list defines the type, the names, the merge rules and the schema.
macro_rules! common_keys {
    ($($(#[$attribute:meta])* $key:literal $field:ident: $type:ty, $rule:ident;)*) => {
        /// Keys that every definition can have.
        #[derive(Clone, Debug, Default, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields, default)]
        pub struct CommonKeys {
            $($(#[$attribute])* #[serde(rename = $key)] pub $field: $type,)*
            /// The locations of other entities' IDs.
            #[serde(skip)]
            pub id_locations: Vec<IdLocation>,
        }

        /// The names of all common keys.
        pub(crate) const NAMES: &[&str] = &[$($key),*];

        const RULES: &[(&str, Rule)] = &[$(($key, Rule::$rule)),*];

        impl CommonKeys {
            /// Merges the keys of another table of the same entity, except for conditions and the provider: lists are
            /// united, and unset keys are copied. Returns the contradictions, for which the value of `self` is kept.
            pub fn unite(&mut self, other: &CommonKeys) -> Vec<Contradiction> {
                self.id_locations.merge(&other.id_locations, Rule::List);
                let mut contradictions = Vec::new();
                $(if let Some((own, other)) = self.$field.merge(&other.$field, Rule::$rule) {
                    contradictions.push(Contradiction { key: $key, own, other });
                })*
                contradictions
            }
        }
    };
}

common_keys! {
    /// Entities that come before this one if they are in the run.
    #[serde(deserialize_with = "ids")]
    "after" after: Vec<String>, Edge;
    /// Entities that come after this one if they are in the run.
    #[serde(deserialize_with = "ids")]
    "before" before: Vec<String>, Edge;
    /// Entities that must be in their desired state before this one is applied.
    // Needs no locations: if an ID is misspelt, the entity fails.
    #[serde(deserialize_with = "ids")]
    "requires" requires: Vec<String>, List;
    /// Entities that come before this one and refresh it when they change.
    #[serde(deserialize_with = "ids")]
    "subscribes" subscribes: Vec<String>, Edge;
    /// Entities that come after this one and are refreshed when it changes.
    #[serde(deserialize_with = "ids")]
    "notifies" notifies: Vec<String>, Edge;
    /// An expression over facts and data: if it is false, the entity is left out.
    "if" only_if: Option<String>, Own;
    /// An expression over facts and data: if it is true, the entity is left out.
    "unless" unless: Option<String>, Own;
    /// The provider to use if the plugin has several.
    "provider" provider: Option<String>, Own;
    /// The timeout for one attempt, such as `90s`.
    #[serde(deserialize_with = "positive_duration")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DurationSchema>"))]
    "timeout" timeout: Option<Duration>, Value;
    /// The number of retries after a failed apply.
    "retries" retries: u32, Value;
    /// The delay before a retry; one second by default.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DurationSchema>"))]
    "retry_delay" retry_delay: Option<Duration>, Value;
    /// True if the delay grows by half with each retry.
    "retry_backoff" retry_backoff: bool, Value;
    /// True if the entity is only checked, never changed.
    "noop" noop: bool, Value;
    /// What an apply does if a person has changed the entity: `refuse`, which is the default, or `overwrite`.
    #[serde(deserialize_with = "text")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    "on_edit" on_edit: Option<OnEdit>, Value;
    /// The interval at which a watch checks the entity, such as `1m`.
    #[serde(deserialize_with = "interval")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DurationSchema>"))]
    "poll" poll: Option<Duration>, Value;
    /// The maximum number of repairs by a watch, and the period for which they are counted; `3/10m` by default.
    #[serde(deserialize_with = "text")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    "limit" limit: Option<Limit>, Value;
    /// A name, and the maximum number of entities with this name that are worked on concurrently, such as `db:2`.
    #[serde(deserialize_with = "text")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    "semaphore" semaphore: Option<Semaphore>, Value;
    /// The times at which the entity may be changed; any time by default.
    #[serde(deserialize_with = "schedule")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<ScheduleTable>"))]
    "schedule" schedule: Option<Schedule>, Value;
    /// Checks that must succeed after an apply, even if it changed nothing.
    "health_check" health_check: Vec<HealthCheck>, List;
    /// Services that are registered with the fleet while the entity is in its desired state and healthy.
    #[serde(deserialize_with = "register::services")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<register::Service>"))]
    "register" register: Vec<Registration>, List;
    /// Keys that receive values from other entities: `KEY = "ENTITY#NAME"`.
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<String, receipts::Written>"))]
    "receive" receive: Receipts, Value;
}

/// An entity ID in a definition, with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdLocation {
    /// File and line number.
    pub location: String,
    /// The ID.
    pub id: String,
}

/// Deserializes a duration: a number of seconds, or a string such as `500ms`, `90s`, `1m30s`, `1.5h`, `1d`.
///
/// # Errors
/// If the value is not a duration.
pub fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    struct Visitor;
    impl de::Visitor<'_> for Visitor {
        type Value = Duration;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a duration such as \"90s\" or a number of seconds")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
            holo_protocol::duration::parse(text).map_err(E::custom)
        }

        fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Duration, E> {
            u64::try_from(seconds).map(Duration::from_secs).map_err(|_| E::custom("a duration is not negative"))
        }
    }
    deserializer.deserialize_any(Visitor).map(Some)
}

/// Deserializes a duration that is not 0.
///
/// # Errors
/// If the value is not a duration, or 0.
pub(crate) fn positive_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    match duration(deserializer)? {
        Some(Duration::ZERO) => Err(de::Error::custom("must be longer than 0; remove the key for the default")),
        duration => Ok(duration),
    }
}

/// Deserializes a duration that is long enough for polling.
///
/// # Errors
/// If the value is not a duration, or too short.
pub fn interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer)?.map(controls::interval).transpose().map_err(de::Error::custom)
}

/// Deserializes a value from its text.
fn text<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err = ControlError>,
    D: Deserializer<'de>,
{
    String::deserialize(deserializer)?.parse().map(Some).map_err(de::Error::custom)
}

/// Times at which the entity may be changed.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ScheduleTable {
    /// Ranges of hours in local time, excluding their ends, such as `2-5`, `22:30-4` or `2-5,12-13`.
    #[serde(deserialize_with = "text")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    hours: Option<Hours>,
    /// Weekdays, such as `mon-fri` or `sat,sun`.
    #[serde(deserialize_with = "text")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    days: Option<Days>,
}

/// Deserializes a schedule.
///
/// # Errors
/// If the value is invalid, or sets neither hours nor days.
pub fn schedule<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Schedule>, D::Error> {
    let ScheduleTable { hours, days } = ScheduleTable::deserialize(deserializer)?;
    if hours.is_none() && days.is_none() {
        let problem = "needs hours, days or both, as in { hours = \"2-5\", days = \"mon-fri\" }";
        return Err(de::Error::custom(problem));
    }
    Ok(Some(Schedule { hours, days }))
}

/// Deserializes entity IDs, which must fit on lines of the scan report.
fn ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let ids = Vec::<String>::deserialize(deserializer)?;
    match ids.iter().find(|id| id.is_empty() || id.contains(char::is_control)) {
        Some(id) => Err(de::Error::custom(format!("{id:?} is not an entity ID"))),
        None => Ok(ids),
    }
}

/// Common keys that affect no other entity.
const SELF_CONTAINED: &[&str] =
    &["timeout", "retries", "retry_delay", "retry_backoff", "noop", "on_edit", "poll", "limit", "register"];

/// Returns true if a common key affects no other entity.
pub(crate) fn is_self_contained(key: &str) -> bool {
    SELF_CONTAINED.contains(&key)
}

/// Returns true if the value of a common key is a list, which is united with other lists.
pub(crate) fn is_list(key: &str) -> bool {
    RULES.iter().any(|(name, rule)| *name == key && matches!(rule, Rule::Edge | Rule::List))
}

/// Splits a table into the keys of its type and the common keys. Those in `strings` belong to the type if their value is
/// a string.
pub(crate) fn split<'s>(
    table: Option<Spanned<DeTable<'s>>>,
    strings: &[&str],
) -> (Spanned<DeTable<'s>>, Spanned<DeTable<'s>>) {
    let whole = table.unwrap_or_else(|| Spanned::new(0..0, DeTable::new()));
    let span = whole.span();
    let (common, own): (DeTable<'s>, DeTable<'s>) = whole.into_inner().into_iter().partition(|(key, value)| {
        let key = &**key.get_ref();
        NAMES.contains(&key) && !(strings.contains(&key) && value.get_ref().is_str())
    });
    (Spanned::new(span.clone(), own), Spanned::new(span, common))
}

impl CommonKeys {
    /// Returns the names of the common keys.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().copied()
    }

    /// Returns true if a key is a common one.
    #[must_use]
    pub fn include(key: &str) -> bool {
        NAMES.contains(&key)
    }

    /// Reads a table that only contains common keys.
    ///
    /// # Errors
    /// If a value is invalid.
    pub fn read(table: DeTable<'_>) -> Result<CommonKeys, ValueError> {
        reading::read(&Spanned::new(0..0, table))
    }

    /// Returns the reason why a condition leaves the entity out, or `None` if no condition does.
    ///
    /// # Errors
    /// If a condition cannot be evaluated.
    pub fn why_skipped(&self, templates: &dyn Templates) -> Result<Option<String>, Invalid> {
        let holds = |key, condition: &String| {
            let held = templates.holds(condition);
            held.map_err(|error| Invalid::new(key, format!("the expression cannot be evaluated: {error}")))
        };
        if let Some(condition) = &self.only_if
            && !holds("if", condition)?
        {
            return Ok(Some(format!("{condition} is false")));
        }
        if let Some(condition) = &self.unless
            && holds("unless", condition)?
        {
            return Ok(Some(format!("{condition} is true")));
        }
        Ok(None)
    }

    /// Returns warnings about values that are valid, but probably not intended.
    pub(crate) fn doubts(&self) -> Vec<Invalid> {
        self.health_check.iter().filter_map(HealthCheck::doubt).collect()
    }

    /// Records the locations of other entities' IDs in the table from which the keys were read. Required entities need
    /// no locations: if an ID is misspelt, the entity fails.
    pub fn locate(&mut self, table: &DeTable<'_>, location: impl Fn(&Range<usize>) -> String) {
        for (key, _) in RULES.iter().filter(|(_, rule)| *rule == Rule::Edge) {
            let ids = table.get(*key).and_then(|ids| ids.get_ref().as_array());
            for id in ids.into_iter().flat_map(|ids| ids.iter()) {
                if let Some(text) = id.get_ref().as_str() {
                    self.id_locations.push(IdLocation { location: location(&id.span()), id: text.to_owned() });
                }
            }
        }
    }

    /// Returns an error for each place in the common keys of an entity that names the entity itself: it would wait for
    /// itself.
    pub(crate) fn self_references(&self, id: &str, common: &Spanned<DeTable<'_>>) -> Vec<(Range<usize>, String)> {
        let problem = |key: &str, span| (span, format!("{key}: {id} is this entity itself"));
        let of_key = |key: &'static str| {
            let ids = common.get_ref().get(key).and_then(|ids| ids.get_ref().as_array());
            let own = ids.into_iter().flat_map(|ids| ids.iter()).filter(|other| other.get_ref().as_str() == Some(id));
            own.map(move |own| problem(key, own.span()))
        };
        let ids = RULES.iter().map(|(key, _)| *key).filter(|key| is_list(key)).flat_map(of_key);
        let receives = common.get_ref().get_key_value("receive");
        let receives = receives.filter(|_| self.receive.iter().any(|receipt| receipt.sender == id));
        ids.chain(receives.map(|(key, _)| problem("receive", key.span()))).collect()
    }

    /// Completes the locations recorded by [`locate`](Self::locate), if it did not have all details.
    pub fn relocate(&mut self, location: impl Fn(&str) -> String) {
        for noted in &mut self.id_locations {
            noted.location = location(&noted.location);
        }
    }

    /// Returns the delay before a retry. Retries are counted from 1.
    #[must_use]
    pub fn delay(&self, attempt: u32) -> Duration {
        let first = self.retry_delay.unwrap_or(Duration::from_secs(1));
        // Longer delays cannot be represented.
        let grows = if self.retry_backoff { attempt.saturating_sub(1).min(200) } else { 0 };
        (0..grows).try_fold(first, |delay, _| delay.checked_add(delay / 2)).unwrap_or(Duration::MAX)
    }

    /// Returns the limits on when, and how often, the entity may be checked or changed, and the services that it
    /// registers.
    #[must_use]
    pub fn controls(&self) -> Controls {
        Controls {
            noop: self.noop,
            poll: self.poll,
            limit: self.limit,
            semaphore: self.semaphore.clone(),
            schedule: self.schedule.clone(),
            register: self.register.clone(),
        }
    }
}

/// A duration.
#[cfg(feature = "schema")]
#[derive(Debug, schemars::JsonSchema)]
#[serde(untagged)]
pub enum DurationSchema {
    /// Numbers with units: `500ms`, `90s`, `1m30s`, `1.5h`, `1d`.
    Text(String),
    /// Seconds.
    Seconds(u64),
}

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
trait Merge {
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
            ("on_edit = 'ask'\n", "on_edit: expected \"refuse\" or \"overwrite\""),
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
            ("register = 80\n", "register: expected a list"),
            ("register = [{ cluster = 'a', service = 'b', port = 1 }]\n", "register[0].protocol: is missing"),
            ("register = [{ cluster = 'a b' }]\n", "register[0].cluster: \"a b\" is not a name of letters"),
            ("register = [{ cluster = 'a', ports = 80 }]\n", "register[0].ports: unknown key, did you mean port?"),
            ("register = [{ port = 0 }]\n", "register[0].port: a port is a number from 1 to 65535"),
            ("register = [{ port = 70000 }]\n", "register[0].port: "),
            ("register = [{ ttl = '1s' }]\n", "register[0].ttl: a registration lasts from 3s to 30d"),
            ("register = [{ address = 'a:1' }]\n", "register[0].address: \"a:1\" is not a host name or an IP address"),
            ("register = [{ annotations = { a = 1 } }]\n", "register[0].annotations.a: expected a string"),
        ] {
            let error = CommonKeys::read(DeTable::parse(text).unwrap().into_inner()).unwrap_err();
            assert!(error.to_string().starts_with(says), "{text}{error}");
            assert!(error.span().is_some());
        }
    }

    #[test]
    fn services_have_defaults_and_are_united() {
        let mut keys = read("register = [{ cluster = 'eu', service = 'web', protocol = 'http', port = 80 }]\n");
        let Registration { address, priority, ttl, .. } = &keys.register[0];
        assert_eq!((address, priority, ttl), (&None, &1, &60));
        let other = "[[register]]\ncluster = 'eu'\nservice = 'web'\nprotocol = 'http'\nport = 81\nttl = '10s'\n";
        assert_eq!(keys.unite(&read(other)), []);
        assert_eq!(keys.register.iter().map(|service| service.port).collect::<Vec<_>>(), [80, 81]);
        assert_eq!(keys.controls().register, keys.register);
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
