//! Deserialization that continues after errors, so that all of them are reported at once.

use crate::common::CommonKeys;
use crate::definition::{Definition, Invalid};
use crate::reading;
use crate::reading::value_error::similar;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// A span and an error message.
pub(crate) type Problem = (Range<usize>, String);

/// Deserializes a table into a type and collects all errors, as an error in one key does not affect the others. Keys in
/// `unknown` are not reported as missing.
pub(crate) fn read_all<T: DeserializeOwned>(
    mut table: Spanned<DeTable<'_>>,
    unknown: &BTreeSet<String>,
    is_own: bool,
    wrong: &mut Vec<Problem>,
) -> Option<Read<T>> {
    let mut left_out = unknown.clone();
    let mut stand_ins: BTreeMap<String, std::array::IntoIter<DeValue<'_>, 5>> = BTreeMap::new();
    loop {
        let problem = match reading::read::<T>(&table) {
            Ok(value) => return Some(Read { value, left_out }),
            Err(problem) => problem,
        };
        let Some(key) = problem.top_key().map(str::to_owned) else {
            wrong.push((problem.span().unwrap_or_else(|| table.span()), problem.to_string()));
            return None;
        };
        let words = match problem.problem() {
            reading::Problem::UnknownKey(known) if is_own && problem.is_at_top() => {
                // The intended key may be a common one.
                let all: Vec<&str> = known.iter().copied().chain(CommonKeys::names()).collect();
                let (known, more) = if similar(&key, all.iter().copied()).is_some() {
                    (&all[..], "")
                } else {
                    (*known, ", or a common key")
                };
                format!("{key}: {}", reading::unknown_key(&key, known, more))
            }
            _ => problem.to_string(),
        };
        // A key that was left out because of an error is not reported as missing.
        if !left_out.contains(&key) {
            wrong.push((problem.span().unwrap_or_else(|| table.span()), words));
        }
        let was_there = table.get_mut().remove(key.as_str()).is_some();
        if left_out.contains(&key) || !was_there {
            // The key is required: try stand-ins of every type, so that the other keys can be read.
            let stand_in = stand_ins.entry(key.clone()).or_insert_with(of_every_type).next()?;
            table.get_mut().insert(Spanned::new(0..0, key.clone().into()), Spanned::new(0..0, stand_in));
        }
        left_out.insert(key);
    }
}

fn of_every_type<'i>() -> std::array::IntoIter<DeValue<'i>, 5> {
    let (number, list, table) = (toml::de::DeInteger::default(), DeArray::default(), DeTable::default());
    let text = DeValue::String("".into());
    [text, DeValue::Array(list), DeValue::Integer(number), DeValue::Boolean(false), DeValue::Table(table)].into_iter()
}

/// The valid part of a table.
pub(crate) struct Read<T> {
    pub(crate) value: T,
    /// The keys that could not be read, for which the value contains stand-ins.
    pub(crate) left_out: BTreeSet<String>,
}

impl<T> Read<T> {
    pub(crate) fn whole(self) -> Option<T> {
        self.whole_but(&BTreeSet::new())
    }

    /// Returns the value if no other keys than these were left out.
    pub(crate) fn whole_but(self, unknown: &BTreeSet<String>) -> Option<T> {
        self.left_out.is_subset(unknown).then_some(self.value)
    }
}

impl<D: Definition> Read<D> {
    /// Returns the errors in the values that could be read.
    pub(crate) fn invalid(&self) -> Vec<Invalid> {
        if self.left_out.is_empty() {
            return self.value.invalid();
        }
        // Combinations of keys cannot be checked while one is unknown.
        let mut invalid = self.value.invalid_values();
        invalid.retain(|problem| {
            let outer = problem.key.split_once('.').map_or(problem.key.as_ref(), |(outer, _)| outer);
            !self.left_out.contains(outer)
        });
        invalid
    }
}
