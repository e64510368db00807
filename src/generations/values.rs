//! The values that describe the states of entities, such as the versions of packages.
//!
//! The state database has a record for each change of a value, with the run that changed it. So the values at the last use of each
//! generation are known. When most of the records are no longer needed, they are removed.

use super::pin::GENERATION;
use super::store::{Generation, Store};
use crate::error::IoError;
use crate::host::root::Root;
use crate::host::settings::Settings;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::Text;
use holo_protocol::environment::{KeptAt, kept_line};
use holo_state::StateError;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

/// A record, which is a line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ValueLine {
    /// The ID of the run.
    run: String,
    /// The number of the generation that was pinned at the time, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    used: Option<u32>,
    /// The ID of the entity.
    entity: Text,
    /// The values, each `KEY=VALUE`.
    values: Vec<Text>,
}

/// Records are removed only if there are more than this, plus twice the number of values.
const FEW: usize = 1000;

/// Values by entity ID and key.
type Known = HashMap<(BString, BString), BString>;

/// Records the values of a run.
#[derive(Debug)]
pub struct Values {
    store: Store,
    run: String,
    used: Option<u32>,
    /// The last known values, loaded on first use.
    known: Option<Known>,
    /// The values to be written.
    unwritten: Vec<ValueLine>,
    /// The values of unchanged entities, which are written only if the run changed an entity.
    unchanged: Vec<ValueLine>,
    /// Whether records were written that may not be on disk yet.
    is_written: bool,
}

impl Values {
    /// Returns the values of a new run, or `None` if they are not kept.
    #[must_use]
    pub fn new(settings: &Settings) -> Option<Values> {
        settings.keeps_history.then(|| Values {
            store: Store::new(&settings.root),
            run: settings.run.as_str().to_owned(),
            used: used_generation(&settings.root),
            known: None,
            unwritten: Vec::new(),
            unchanged: Vec::new(),
            is_written: false,
        })
    }

    /// Records the values of an entity, each `KEY=VALUE`.
    pub fn note(&mut self, entity: &BStr, values: &[BString], is_changed: bool) {
        if values.is_empty() {
            return;
        }
        let known = self.known.get_or_insert_with(|| last_values(&read(&self.store).unwrap_or_default()));
        let is_new = |value: &&BString| {
            let (key, value) = split(value.as_bstr());
            known.insert((entity.into(), key.into()), value.into()).is_none_or(|before| before != value)
        };
        let values: Vec<Text> = values.iter().filter(is_new).cloned().map(Text).collect();
        if !values.is_empty() {
            let line = ValueLine { run: self.run.clone(), used: self.used, entity: Text(entity.into()), values };
            if is_changed { &mut self.unwritten } else { &mut self.unchanged }.push(line);
        }
    }

    /// Writes the values of changed entities.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write(&mut self) -> Result<(), StateError> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        self.is_written = true;
        let records = to_records(self.unwritten.drain(..));
        self.store.database().add_value_records(&records)
    }

    /// Writes the remaining values, and waits until they are on disk.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn finish(&mut self, has_changed: bool) -> Result<(), StateError> {
        if has_changed {
            self.unwritten.append(&mut self.unchanged);
        }
        self.write()?;
        if !self.is_written {
            return Ok(());
        }
        self.store.database().sync()?;
        self.compact()
    }

    /// Removes records that are no longer needed, if they are the majority.
    fn compact(&self) -> Result<(), StateError> {
        let lines = read(&self.store)?;
        let least = self.known.as_ref().map_or(0, Known::len);
        if lines.len() < FEW + 2 * least {
            return Ok(());
        }
        // If the generations cannot be listed, any record may be needed.
        let Ok(kept) = self.store.numbers() else { return Ok(()) };
        let begun = begun(&self.store);
        let needed = needed(&lines, |line| generation(line, &begun), &BTreeSet::from_iter(kept));
        if needed.len() > lines.len() / 2 {
            return Ok(());
        }
        self.store.database().replace_value_records(&to_records(needed))
    }
}

/// Texts and numbers can always be serialized.
fn to_records(lines: impl IntoIterator<Item = ValueLine>) -> Vec<String> {
    lines.into_iter().filter_map(|line| serde_json::to_string(&line).ok()).collect()
}

/// Maps the first run of each generation to its number.
fn begun(store: &Store) -> BTreeMap<String, u32> {
    let generations = store.list().into_iter().flatten().filter_map(|(_, listed)| listed.ok());
    generations.map(|generation| (generation.since, generation.number)).collect()
}

/// Returns the number of the generation that a line belongs to.
fn generation(line: &ValueLine, begun: &BTreeMap<String, u32>) -> u32 {
    line.used.or_else(|| begun.range(..=line.run.clone()).next_back().map(|(_, number)| *number)).unwrap_or(0)
}

/// Returns the lines up to a generation, in the order of the generations.
fn until(lines: &[ValueLine], generation: impl Fn(&ValueLine) -> u32, number: u32) -> Vec<&ValueLine> {
    let mut until: Vec<&ValueLine> = lines.iter().filter(|line| generation(line) <= number).collect();
    until.sort_by_key(|line| generation(line));
    until
}

/// Reads all records, except damaged ones.
fn read(store: &Store) -> Result<Vec<ValueLine>, StateError> {
    let records = store.database().value_records()?;
    Ok(records.iter().filter_map(|record| serde_json::from_str(record).ok()).collect())
}

/// Returns the key and the value of `KEY=VALUE`.
fn split(text: &BStr) -> (&BStr, &BStr) {
    text.split_once_str("=").map_or((text, BStr::new("")), |(key, value)| (key.as_bstr(), value.as_bstr()))
}

fn last_values<'a>(lines: impl IntoIterator<Item = &'a ValueLine>) -> Known {
    let mut known = Known::new();
    for ValueLine { entity, values, .. } in lines {
        for Text(text) in values {
            let (key, value) = split(text.as_bstr());
            known.insert((entity.0.clone(), key.into()), value.into());
        }
    }
    known
}

/// Returns the number of the generation in use, if any.
fn used_generation(root: &Root) -> Option<u32> {
    let text = fs::read(root.inputs()?.join(GENERATION)).ok()?;
    serde_json::from_slice::<Generation>(&text).ok().map(|generation| generation.number)
}

/// Writes the file with the values of the generation in use, if any, for plugins. It is omitted for users who may not
/// read the values.
///
/// # Errors
/// If it cannot be written.
pub fn write_kept(root: &Root, path: &Path) -> Result<(), IoError> {
    let Some(number) = used_generation(root) else { return Ok(()) };
    let store = Store::new(root);
    // Users who may not read the state database do without.
    let (begun, lines) = (begun(&store), read(&store).unwrap_or_default());
    let until = until(&lines, |line| generation(line, &begun), number);
    let mut text = Vec::new();
    for (at, values) in [(KeptAt::Then, last_values(until)), (KeptAt::Last, last_values(&lines))] {
        for ((entity, key), value) in values {
            let value = [&key[..], b"=", &value].concat();
            text.extend_from_slice(&kept_line(at, entity.as_bstr(), value.as_bstr()));
        }
    }
    fs::write(path, text).map_err(|error| IoError::new("write", path, error))
}

/// The index of a line, and that of a value in it.
type Index = (usize, usize);

/// Returns the smallest set of lines that gives the same values for all existing generations.
///
/// The values of a generation are the last ones of the lines up to it, in the order of the generations.
fn needed(lines: &[ValueLine], generation: impl Fn(&ValueLine) -> u32, kept: &BTreeSet<u32>) -> Vec<ValueLine> {
    let mut in_order: Vec<(u32, usize)> =
        lines.iter().enumerate().map(|(index, line)| (generation(line), index)).collect();
    in_order.sort_unstable();
    let mut needed: BTreeSet<Index> = BTreeSet::new();
    let mut current: HashMap<(&BStr, &BStr), Index> = HashMap::new();
    let mut rest = in_order.iter().peekable();
    for number in kept.iter().copied().chain([u32::MAX]) {
        while let Some((_, index)) = rest.next_if(|(of, _)| *of <= number) {
            take(&mut current, lines, *index);
        }
        needed.extend(current.values());
    }
    let mut last = HashMap::new();
    (0..lines.len()).for_each(|index| take(&mut last, lines, index));
    needed.extend(last.values());
    let line = |(index, line): (usize, &ValueLine)| {
        let values = line.values.iter().enumerate().filter(|(value, _)| needed.contains(&(index, *value)));
        ValueLine { values: values.map(|(_, value)| value.clone()).collect(), ..line.clone() }
    };
    lines.iter().enumerate().map(line).filter(|line| !line.values.is_empty()).collect()
}

/// Replaces the current values by those of a line.
fn take<'a>(current: &mut HashMap<(&'a BStr, &'a BStr), Index>, lines: &'a [ValueLine], index: usize) {
    let Some(ValueLine { entity, values, .. }) = lines.get(index) else { return };
    for (value, Text(text)) in values.iter().enumerate() {
        current.insert((entity.0.as_bstr(), split(text.as_bstr()).0), (index, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needless_records_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(&Root::new(Some(folder.path().into())));
        let version = |run: usize| BString::from(format!("version={run}"));
        let line = |run: usize| {
            let values = vec![Text(version(run))];
            ValueLine { run: format!("{run:05}"), used: None, entity: Text("package:a".into()), values }
        };
        store.database().add_value_records(&to_records((0..FEW - 5).map(line))).unwrap();
        for run in FEW - 5..FEW + 10 {
            let mut values = Values {
                store: store.clone(),
                run: format!("{run:05}"),
                used: None,
                known: None,
                unwritten: Vec::new(),
                unchanged: Vec::new(),
                is_written: false,
            };
            values.note("package:a".into(), &[version(run)], true);
            values.finish(true).unwrap();
        }
        let lines = read(&store).unwrap();
        assert!(lines.len() < 20, "{} records", lines.len());
        let key = ("package:a".into(), "version".into());
        assert_eq!(last_values(&lines).get(&key), Some(&(FEW + 9).to_string().into()));
    }
}

#[cfg(test)]
mod needed_tests {
    use super::last_values;
    use super::until;
    use super::*;
    use holo_testing::random::{self, Random};

    fn line(random: &mut Random, run: usize) -> ValueLine {
        let value = |random: &mut Random| {
            let (key, value) = (["version", "installed", "x"][random.below(3)], random.below(4));
            Text(format!("{key}={value}").into())
        };
        ValueLine {
            run: format!("{run:04}"),
            used: random.chance(20).then(|| u32::try_from(random.below(12)).unwrap()),
            entity: Text(format!("package:{}", random.below(5)).into()),
            values: (0..1 + random.below(3)).map(|_| value(random)).collect(),
        }
    }

    #[test]
    fn needed_lines_give_the_same_values_and_are_few() {
        random::cases(500, |random| {
            let lines: Vec<ValueLine> = (0..random.below(200)).map(|run| line(random, run)).collect();
            let kept: BTreeSet<u32> = (0..random.below(5)).map(|_| u32::try_from(random.below(12)).unwrap()).collect();
            // Every twentieth run begins a generation.
            let generation = |line: &ValueLine| line.used.unwrap_or(line.run.parse::<u32>().unwrap() / 20);
            let fewer = needed(&lines, generation, &kept);
            assert_eq!(last_values(&fewer), last_values(&lines));
            for &number in kept.iter().chain(&[20]) {
                assert_eq!(
                    last_values(until(&fewer, generation, number)),
                    last_values(until(&lines, generation, number)),
                    "of generation {number}"
                );
            }
            let values: usize = fewer.iter().map(|line| line.values.len()).sum();
            assert!(values <= 5 * 3 * (kept.len() + 2), "{values} values");
            assert_eq!(needed(&fewer, generation, &kept).len(), fewer.len());
        });
    }
}
