//! The values that describe the states of entities, such as the versions of packages.
//!
//! A file has a line for each change of a value, with the run that changed it. So the values at the last use of each
//! generation are known. When most of the lines are no longer needed, the file is compacted.

use super::checkout::GENERATION;
use super::generation::Generation;
use super::store::{self, Store};
use crate::error::IoError;
use crate::host::root::Root;
use crate::host::settings::Settings;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::Text;
use holo_protocol::environment::{KeptAt, kept_line};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A line of the file.
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

/// A file is compacted only if it has more lines than this, plus twice the number of values.
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
    file: Option<File>,
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
            file: None,
        })
    }

    /// Records the values of an entity, each `KEY=VALUE`.
    pub fn note(&mut self, entity: &BStr, values: &[BString], is_changed: bool) {
        if values.is_empty() {
            return;
        }
        let known = self.known.get_or_insert_with(|| last_values(&read(&self.store)));
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
    pub fn write(&mut self) -> Result<(), IoError> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let path = self.store.values();
        let failed = |error| IoError::new("write", &path, error);
        let mut text = Vec::new();
        for line in self.unwritten.drain(..) {
            serde_json::to_writer(&mut text, &line).map_err(|error| failed(error.into()))?;
            text.push(b'\n');
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(open(&self.store).map_err(failed)?),
        };
        // A single call, so that a kill leaves all of the lines or none.
        file.write_all(&text).map_err(failed)
    }

    /// Writes the remaining values, and waits until they are on disk.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn finish(&mut self, has_changed: bool) -> Result<(), IoError> {
        if has_changed {
            self.unwritten.append(&mut self.unchanged);
        }
        self.write()?;
        let Some(file) = self.file.take() else { return Ok(()) };
        let path = self.store.values();
        file.sync_data().map_err(|error| IoError::new("sync", &path, error))?;
        self.compact().map_err(|error| IoError::new("write", &path, error))
    }

    /// Removes lines that are no longer needed, if they are the majority.
    fn compact(&self) -> io::Result<()> {
        let lines = read(&self.store);
        let least = self.known.as_ref().map_or(0, Known::len);
        if lines.len() < FEW + 2 * least {
            return Ok(());
        }
        // If the generations cannot be listed, any line may be needed.
        let Ok(kept) = self.store.numbers() else { return Ok(()) };
        let begun = begun(&self.store);
        let needed = needed(&lines, |line| generation(line, &begun), &BTreeSet::from_iter(kept));
        if needed.len() > lines.len() / 2 {
            return Ok(());
        }
        let mut text = Vec::new();
        for line in needed {
            serde_json::to_writer(&mut text, &line)?;
            text.push(b'\n');
        }
        store::replace_durably(&self.store.values(), &text)
    }
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

fn open(store: &Store) -> io::Result<File> {
    store.create()?;
    let path = store.values();
    // Ends a line that a crash has left incomplete.
    let is_torn = fs::read(&path).is_ok_and(|text| !text.is_empty() && !text.ends_with(b"\n"));
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    if is_torn {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

/// Reads all lines, except damaged ones.
fn read(store: &Store) -> Vec<ValueLine> {
    let text = fs::read(store.values()).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_slice(line).ok()).collect()
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
    let (begun, lines) = (begun(&store), read(&store));
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
    fn values_file_is_compacted() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(&Root::new(Some(folder.path().into())));
        store.create().unwrap();
        let version = |run: usize| BString::from(format!("version={run}"));
        let line = |run: usize| {
            let values = vec![Text(version(run))];
            ValueLine { run: format!("{run:05}"), used: None, entity: Text("package:a".into()), values }
        };
        let lines: Vec<u8> =
            (0..FEW - 5).flat_map(|run| [serde_json::to_vec(&line(run)).unwrap(), vec![b'\n']].concat()).collect();
        fs::write(store.values(), lines).unwrap();
        for run in FEW - 5..FEW + 10 {
            let mut values = Values {
                store: store.clone(),
                run: format!("{run:05}"),
                used: None,
                known: None,
                unwritten: Vec::new(),
                unchanged: Vec::new(),
                file: None,
            };
            values.note("package:a".into(), &[version(run)], true);
            values.finish(true).unwrap();
        }
        let lines = read(&store);
        assert!(lines.len() < 20, "{} lines", lines.len());
        let key = ("package:a".into(), "version".into());
        assert_eq!(last_values(&lines).get(&key), Some(&(FEW + 9).to_string().into()));
        let names: Vec<_> = fs::read_dir(&store.directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["values.jsonl"]);
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
