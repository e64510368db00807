//! The last values that entities have sent, kept on disk for those that receive them.
//!
//! Plugins read them from a file of the run, so that definitions can have them. A value is written down as soon as its sender is done with,
//! before anybody receives it: neither a failure nor a kill in between can lose it.

#[cfg(test)]
mod tests;

use crate::cache;
use crate::error::FatalError;
use crate::ledger::{Entry, Ledger};
use crate::root::Root;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::sent::Sending;
use holo_protocol::{Sent, Text};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The name of the file in the dispatcher's directory.
pub const FILE: &str = "values.json";

/// The sender of a value, and its name.
type Key = (BString, BString);

/// The values that entities have sent.
#[derive(Debug)]
pub struct SentValues {
    ledger: Ledger<Record>,
    values: BTreeMap<Key, Value>,
    /// Those that the ledger has otherwise.
    unwritten: BTreeSet<Key>,
    /// Those that were sent in this run.
    fresh: HashSet<Key>,
    /// The numbers of the changes since plugins have listed their entities.
    changes: HashMap<Key, u64>,
    /// The number of the last change, and of the last one that plugins can read.
    last_change: u64,
    published: u64,
    /// The file that plugins read.
    file: PathBuf,
}

/// A value, and the ID of its sender's plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Value {
    plugin: String,
    sent: Sent,
}

/// A line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    entity: Text,
    name: Text,
    /// The ID of the entity's plugin.
    plugin: String,
    /// None if it is forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Text>,
    /// True if it is to be shown nowhere.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    sensitive: bool,
}

impl Entry for Record {
    const VERSION: u32 = 1;
    const WHAT: &'static str = "the values that entities have sent";
    const MODE: u32 = 0o600;
}

/// Has plugins read what earlier runs have left. What cannot be read is as good as not sent here: nobody is told before something depends on
/// it.
///
/// # Errors
/// If the file cannot be written.
pub fn publish(root: &Root, cache: &Path) -> io::Result<()> {
    let opened = Ledger::<Record>::open(root.engine_state().join(FILE));
    let values = collect(opened.map(|(_, records)| records).unwrap_or_default());
    if values.is_empty() { Ok(()) } else { write(&cache.join(cache::VALUES), &values) }
}

fn collect(records: Vec<Record>) -> BTreeMap<Key, Value> {
    let mut values = BTreeMap::new();
    for Record { entity, name, plugin, value, sensitive } in records {
        let key = (entity.0, name.0.clone());
        match value {
            Some(value) => drop(values.insert(key, Value { plugin, sent: Sent { name, value, sensitive } })),
            None => drop(values.remove(&key)),
        }
    }
    values
}

/// Writes the file that plugins read, so that they find all of it or the one before.
fn write(path: &Path, values: &BTreeMap<Key, Value>) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    let line = |((entity, _), value): (&Key, &Value)| {
        Sending { entity: Text(entity.clone()), sent: value.sent.clone() }.to_line()
    };
    file.write_all(&values.iter().flat_map(line).collect::<Vec<u8>>())?;
    fs::rename(&new, path)
}

impl SentValues {
    /// Loads what earlier runs have left. What plugins have read before, from the file in the cache directory, may be older.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn load(root: &Root, cache: &Path) -> Result<SentValues, FatalError> {
        let (ledger, records) = Ledger::open(root.engine_state().join(FILE))?;
        Ok(SentValues::new(ledger, records, cache))
    }

    /// Does the same for somebody who changes nothing, and knows no values if only root may read them.
    ///
    /// # Errors
    /// If they cannot be read for another reason.
    pub fn look(root: &Root, cache: &Path) -> Result<SentValues, FatalError> {
        let path = root.engine_state().join(FILE);
        match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Ok(SentValues::new(Ledger::new(path), Vec::new(), cache))
            }
            _ => SentValues::load(root, cache),
        }
    }

    fn new(ledger: Ledger<Record>, records: Vec<Record>, cache: &Path) -> SentValues {
        let (values, file) = (collect(records), cache.join(cache::VALUES));
        let read = Sending::read_all(&fs::read(&file).unwrap_or_default());
        let read: HashMap<Key, Sent> =
            read.into_iter().map(|Sending { entity, sent }| ((entity.0, sent.name.0.clone()), sent)).collect();
        let is_other = |key: &&Key| values.get(*key).map(|value| &value.sent) != read.get(*key);
        let changes: HashMap<Key, u64> =
            values.keys().chain(read.keys()).filter(is_other).map(|key| (key.clone(), 1)).collect();
        SentValues {
            ledger,
            values,
            unwritten: BTreeSet::new(),
            fresh: HashSet::new(),
            last_change: u64::from(!changes.is_empty()),
            changes,
            published: 0,
            file,
        }
    }

    /// Takes the values that an entity of this plugin has sent.
    pub fn take(&mut self, sender: &BStr, plugin: &str, sent: &[Sent]) {
        for sent in sent {
            let key = (sender.to_owned(), sent.name.0.clone());
            self.fresh.insert(key.clone());
            let value = Value { plugin: plugin.to_owned(), sent: sent.clone() };
            if self.values.get(&key) != Some(&value) {
                self.values.insert(key.clone(), value);
                self.note_change(key);
            }
        }
    }

    fn note_change(&mut self, key: Key) {
        self.last_change += 1;
        self.changes.insert(key.clone(), self.last_change);
        self.unwritten.insert(key);
    }

    /// Returns the last value that an entity has sent by this name.
    #[must_use]
    pub fn get(&self, sender: &BStr, name: &BStr) -> Option<&Sent> {
        self.values.get(&(sender.to_owned(), name.to_owned())).map(|value| &value.sent)
    }

    /// Returns true if it was sent in this run.
    #[must_use]
    pub fn is_fresh(&self, sender: &BStr, name: &BStr) -> bool {
        self.fresh.contains(&(sender.to_owned(), name.to_owned()))
    }

    /// Returns the number of the last change of this value since plugins have listed their entities; 0 if there was none.
    #[must_use]
    pub fn change(&self, sender: &BStr, name: &BStr) -> u64 {
        self.changes.get(&(sender.to_owned(), name.to_owned())).copied().unwrap_or_default()
    }

    /// Forgets the values of entities that are gone, by the entity's ID and that of its plugin.
    pub fn forget(&mut self, is_gone: impl Fn(&BStr, &str) -> bool) {
        let gone = self.values.iter().filter(|((sender, _), value)| is_gone(sender.as_bstr(), &value.plugin));
        for key in gone.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.values.remove(&key);
            self.note_change(key);
        }
    }

    /// Has plugins read the values as they are now.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn publish(&mut self) -> Result<(), FatalError> {
        if self.published < self.last_change {
            write(&self.file, &self.values).map_err(|error| FatalError::io("write", &self.file, error))?;
            self.published = self.last_change;
        }
        Ok(())
    }

    /// Writes down what has changed, so that nothing but a crash of the whole machine can lose it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn record(&mut self) -> Result<(), FatalError> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        if self.ledger.is_begun() {
            let records = self.unwritten.iter().map(|key| self.record_of(key)).collect();
            self.ledger.append(records)?;
        } else {
            self.begin_ledger()?;
        }
        self.unwritten.clear();
        Ok(())
    }

    /// Writes down what has changed when the run ends: nothing is left on disk if no value is known.
    ///
    /// # Errors
    /// If it cannot be written, or not be synced.
    pub fn finish(&mut self) -> Result<(), FatalError> {
        if self.values.is_empty() {
            if self.ledger.is_begun() || !self.unwritten.is_empty() {
                self.ledger.remove()?;
                self.unwritten.clear();
            }
            return Ok(());
        }
        if self.ledger.lines() > 2 * self.values.len() {
            self.begin_ledger()?;
            self.unwritten.clear();
        }
        self.record()?;
        self.ledger.sync()
    }

    /// Begins a ledger that has nothing but the last values.
    fn begin_ledger(&mut self) -> Result<(), FatalError> {
        let records = self.values.keys().map(|key| self.record_of(key)).collect();
        self.ledger.begin(records)
    }

    fn record_of(&self, key: &Key) -> Record {
        let (entity, name) = (Text(key.0.clone()), Text(key.1.clone()));
        match self.values.get(key).cloned() {
            Some(Value { plugin, sent: Sent { value, sensitive, .. } }) => {
                Record { entity, name, plugin, value: Some(value), sensitive }
            }
            None => Record { entity, name, plugin: String::new(), value: None, sensitive: false },
        }
    }
}
