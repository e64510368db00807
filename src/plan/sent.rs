//! The last values that entities sent, kept on disk for the entities that receive them.
//!
//! Plugins read them from a file of the run, for use in definitions. A value is written as soon as its sender is
//! finished, before any receiver gets it: neither a failure nor a kill in between can lose it.

use crate::error::FatalError;
use crate::host::cache;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::sent::Sending;
use holo_protocol::{Sent, Text};
use holo_state::{Database, Durability, SentValue, StateError};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The sender of a value, and its name.
type Key = (BString, BString);

/// The values that entities have sent.
#[derive(Debug)]
pub struct SentValues {
    state: Rc<Database>,
    values: BTreeMap<Key, Value>,
    /// The values that differ from the database.
    unwritten: BTreeSet<Key>,
    /// The values that were sent in this run.
    fresh: HashSet<Key>,
    /// The numbers of the changes since plugins were scanned.
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

/// Writes the values of earlier runs to the file that plugins read. An unreadable database counts as empty here: the
/// error is reported when an entity depends on a value.
///
/// # Errors
/// If the file cannot be written.
pub fn publish(state: &Database, cache: &Path) -> io::Result<()> {
    let values = collect(state.sent_values().unwrap_or_default());
    if values.is_empty() { Ok(()) } else { write(&cache.join(cache::VALUES), &values) }
}

fn collect(rows: Vec<SentValue>) -> BTreeMap<Key, Value> {
    let value = |SentValue { entity, name, plugin, value, is_sensitive }| {
        let sent = Sent { name: Text(name.clone()), value: Text(value), sensitive: is_sensitive };
        ((entity, name), Value { plugin, sent })
    };
    rows.into_iter().map(value).collect()
}

/// Replaces the file that plugins read atomically.
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
    /// Loads the values of earlier runs. The file in the cache directory, which plugins have read, may be older.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn load(state: &Rc<Database>, cache: &Path) -> Result<SentValues, StateError> {
        Ok(SentValues::new(state, state.sent_values()?, cache))
    }

    /// Like [`load`](SentValues::load), but a user who may not read the database gets no values.
    ///
    /// # Errors
    /// If the database cannot be read for another reason.
    pub fn look(state: &Rc<Database>, cache: &Path) -> Result<SentValues, StateError> {
        match SentValues::load(state, cache) {
            Err(error) if error.is_denied() => Ok(SentValues::new(state, Vec::new(), cache)),
            loaded => loaded,
        }
    }

    fn new(state: &Rc<Database>, rows: Vec<SentValue>, cache: &Path) -> SentValues {
        let (values, file) = (collect(rows), cache.join(cache::VALUES));
        let read = Sending::read_all(&fs::read(&file).unwrap_or_default());
        let read: HashMap<Key, Sent> =
            read.into_iter().map(|Sending { entity, sent }| ((entity.0, sent.name.0.clone()), sent)).collect();
        let is_other = |key: &&Key| values.get(*key).map(|value| &value.sent) != read.get(*key);
        let changes: HashMap<Key, u64> =
            values.keys().chain(read.keys()).filter(is_other).map(|key| (key.clone(), 1)).collect();
        SentValues {
            state: Rc::clone(state),
            values,
            unwritten: BTreeSet::new(),
            fresh: HashSet::new(),
            last_change: u64::from(!changes.is_empty()),
            changes,
            published: 0,
            file,
        }
    }

    /// Stores the values that an entity of this plugin has sent.
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

    /// Returns the last value that an entity sent under this name.
    #[must_use]
    pub fn get(&self, sender: &BStr, name: &BStr) -> Option<&Sent> {
        self.values.get(&(sender.to_owned(), name.to_owned())).map(|value| &value.sent)
    }

    /// Returns true if the value was sent in this run.
    #[must_use]
    pub fn is_fresh(&self, sender: &BStr, name: &BStr) -> bool {
        self.fresh.contains(&(sender.to_owned(), name.to_owned()))
    }

    /// Returns the number of the last change of this value since plugins were scanned; 0 if it has not changed.
    #[must_use]
    pub fn change(&self, sender: &BStr, name: &BStr) -> u64 {
        self.changes.get(&(sender.to_owned(), name.to_owned())).copied().unwrap_or_default()
    }

    /// Drops the values of entities that no longer exist. `is_gone` gets the entity's ID and that of its plugin.
    pub fn forget(&mut self, is_gone: impl Fn(&BStr, &str) -> bool) {
        let gone = self.values.iter().filter(|((sender, _), value)| is_gone(sender.as_bstr(), &value.plugin));
        for key in gone.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.values.remove(&key);
            self.note_change(key);
        }
    }

    /// Updates the file that plugins read.
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

    /// Writes pending changes without waiting for the disk.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn record(&mut self) -> Result<(), FatalError> {
        self.write(Durability::Process)
    }

    /// Writes pending changes at the end of the run, and waits until they are on disk.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn finish(&mut self) -> Result<(), FatalError> {
        self.write(Durability::Disk)?;
        self.state.sync().map_err(FatalError::could_not_run)
    }

    fn write(&mut self, durability: Durability) -> Result<(), FatalError> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let (mut put, mut removed) = (Vec::new(), Vec::new());
        for key @ (entity, name) in &self.unwritten {
            match self.values.get(key) {
                Some(Value { plugin, sent }) => put.push(SentValue {
                    entity: entity.clone(),
                    name: name.clone(),
                    plugin: plugin.clone(),
                    value: sent.value.0.clone(),
                    is_sensitive: sent.sensitive,
                }),
                None => removed.push((entity.as_bstr(), name.as_bstr())),
            }
        }
        self.state.write_sent_values(&put, removed, durability).map_err(FatalError::could_not_run)?;
        self.unwritten.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
