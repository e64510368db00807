//! Keys that every definition can have.

mod health_check;
mod merge;
mod receipts;

pub use health_check::{HealthCheck, Probe};
pub use merge::Contradiction;
pub use receipts::{Receipt, Receipts};

use crate::definition::Invalid;
use crate::reading::{self, ValueError};
use crate::templates::Templates;
use holo_protocol::controls::{self, ControlError, Controls, Days, Hours, Limit, Schedule, Semaphore};
use merge::Merge;
use serde::{Deserialize, Deserializer, de};
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
const SELF_CONTAINED: &[&str] = &["timeout", "retries", "retry_delay", "retry_backoff", "noop", "poll", "limit"];

/// Returns true if a common key affects no other entity.
pub(crate) fn is_self_contained(key: &str) -> bool {
    SELF_CONTAINED.contains(&key)
}

/// Returns true if the value of a common key is a list, which is united with other lists.
pub(crate) fn is_list(key: &str) -> bool {
    RULES.iter().any(|(name, rule)| *name == key && matches!(rule, Rule::Edge | Rule::List))
}

/// Splits a table into the keys of its type and the common keys.
pub(crate) fn split<'s>(table: Option<Spanned<DeTable<'s>>>) -> (Spanned<DeTable<'s>>, Spanned<DeTable<'s>>) {
    let whole = table.unwrap_or_else(|| Spanned::new(0..0, DeTable::new()));
    let span = whole.span();
    let (common, own): (DeTable<'s>, DeTable<'s>) =
        whole.into_inner().into_iter().partition(|(key, _)| NAMES.contains(&&**key.get_ref()));
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

    /// Returns the limits on when, and how often, the entity may be checked or changed.
    #[must_use]
    pub fn controls(&self) -> Controls {
        Controls {
            noop: self.noop,
            poll: self.poll,
            limit: self.limit,
            semaphore: self.semaphore.clone(),
            schedule: self.schedule.clone(),
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
