//! Merging of data layers: the more specific one takes precedence, and lists are joined only on request.

use super::Table;
use crate::key;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The strategy for a key that several layers have.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(super) enum Strategy {
    /// The value of the most specific layer is used as a whole.
    #[default]
    First,
    /// Tables are merged recursively.
    Deep,
    /// Tables are merged recursively, and lists are joined, with the items of the more specific layer first.
    Concatenate,
}

/// The strategies for keys. A key without one inherits that of its table.
#[derive(Debug, Default)]
pub(super) struct Rules {
    own: Option<Strategy>,
    below: BTreeMap<String, Rules>,
}

impl Rules {
    pub(super) fn add(&mut self, key: &[String], strategy: Strategy) {
        match key {
            [] => self.own = Some(strategy),
            [first, rest @ ..] => self.below.entry(first.clone()).or_default().add(rest, strategy),
        }
    }
}

/// A value and the indexes of the files that it comes from, most specific first.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) value: Value,
    pub(super) from: Vec<usize>,
    pub(super) over: Vec<(usize, Value)>,
}

/// The result of merging layers. A non-empty table is not a leaf.
#[derive(Debug)]
pub(super) enum Merged {
    Table(BTreeMap<String, Merged>),
    Leaf(Leaf),
}

/// How the values of a key are merged.
#[derive(Clone, Copy)]
enum How {
    By(Strategy),
    /// The table is overridden, but some keys in it have rules of their own.
    OnlyWhatHasRules,
}

/// Merges tables, most specific first.
pub(super) fn merge(tables: Vec<Table>, rules: &Rules) -> Merged {
    let tables: Vec<(usize, Value)> = tables.into_iter().map(Value::Object).enumerate().collect();
    let values: Vec<(usize, &Value)> = tables.iter().map(|(place, table)| (*place, table)).collect();
    let strategy = rules.own.unwrap_or_default();
    // The layers themselves are always merged: `first` applies to their keys.
    let keys = tables.iter().filter_map(|(_, table)| table.as_object()).flat_map(Table::keys);
    let keys: BTreeSet<&String> = keys.collect();
    let entries = keys.into_iter().filter_map(|key| {
        let merged = entry(&values, key, How::By(strategy), rules.below.get(key))?;
        Some((key.clone(), merged))
    });
    Merged::Table(entries.collect())
}

/// Merges the values that tables have for a key.
fn entry(tables: &[(usize, &Value)], key: &str, how: How, rules: Option<&Rules>) -> Option<Merged> {
    let values: Vec<(usize, &Value)> =
        tables.iter().filter_map(|(place, table)| Some((*place, table.get(key)?))).collect();
    let none = Rules::default();
    let rules = rules.unwrap_or(&none);
    merge_values(&values, rules.own.map_or(how, How::By), rules)
}

fn merge_values(values: &[(usize, &Value)], how: How, rules: &Rules) -> Option<Merged> {
    let (_, first) = values.first()?;
    match (first, how) {
        (Value::Object(_), _) => merge_tables(values, how, rules),
        (_, How::OnlyWhatHasRules) => None,
        (Value::Array(_), How::By(Strategy::Concatenate)) => {
            let (lists, over) = values.split_at(values.iter().take_while(|(_, value)| value.is_array()).count());
            let items = lists.iter().filter_map(|(_, value)| value.as_array()).flatten().cloned().collect();
            let from = lists.iter().map(|(place, _)| *place).collect();
            Some(Merged::Leaf(Leaf { value: Value::Array(items), from, over: overridden(over) }))
        }
        (_, How::By(_)) => Some(leaf(values)),
    }
}

/// Merges tables according to the strategy and the rules for their keys. A value other than a table hides all less
/// specific ones.
fn merge_tables(values: &[(usize, &Value)], how: How, rules: &Rules) -> Option<Merged> {
    let (tables, _) = values.split_at(values.iter().take_while(|(_, value)| value.is_object()).count());
    let keys_of = |tables: &[(usize, &Value)]| -> BTreeSet<String> {
        tables.iter().filter_map(|(_, table)| table.as_object()).flat_map(Table::keys).cloned().collect()
    };
    let own = match how {
        How::By(Strategy::First) => keys_of(tables.get(..1).unwrap_or_default()),
        How::By(Strategy::Deep | Strategy::Concatenate) => keys_of(tables),
        How::OnlyWhatHasRules => BTreeSet::new(),
    };
    let mut entries = BTreeMap::new();
    for key in keys_of(tables) {
        let below = rules.below.get(&key);
        let how = match (own.contains(&key), below) {
            (true, _) => how,
            (false, Some(_)) => How::OnlyWhatHasRules,
            (false, None) => continue,
        };
        if let Some(merged) = entry(tables, &key, how, below) {
            entries.insert(key, merged);
        }
    }
    match how {
        How::OnlyWhatHasRules if entries.is_empty() => None,
        How::By(_) if entries.is_empty() => Some(leaf(values)),
        _ => Some(Merged::Table(entries)),
    }
}

fn leaf(values: &[(usize, &Value)]) -> Merged {
    let (first, over) = values.split_at(1);
    let value = first.first().map_or(Value::Null, |(_, value)| (*value).clone());
    let from = first.iter().map(|(place, _)| *place).collect();
    Merged::Leaf(Leaf { value, from, over: overridden(over) })
}

fn overridden(values: &[(usize, &Value)]) -> Vec<(usize, Value)> {
    values.iter().map(|(place, value)| (*place, (*value).clone())).collect()
}

impl Merged {
    pub(super) fn value(&self) -> Value {
        match self {
            Merged::Leaf(leaf) => leaf.value.clone(),
            Merged::Table(entries) => {
                Value::Object(entries.iter().map(|(key, merged)| (key.clone(), merged.value())).collect())
            }
        }
    }

    /// Returns the node of a key, unless that is within a leaf.
    pub(super) fn at(&self, parts: &[String]) -> Option<&Merged> {
        match (self, parts) {
            (_, []) => Some(self),
            (Merged::Table(entries), [part, rest @ ..]) => entries.get(part)?.at(rest),
            (Merged::Leaf(_), _) => None,
        }
    }

    /// Replaces the value of a key. Returns false if a part of the path is not a table.
    pub(super) fn put(&mut self, parts: &[String], value: Value, place: usize) -> bool {
        if let Merged::Leaf(leaf) = self
            && !parts.is_empty()
        {
            if leaf.value.as_object().is_none_or(|table| !table.is_empty()) {
                return false;
            }
            *self = Merged::Table(BTreeMap::new());
        }
        match (&mut *self, parts) {
            (Merged::Table(entries), [part, rest @ ..]) => {
                let below = entries.entry(part.clone()).or_insert_with(|| Merged::Table(BTreeMap::new()));
                return below.put(rest, value, place);
            }
            (Merged::Leaf(leaf), _) => {
                leaf.over.splice(..0, leaf.from.first().map(|place| (*place, leaf.value.clone())));
                (leaf.value, leaf.from) = (value, vec![place]);
            }
            (Merged::Table(_), []) => *self = Merged::Leaf(Leaf { value, from: vec![place], over: Vec::new() }),
        }
        true
    }

    /// Replaces the values of all leaves.
    pub(super) fn replace(&mut self, by: &dyn Fn(&Value) -> Value) {
        match self {
            Merged::Leaf(leaf) => {
                leaf.value = by(&leaf.value);
                leaf.over.iter_mut().for_each(|(_, value)| *value = by(value));
            }
            Merged::Table(entries) => entries.values_mut().for_each(|merged| merged.replace(by)),
        }
    }

    /// Calls `show` for every leaf at or below a key. For a key within a leaf, calls it for that leaf.
    pub(super) fn leaves<'a>(&'a self, parts: &[String], key: &str, show: &mut dyn FnMut(&str, &'a Leaf)) {
        match (self, parts) {
            (Merged::Leaf(leaf), []) => show(key, leaf),
            (Merged::Leaf(leaf), parts) => {
                let within = parts.iter().fold(String::new(), |key, part| key::join(&key, part));
                if key::find(&leaf.value, &within).is_ok_and(|found| found.is_some()) {
                    show(key, leaf);
                }
            }
            (Merged::Table(entries), [part, rest @ ..]) => {
                if let Some(merged) = entries.get(part) {
                    merged.leaves(rest, &key::join(key, part), show);
                }
            }
            (Merged::Table(entries), []) => {
                for (part, merged) in entries {
                    merged.leaves(&[], &key::join(key, part), show);
                }
            }
        }
    }
}
