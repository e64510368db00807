//! The keys that every definition can have.

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

/// The rule by which a key is merged where several places speak of one entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// A list of entities: lists are united. It is kept where each of them stands, for hints on names that are misspelt.
    Edge,
    /// A list: lists are united.
    List,
    /// A value: all have to agree.
    Value,
    /// A value that holds for its own place only.
    Own,
}

/// Declares the common keys: from one list come the type, their names, how they are merged, and the schema.
macro_rules! common_keys {
    ($($(#[$attribute:meta])* $key:literal $field:ident: $type:ty, $rule:ident;)*) => {
        /// The keys that every definition can have.
        #[derive(Clone, Debug, Default, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields, default)]
        pub struct CommonKeys {
            $($(#[$attribute])* #[serde(rename = $key)] pub $field: $type,)*
            /// The places of other entities' IDs.
            #[serde(skip)]
            pub id_locations: Vec<IdLocation>,
        }

        /// The names of all common keys.
        pub(crate) const NAMES: &[&str] = &[$($key),*];

        const RULES: &[(&str, Rule)] = &[$(($key, Rule::$rule)),*];

        impl CommonKeys {
            /// Adds what another place says of the same entity, but for conditions and the provider: lists are united, and what was open
            /// is taken from there. What contradicts is returned, and stays as it was.
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
    /// Entities that come before this one, where they are in the run.
    #[serde(deserialize_with = "ids")]
    "after" after: Vec<String>, Edge;
    /// Entities that come after this one, where they are in the run.
    #[serde(deserialize_with = "ids")]
    "before" before: Vec<String>, Edge;
    /// Entities that have to be in their desired state before this one is applied.
    // It needs no note where they stand: without them, the entity fails.
    #[serde(deserialize_with = "ids")]
    "requires" requires: Vec<String>, List;
    /// Entities that come before this one, and refresh it when they change.
    #[serde(deserialize_with = "ids")]
    "subscribes" subscribes: Vec<String>, Edge;
    /// Entities that come after this one, and are refreshed when it changes.
    #[serde(deserialize_with = "ids")]
    "notifies" notifies: Vec<String>, Edge;
    /// An expression over facts and data: where it is false, the entity is left out.
    "if" only_if: Option<String>, Own;
    /// An expression over facts and data: where it is true, the entity is left out.
    "unless" unless: Option<String>, Own;
    /// The provider that works on it, where the plugin has several.
    "provider" provider: Option<String>, Own;
    /// The time limit of one attempt, such as `90s`.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DurationSchema>"))]
    "timeout" timeout: Option<Duration>, Value;
    /// The number of times that a failed apply is tried again.
    "retries" retries: u32, Value;
    /// The time to wait before that; a second if nothing is said.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DurationSchema>"))]
    "retry_delay" retry_delay: Option<Duration>, Value;
    /// True if that time grows by half with each attempt.
    "retry_backoff" retry_backoff: bool, Value;
    /// True if it is only ever checked, and never changed.
    "noop" noop: bool, Value;
    /// The interval at which a watch checks it, such as `1m`.
    #[serde(deserialize_with = "interval")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DurationSchema>"))]
    "poll" poll: Option<Duration>, Value;
    /// The number of repairs by a watch, and the time that they are counted in; `3/10m` if nothing is said.
    #[serde(deserialize_with = "text")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    "limit" limit: Option<Limit>, Value;
    /// A name, and the number of entities of that name that may be worked on at a time, such as `db:2`.
    #[serde(deserialize_with = "text")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    "semaphore" semaphore: Option<Semaphore>, Value;
    /// The times at which it may be changed; at any time if nothing is said.
    #[serde(deserialize_with = "schedule")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<ScheduleTable>"))]
    "schedule" schedule: Option<Schedule>, Value;
    /// The checks that have to be well after an apply, also after one that changed nothing.
    "health_check" health_check: Vec<HealthCheck>, List;
    /// Keys whose values other entities send: `KEY = "ENTITY#NAME"`.
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<String, receipts::Written>"))]
    "receive" receive: Receipts, Value;
}

/// An entity ID in a definition, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdLocation {
    /// File and line.
    pub location: String,
    /// The ID.
    pub id: String,
}

/// Reads a duration: a number of seconds, or a string such as `500ms`, `90s`, `1m30s`, `1.5h`, `1d`.
///
/// # Errors
/// If it is something else.
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

/// Reads a duration that is long enough to come again and again.
///
/// # Errors
/// If it is something else.
pub fn interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer)?.map(controls::interval).transpose().map_err(de::Error::custom)
}

/// Reads a text that is a value.
fn text<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err = ControlError>,
    D: Deserializer<'de>,
{
    String::deserialize(deserializer)?.parse().map(Some).map_err(de::Error::custom)
}

/// Times at which something may be changed, as they are written.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ScheduleTable {
    /// Ranges of hours in local time, each up to its end, such as `2-5`, `22:30-4` or `2-5,12-13`.
    #[serde(deserialize_with = "text")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    hours: Option<Hours>,
    /// Days of the week, such as `mon-fri` or `sat,sun`.
    #[serde(deserialize_with = "text")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    days: Option<Days>,
}

/// Reads times at which something may be changed.
///
/// # Errors
/// If it is something else, or says nothing.
pub fn schedule<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Schedule>, D::Error> {
    let ScheduleTable { hours, days } = ScheduleTable::deserialize(deserializer)?;
    if hours.is_none() && days.is_none() {
        let problem = "needs hours, days or both, as in { hours = \"2-5\", days = \"mon-fri\" }";
        return Err(de::Error::custom(problem));
    }
    Ok(Some(Schedule { hours, days }))
}

/// Reads entity IDs: they are lines of the scan report.
fn ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let ids = Vec::<String>::deserialize(deserializer)?;
    match ids.iter().find(|id| id.is_empty() || id.contains(char::is_control)) {
        Some(id) => Err(de::Error::custom(format!("{id:?} is not an entity ID"))),
        None => Ok(ids),
    }
}

/// The common keys that concern nobody but the entity.
const SELF_CONTAINED: &[&str] = &["timeout", "retries", "retry_delay", "retry_backoff", "noop", "poll", "limit"];

/// Returns true if a common key concerns nobody but the entity.
pub(crate) fn is_self_contained(key: &str) -> bool {
    SELF_CONTAINED.contains(&key)
}

/// Returns true if the value of a common key is a list, which is united with others.
pub(crate) fn is_list(key: &str) -> bool {
    RULES.iter().any(|(name, rule)| *name == key && matches!(rule, Rule::Edge | Rule::List))
}

/// Splits a table into the keys that only its type has and those that every definition can have.
pub(crate) fn split<'s>(table: Option<Spanned<DeTable<'s>>>) -> (Spanned<DeTable<'s>>, Spanned<DeTable<'s>>) {
    let whole = table.unwrap_or_else(|| Spanned::new(0..0, DeTable::new()));
    let span = whole.span();
    let (common, own): (DeTable<'s>, DeTable<'s>) =
        whole.into_inner().into_iter().partition(|(key, _)| NAMES.contains(&&**key.get_ref()));
    (Spanned::new(span.clone(), own), Spanned::new(span, common))
}

impl CommonKeys {
    /// Returns the keys that every definition can have.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().copied()
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

    /// Returns the reason why the entity is left out, if it is.
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

    /// Returns what can be, but is hardly meant.
    pub(crate) fn doubts(&self) -> Vec<Invalid> {
        self.health_check.iter().filter_map(HealthCheck::doubt).collect()
    }

    /// Notes where the IDs of other entities stand in the table that the keys were read from. What is required needs no note: without it,
    /// the entity fails.
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

    /// Completes what [`locate`](Self::locate) has noted, where it did not know all of it.
    pub fn relocate(&mut self, location: impl Fn(&str) -> String) {
        for noted in &mut self.id_locations {
            noted.location = location(&noted.location);
        }
    }

    /// Returns the time to wait before another attempt, which are counted from 1.
    #[must_use]
    pub fn delay(&self, attempt: u32) -> Duration {
        let first = self.retry_delay.unwrap_or(Duration::from_secs(1));
        // By then it is longer than can be said.
        let grows = if self.retry_backoff { attempt.saturating_sub(1).min(200) } else { 0 };
        (0..grows).try_fold(first, |delay, _| delay.checked_add(delay / 2)).unwrap_or(Duration::MAX)
    }

    /// Returns when, and how often, the entity may be worked on.
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

/// The form of a duration, for the schema.
#[cfg(feature = "schema")]
#[derive(Debug, schemars::JsonSchema)]
#[serde(untagged)]
pub enum DurationSchema {
    /// Numbers with units: `500ms`, `90s`, `1m30s`, `1.5h`, `1d`.
    Text(String),
    /// Seconds.
    Seconds(u64),
}
