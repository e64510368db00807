//! The values that belong to the states that entities were in, such as the versions of packages.
//!
//! A file has a line for each time that a value became another one, with the run in which it did. So it is known for each generation what
//! the values were when it was used last. What nobody can ask for any more is left out when that is most of the file.

mod needed;

use super::checkout::GENERATION;
use super::generation::Generation;
use super::store::{self, Store};
use crate::error::IoError;
use crate::root::Root;
use crate::settings::Settings;
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
    /// The number of the generation that was used instead of the inputs of that day, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    used: Option<u32>,
    /// The ID of the entity.
    entity: Text,
    /// Each `KEY=VALUE`.
    values: Vec<Text>,
}

/// A file with fewer lines than these, and twice as many as there are values, is left as it is.
const FEW: usize = 1000;

/// By the entity's ID and the key of the value.
type Known = HashMap<(BString, BString), BString>;

/// Takes the values of a run.
#[derive(Debug)]
pub struct Values {
    store: Store,
    run: String,
    used: Option<u32>,
    /// The last values that are known, once somebody has asked.
    known: Option<Known>,
    /// Those that are to be written.
    unwritten: Vec<ValueLine>,
    /// Those of entities that were as desired, which are written only if something was changed.
    unchanged: Vec<ValueLine>,
    file: Option<File>,
}

impl Values {
    /// Returns the values of a run that begins, if they are to be kept.
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

    /// Takes the values of an entity, each `KEY=VALUE`.
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

    /// Writes down the values of entities that were changed.
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
        // In one call, so that a kill leaves all of it or nothing.
        file.write_all(&text).map_err(failed)
    }

    /// Writes down the rest, and returns when it is on disk.
    ///
    /// # Errors
    /// If it cannot be written.
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

    /// Leaves out what nobody can ask for any more, if that is most of the file.
    fn compact(&self) -> io::Result<()> {
        let lines = read(&self.store);
        let least = self.known.as_ref().map_or(0, Known::len);
        if lines.len() < FEW + 2 * least {
            return Ok(());
        }
        // Whatever cannot be listed may need all of them.
        let Ok(kept) = self.store.numbers() else { return Ok(()) };
        let begun = begun(&self.store);
        let needed = needed::needed(&lines, |line| generation(line, &begun), &BTreeSet::from_iter(kept));
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

/// Returns the numbers of the generations by the runs since when they are.
fn begun(store: &Store) -> BTreeMap<String, u32> {
    let generations = store.list().into_iter().flatten().filter_map(|(_, listed)| listed.ok());
    generations.map(|generation| (generation.since, generation.number)).collect()
}

/// Returns the number of the generation that a line belongs to.
fn generation(line: &ValueLine, begun: &BTreeMap<String, u32>) -> u32 {
    line.used.or_else(|| begun.range(..=line.run.clone()).next_back().map(|(_, number)| *number)).unwrap_or(0)
}

/// Returns the lines up to a generation, in the order of their generations.
fn until(lines: &[ValueLine], generation: impl Fn(&ValueLine) -> u32, number: u32) -> Vec<&ValueLine> {
    let mut until: Vec<&ValueLine> = lines.iter().filter(|line| generation(line) <= number).collect();
    until.sort_by_key(|line| generation(line));
    until
}

fn open(store: &Store) -> io::Result<File> {
    store.create()?;
    let path = store.values();
    // What a crash has left half written ends there.
    let is_torn = fs::read(&path).is_ok_and(|text| !text.is_empty() && !text.ends_with(b"\n"));
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    if is_torn {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

/// Reads all lines, but for those that are damaged.
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

/// Returns the number of the generation whose inputs are used, if one's are.
fn used_generation(root: &Root) -> Option<u32> {
    let text = fs::read(root.inputs()?.join(GENERATION)).ok()?;
    serde_json::from_slice::<Generation>(&text).ok().map(|generation| generation.number)
}

/// Writes the file that tells plugins the values of the generation whose inputs are used, if one's are. Who may not read them does without.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_does_not_grow_for_ever() {
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
