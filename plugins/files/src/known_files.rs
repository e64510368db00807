//! Definition files that are known to be valid. A limited scan reads only the relevant parts of those.
//!
//! They are recorded with the state that they had when they were found to be valid. Without the record, they are read completely.

mod related;

use holo_change::{Fingerprint, Stamp, Tree, UnchangedRecord};
use holo_plugin::definitions::{FileState, KnownFiles, OutlinedTable, TableId};
use holo_plugin::{Host, ScanLimit};
use related::Related;
use std::cell::RefCell;
use std::mem;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The file of the record in the state directory, and its temporary name.
const RECORD: &str = ".definitions";
const STAGED: &str = ".definitions.new";
/// The entries of the record: the definition files, and these together with the records of earlier applies.
const ALL: &[u8] = b"definitions";
const RECORDS: &[u8] = b"records";
/// The coarsest clock tick of any file system, in seconds.
const COARSEST_TICK: u64 = 2;

/// Changes to the record, from a scan to the next apply.
#[derive(Debug, Default)]
pub(crate) struct News(Mutex<Learned>);

/// The results of a scan.
#[derive(Debug, Default)]
struct Learned {
    /// The definition files, if all of them are valid.
    files: Option<Vec<FileState>>,
    /// The fingerprint of the definition files and the directory of records, if every record belongs to a defined entity.
    records: Option<Fingerprint>,
}

impl News {
    fn change(&self, change: impl FnOnce(&mut Learned)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Discards the changes, because other errors must be reported again.
    pub(crate) fn forget(&self) {
        self.change(|learned| *learned = Learned::default());
    }

    /// Writes the changes for the next scan. Errors are ignored, as they only cost time.
    pub(crate) fn keep(&self, host: &Host) {
        let mut news = Learned::default();
        self.change(|learned| news = mem::take(learned));
        let Learned { files, records } = news;
        if files.is_none() && records.is_none() {
            return;
        }
        let Ok(state) = Tree::open(host.state_dir()) else { return };
        let place = state.place(Path::new(RECORD));
        let mut record = UnchangedRecord::open(&place);
        match files {
            Some(files) if files.is_empty() => {
                record.forget(ALL);
                record.forget(RECORDS);
            }
            Some(files) => record.insert(ALL, fingerprint(&files, None)),
            None => {}
        }
        if let Some(records) = records {
            record.insert(RECORDS, records);
        }
        record.keep(&place, &state.place(Path::new(STAGED)));
    }
}

/// The definition files of a scan.
pub(crate) struct ScannedFiles<'a> {
    host: &'a Host,
    /// `None` for a full scan.
    limit: Option<ScanLimit<'a>>,
    begun: SystemTime,
    news: &'a News,
    record: RefCell<Option<UnchangedRecord>>,
    /// The files, if all of them are valid.
    right: RefCell<Vec<FileState>>,
}

impl<'a> ScannedFiles<'a> {
    pub(crate) fn new(host: &'a Host, limit: Option<ScanLimit<'a>>, news: &'a News) -> ScannedFiles<'a> {
        ScannedFiles {
            host,
            limit,
            begun: SystemTime::now(),
            news,
            record: RefCell::default(),
            right: RefCell::default(),
        }
    }

    /// Returns true if, with these files and this state of the directory of records, all recorded entities were defined.
    pub(crate) fn define_all_of(&self, folder: Option<&Stamp>) -> bool {
        let right = self.right.borrow();
        !right.is_empty() && folder.is_some() && self.knows(RECORDS, fingerprint(&right, folder))
    }

    /// Records that all recorded entities are defined, given the stamp of the directory from before it was read. `are_defined` is called
    /// only if this is not recorded yet.
    pub(crate) fn found_all_of(&self, folder: &Stamp, are_defined: impl FnOnce() -> bool) {
        let right = self.right.borrow();
        let found = fingerprint(&right, Some(folder));
        if !right.is_empty() && folder.is_settled(self.begun) && !self.knows(RECORDS, found) && are_defined() {
            self.news.change(|learned| learned.records = Some(found));
        }
    }

    fn knows(&self, entry: &[u8], state: Fingerprint) -> bool {
        let open =
            || Tree::open(self.host.state_dir()).map(|state| UnchangedRecord::open(&state.place(Path::new(RECORD))));
        let mut record = self.record.borrow_mut();
        let record = record.get_or_insert_with(|| open().unwrap_or_else(|_| UnchangedRecord::none()));
        record.knows(entry, state)
    }
}

impl KnownFiles for ScannedFiles<'_> {
    fn are_right(&self, files: &[FileState]) -> bool {
        let are_right = self.limit.is_some()
            && !self.host.verifies()
            && !files.is_empty()
            && self.knows(ALL, fingerprint(files, None));
        if are_right {
            *self.right.borrow_mut() = files.to_vec();
        }
        are_right
    }

    fn found_right(&self, files: &[FileState]) {
        let begun = self.begun.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        // A second change within the same clock tick of the file system would be invisible.
        let are_settled = files.iter().all(|file| file.changed_at() + COARSEST_TICK < begun);
        let news = (are_settled && !self.knows(ALL, fingerprint(files, None))).then(|| files.to_vec());
        self.news.change(|learned| *learned = Learned { files: news, records: None });
        if are_settled {
            *self.right.borrow_mut() = files.to_vec();
        }
    }

    fn choose(&self, tables: &[(OutlinedTable<'_>, Option<TableId<'_>>)]) -> Option<Vec<bool>> {
        match self.limit? {
            ScanLimit::Prefix(prefix) => {
                Some(tables.iter().map(|(_, id)| id.is_none_or(|id| id.starts_with(prefix))).collect())
            }
            ScanLimit::Ids(ids) => Related::new(tables, self.host)?.to(ids),
            ScanLimit::Neighbours { needs, provides } => {
                Related::new(tables, self.host)?.to_neighbours(needs, provides)
            }
        }
    }
}

/// Returns the fingerprint of the files and of this program, because another version may find other errors. It may include the directory of
/// records.
fn fingerprint(files: &[FileState], folder: Option<&Stamp>) -> Fingerprint {
    let program = std::env::current_exe().and_then(std::fs::metadata);
    let program = program.map(|program| (program.ino(), program.size(), program.mtime(), program.mtime_nsec())).ok();
    Fingerprint::new(folder.copied().map(Some).as_slice(), &(files, program))
}
