//! The keys that every definition can have.

use super::Invalid;
use super::words::{meant_for_a_shell, words_of};
use crate::EntityReport;
use crate::templates::Templates;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::report::Written;
use serde::{Deserialize, Deserializer, de};
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeTable;

/// The names of all keys of [`CommonKeys`].
pub(super) const NAMES: [&str; 12] = [
    "after",
    "before",
    "requires",
    "subscribes",
    "notifies",
    "if",
    "unless",
    "provider",
    "timeout",
    "retries",
    "retry_delay",
    "health_check",
];

/// Those whose lists are united when a definition is stacked.
pub(super) const UNITED: [&str; 6] = ["after", "before", "requires", "subscribes", "notifies", "health_check"];

/// The keys that every definition can have.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CommonKeys {
    /// Entities that come before this one, where they are in the run.
    #[serde(deserialize_with = "ids")]
    pub after: Vec<String>,
    /// Entities that come after this one, where they are in the run.
    #[serde(deserialize_with = "ids")]
    pub before: Vec<String>,
    /// Entities that have to be in their desired state before this one is applied.
    #[serde(deserialize_with = "ids")]
    pub requires: Vec<String>,
    /// Entities that come before this one, and refresh it when they change.
    #[serde(deserialize_with = "ids")]
    pub subscribes: Vec<String>,
    /// Entities that come after this one, and are refreshed when it changes.
    #[serde(deserialize_with = "ids")]
    pub notifies: Vec<String>,
    /// An expression over facts and data: where it is false, the entity is left out.
    #[serde(rename = "if")]
    pub only_if: Option<String>,
    /// An expression over facts and data: where it is true, the entity is left out.
    pub unless: Option<String>,
    /// The provider that works on it, where the plugin has several.
    pub provider: Option<String>,
    /// The time limit of one attempt, such as `90s`.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DurationSchema>"))]
    pub timeout: Option<Duration>,
    /// The number of times that a failed apply is tried again.
    pub retries: u32,
    /// The time to wait before that; a second if nothing is said.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DurationSchema>"))]
    pub retry_delay: Option<Duration>,
    /// The checks that have to be well after an apply, also after one that changed nothing.
    pub health_check: Vec<HealthCheck>,
    /// The places of other entities' IDs.
    #[serde(skip)]
    pub(crate) written: Vec<Written>,
}

/// A program that tells by its exit status how something is: 0 is well, 1 a warning, 2 critical, anything else unknown.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HealthCheck {
    /// The program and its arguments.
    pub command: Command,
    /// The number of tries until it is well; one if nothing is said.
    #[serde(default = "once")]
    pub tries: u32,
    /// The time to wait between two tries; a second if nothing is said.
    #[serde(default, deserialize_with = "duration")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DurationSchema>"))]
    pub interval: Option<Duration>,
    /// The time limit of one try; ten seconds if nothing is said.
    #[serde(default, deserialize_with = "duration")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DurationSchema>"))]
    pub timeout: Option<Duration>,
}

/// A program and its arguments: a list, or a string that is split by a shell's rules. No shell is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    words: Vec<String>,
    /// A word that only a shell would understand.
    for_a_shell: Option<&'static str>,
}

impl Command {
    /// The program, and its arguments.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// That the command seems to be meant for a shell, if it does: the value of this key, in which it is a part.
    #[must_use]
    pub fn doubt(&self, key: &'static str) -> Option<Invalid> {
        self.for_a_shell.map(|sign| {
            Invalid::new(
                key,
                format!("no shell is called, and {sign:?} is an argument; [\"sh\", \"-c\", \"...\"] calls one"),
            )
        })
    }
}

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Words)
    }
}

struct Words;

impl<'de> de::Visitor<'de> for Words {
    type Value = Command;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a command as a string or a list of strings")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Command, E> {
        let words =
            words_of(text).ok_or_else(|| E::custom(format!("a quote or backslash is not closed in {text:?}")))?;
        Command::checked(words, meant_for_a_shell(text))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut values: A) -> Result<Command, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = values.next_element()? {
            words.push(word);
        }
        Command::checked(words, None)
    }
}

impl Command {
    fn checked<E: de::Error>(words: Vec<String>, for_a_shell: Option<&'static str>) -> Result<Command, E> {
        if words.first().is_none_or(String::is_empty) {
            return Err(E::custom("the command is empty"));
        }
        if words.iter().any(|word| word.contains('\0')) {
            return Err(E::custom("a command cannot hold NUL"));
        }
        Ok(Command { words, for_a_shell })
    }
}

/// Reads a duration: a number of seconds, or a string such as `500ms`, `90s`, `1m30s`, `1.5h`, `1d`.
pub(crate) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
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

/// Reads entity IDs: they are lines of the scan report.
fn ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let ids = Vec::<String>::deserialize(deserializer)?;
    match ids.iter().find(|id| id.is_empty() || id.contains(char::is_control)) {
        Some(id) => Err(de::Error::custom(format!("{id:?} is not an entity ID"))),
        None => Ok(ids),
    }
}

fn once() -> u32 {
    1
}

/// Splits a table into the keys that only its type has and those that every definition can have.
pub(super) fn split<'s>(table: Option<Spanned<DeTable<'s>>>) -> (Spanned<DeTable<'s>>, Spanned<DeTable<'s>>) {
    let whole = table.unwrap_or_else(|| Spanned::new(0..0, DeTable::new()));
    let span = whole.span();
    let (common, own): (DeTable<'s>, DeTable<'s>) =
        whole.into_inner().into_iter().partition(|(key, _)| NAMES.contains(&&**key.get_ref()));
    (Spanned::new(span.clone(), own), Spanned::new(span, common))
}

impl CommonKeys {
    /// Returns the reason why the entity is left out, if it is.
    ///
    /// # Errors
    /// If a condition cannot be evaluated: its key, and why.
    pub(super) fn why_skipped(&self, templates: &Templates<'_>) -> Result<Option<String>, (&'static str, String)> {
        let holds = |key, condition| {
            templates
                .holds(condition)
                .map_err(|problem| (key, format!("the expression cannot be evaluated: {problem}")))
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
    pub(super) fn doubts(&self) -> Vec<Invalid> {
        self.health_check.iter().filter_map(|check| check.command.doubt("health_check")).collect()
    }

    /// Adds the edges.
    pub(super) fn complete(&self, report: &mut EntityReport) {
        let edges = &mut report.edges;
        for (ours, all) in [
            (&self.after, &mut edges.after),
            (&self.before, &mut edges.before),
            (&self.requires, &mut edges.requires),
            (&self.subscribes, &mut edges.subscribes),
            (&self.notifies, &mut edges.notifies),
        ] {
            all.extend(ours.iter().map(|id| BString::from(id.as_str())));
        }
        edges.written.extend(self.written.iter().cloned());
    }

    /// Notes where the IDs of other entities stand in the table that the keys were read from. What is required needs no note: without it,
    /// the entity fails.
    pub fn locate(&mut self, table: &DeTable<'_>, location: impl Fn(&Range<usize>) -> String) {
        for key in ["after", "before", "subscribes", "notifies"] {
            let ids = table.get(key).and_then(|ids| ids.get_ref().as_array());
            for id in ids.into_iter().flat_map(|ids| ids.iter()) {
                if let Some(text) = id.get_ref().as_str() {
                    self.written.push(Written { location: location(&id.span()).into(), id: text.into() });
                }
            }
        }
    }

    /// Completes what [`locate`](Self::locate) has noted, where it did not know all of it.
    pub fn relocate(&mut self, location: impl Fn(&BStr) -> String) {
        for written in &mut self.written {
            written.location = location(written.location.as_bstr()).into();
        }
    }

    /// Returns the time to wait before another attempt.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.retry_delay.unwrap_or(Duration::from_secs(1))
    }
}

/// The form of a duration, for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it only describes")]
enum DurationSchema {
    /// Numbers with units: `500ms`, `90s`, `1m30s`, `1.5h`, `1d`.
    Text(String),
    /// Seconds.
    Seconds(u64),
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Command {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Command".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A program and its arguments: a list, or a string that is split by a shell's rules.",
            "anyOf": [{ "type": "string", "minLength": 1 }, { "type": "array", "items": { "type": "string" }, "minItems": 1 }],
        })
    }
}
