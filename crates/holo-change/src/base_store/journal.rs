//! The journal: the initial records of a group of changes, in one file instead of one file per entity.
//!
//! It is on disk from before the first change of the group until all records are in their final places, which saves one
//! file per entity. If a run was killed, the journal is valid for those entities whose records are still the previous
//! ones: readers treat its records as if they had been written, and the next process that writes a record writes those
//! of the journal first.

use super::{BaseStore, RECORD_MODE, Remembered, replace_records};
use crate::error::{PathError, Result};
use crate::hex::hex;
use crate::path_handle::{Durability, PathHandle};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The file name, next to the directory of the records.
const JOURNAL: &str = "journal";

/// The journal of a killed run; `None` until it is read.
pub(super) type SharedJournal = Arc<Mutex<Option<Journal>>>;

/// The journal of a killed run.
#[derive(Debug, Default)]
pub(super) struct Journal {
    is_there: bool,
    /// The valid records, by entity.
    pending: BTreeMap<String, Value>,
}

#[derive(Serialize)]
struct Entry<'r, T> {
    /// The stamp of the previous record, if there was one.
    before: Option<String>,
    record: &'r Remembered<T>,
}

#[derive(Deserialize)]
struct ReadEntry {
    before: Option<String>,
    record: Value,
}

impl BaseStore {
    fn journal_file(&self) -> PathHandle {
        self.state.place(&self.folder.join(JOURNAL))
    }

    /// Returns true if a killed run has left a journal.
    ///
    /// # Errors
    /// If this cannot be determined.
    pub fn has_journal(&self) -> Result<bool> {
        self.with_journal(|journal| journal.is_there)
    }

    fn stamp_of(&self, id: &str) -> Result<Option<String>> {
        Ok(self.stamp(id)?.map(|stamp| hex(&Sha256::digest(stamp.to_bytes()))))
    }

    /// Writes a journal of these records to a [temporary file](PathHandle::replacement). Returns that file, and the
    /// directories that were created.
    pub(crate) fn write_journal<'r, T: Serialize + 'r>(
        &self,
        records: impl IntoIterator<Item = &'r Remembered<T>>,
    ) -> Result<(PathHandle, Vec<PathHandle>)> {
        let journal = self.journal_file();
        let entry = |record: &'r Remembered<T>| Ok(Entry { before: self.stamp_of(&record.id)?, record });
        let entries: Vec<Entry<'_, T>> = records.into_iter().map(entry).collect::<Result<_>>()?;
        let text = serde_json::to_vec(&entries);
        let text = text.map_err(|error| PathError::new("write", journal.shown(), io::Error::from(error)))?;
        let sealed = [hex(&Sha256::digest(&text)).as_bytes(), b"\n", &text].concat();
        let ((), made) = journal.in_folder(|| journal.write_replacement(&sealed, RECORD_MODE))?;
        Ok((journal.replacement(), made))
    }

    /// Moves the temporary file to the path of the journal, which is returned.
    pub(crate) fn move_journal(&self) -> Result<PathHandle> {
        let journal = self.journal_file();
        journal.replacement().rename_to(&journal)?;
        Ok(journal)
    }

    /// Removes the journal after all of its records have been replaced by later ones on disk.
    pub(crate) fn remove_journal(&self) -> Result<()> {
        self.remove_unfinished_journal()?;
        self.journal_file().remove()
    }

    /// Removes the temporary file of a journal.
    pub(super) fn remove_unfinished_journal(&self) -> Result<()> {
        self.journal_file().replacement().remove()
    }

    /// Leaves the journal in place for later readers and writers.
    pub(crate) fn leave_journal(&self) {
        *self.lock_journal() = None;
    }

    fn lock_journal(&self) -> MutexGuard<'_, Option<Journal>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a function with the journal of a killed run.
    fn with_journal<R>(&self, act: impl FnOnce(&mut Journal) -> R) -> Result<R> {
        let mut journal = self.lock_journal();
        match &mut *journal {
            Some(journal) => Ok(act(journal)),
            none => Ok(act(none.insert(self.read_journal()?))),
        }
    }

    /// Reads the journal. A damaged one is ignored.
    fn read_journal(&self) -> Result<Journal> {
        let file = self.journal_file();
        let Some(mut opened) = file.open_if_file()? else { return Ok(Journal::default()) };
        let mut bytes = Vec::new();
        opened.read_to_end(&mut bytes).map_err(|error| PathError::new("read", file.shown(), error))?;
        let mut pending = BTreeMap::new();
        for ReadEntry { before, record } in parse(&bytes).unwrap_or_default() {
            if let Some(id) = record.get("id").and_then(Value::as_str)
                && self.stamp_of(id)? == before
            {
                pending.insert(id.to_owned(), record);
            }
        }
        Ok(Journal { is_there: true, pending })
    }

    /// Returns the record of an entity, if the journal contains a valid one.
    pub(super) fn pending<T: DeserializeOwned>(&self, id: &str) -> Result<Option<Remembered<T>>> {
        self.with_journal(|journal| journal.pending.get(id).cloned())?.map(|record| self.understand(record)).transpose()
    }

    /// Returns all valid records of the journal.
    pub(super) fn all_pending<T: DeserializeOwned>(&self) -> Result<Vec<Remembered<T>>> {
        let records: Vec<Value> = self.with_journal(|journal| journal.pending.values().cloned().collect())?;
        records.into_iter().map(|record| self.understand(record)).collect()
    }

    fn understand<T: DeserializeOwned>(&self, record: Value) -> Result<Remembered<T>> {
        let failed = |error| PathError::new("read", self.journal_file().shown(), io::Error::from(error));
        serde_json::from_value(record).map_err(failed)
    }

    /// Writes the records from the journal of a killed run to their places, and removes the journal. This must precede
    /// any other write.
    pub(crate) fn settle(&self) -> Result<()> {
        if !self.has_journal()? {
            return Ok(());
        }
        replace_records(self, &self.all_pending::<Value>()?)?;
        let file = self.journal_file();
        file.remove()?;
        Durability::Each.sync([], [&file])?;
        *self.lock_journal() = Some(Journal::default());
        Ok(())
    }
}

/// Parses a journal, and verifies its checksum.
fn parse(bytes: &[u8]) -> Option<Vec<ReadEntry>> {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let (sum, text) = (parts.next()?, parts.next()?);
    if hex(&Sha256::digest(text)).as_bytes() != sum {
        return None;
    }
    serde_json::from_slice(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locations::Locations;
    use holo_protocol::report::EntityReport;
    use std::path::Path;

    fn store(folder: &Path) -> BaseStore {
        BaseStore::open(&Locations::new("/".into(), folder.into(), "x".into())).unwrap()
    }

    fn record(id: &str, base: u32) -> Remembered<u32> {
        Remembered::new(&EntityReport::new(id), base)
    }

    fn write(store: &BaseStore, records: &[Remembered<u32>]) {
        store.write_journal(records).unwrap();
        store.move_journal().unwrap();
    }

    #[test]
    fn what_a_killed_run_has_left_counts_where_the_record_is_the_one_from_before() {
        let folder = tempfile::tempdir().unwrap();
        let killed = store(folder.path());
        killed.keep_all(&[record("a:old", 1), record("a:done", 1)]).unwrap();
        write(&killed, &[record("a:old", 2), record("a:done", 2), record("a:new", 2)]);
        killed.write_beside(&record("a:done", 3)).unwrap();
        let done = killed.place("a:done");
        done.replacement().rename_to(&done).unwrap();

        let expected = [("a:done", 3), ("a:new", 2), ("a:old", 2)].map(|(id, base)| record(id, base));
        let reader = store(folder.path());
        for record in &expected {
            assert_eq!(reader.recall(&record.id).unwrap().as_ref(), Some(record));
        }
        let mut all = reader.all_readable::<u32>();
        all.sort_by(|one, other| one.id.cmp(&other.id));
        assert_eq!(all, expected);
        assert!(reader.journal_file().exists().unwrap(), "looking changes nothing");

        let writer = store(folder.path());
        writer.forget("a:done").unwrap();
        assert!(!writer.journal_file().exists().unwrap());
        assert_eq!(store(folder.path()).all_readable::<u32>().len(), 2);
        assert_eq!(store(folder.path()).recall("a:new").unwrap(), Some(record("a:new", 2)));
    }

    #[test]
    fn one_that_is_damaged_or_did_not_come_to_its_place_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let killed = store(folder.path());
        killed.keep(&record("a:old", 1)).unwrap();
        killed.write_journal(&[record("a:old", 2)]).unwrap();
        assert_eq!(store(folder.path()).recall("a:old").unwrap(), Some(record("a:old", 1)));
        let whole = std::fs::read(killed.journal_file().replacement().shown()).unwrap();
        for length in 0..whole.len() {
            std::fs::write(killed.journal_file().shown(), &whole[..length]).unwrap();
            assert_eq!(store(folder.path()).recall("a:old").unwrap(), Some(record("a:old", 1)), "{length} bytes");
        }
        store(folder.path()).tidy().unwrap();
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["base"]);
    }
}
