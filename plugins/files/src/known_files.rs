//! Definition files that are known to be valid. A limited scan reads only the relevant parts of those.
//!
//! They are recorded with the state that they had when they were found to be valid. Without the record, they are read completely.

mod related;

use holo_change::{Fingerprint, Tree, UnchangedRecord};
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
/// The entry of the record.
const ALL: &[u8] = b"definitions";
/// No clock of a file system has a tick longer than this, in seconds.
const COARSEST_TICK: u64 = 2;

/// The definition files that a scan has found to be right, for the record, which the next apply writes.
#[derive(Debug, Default)]
pub(crate) struct News(Mutex<Option<Vec<FileState>>>);

impl News {
    fn set(&self, files: Option<Vec<FileState>>) -> Option<Vec<FileState>> {
        mem::replace(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), files)
    }

    /// Forgets the files, because of another problem that must be reported again.
    pub(crate) fn forget(&self) {
        self.set(None);
    }

    /// Writes the record. Without it, the next scan reads all files.
    pub(crate) fn keep(&self, host: &Host) {
        let Some(files) = self.set(None) else { return };
        let Ok(state) = Tree::open(host.state_dir()) else { return };
        let place = state.place(Path::new(RECORD));
        let mut record = UnchangedRecord::open(&place);
        match files.is_empty() {
            true => record.forget(ALL),
            false => record.insert(ALL, fingerprint(&files)),
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
}

impl<'a> ScannedFiles<'a> {
    pub(crate) fn new(host: &'a Host, limit: Option<ScanLimit<'a>>, news: &'a News) -> ScannedFiles<'a> {
        ScannedFiles { host, limit, begun: SystemTime::now(), news, record: RefCell::default() }
    }

    fn knows(&self, files: &[FileState]) -> bool {
        let open =
            || Tree::open(self.host.state_dir()).map(|state| UnchangedRecord::open(&state.place(Path::new(RECORD))));
        let mut record = self.record.borrow_mut();
        let record = record.get_or_insert_with(|| open().unwrap_or_else(|_| UnchangedRecord::none()));
        record.knows(ALL, fingerprint(files))
    }
}

impl KnownFiles for ScannedFiles<'_> {
    fn are_right(&self, files: &[FileState]) -> bool {
        self.limit.is_some() && !self.host.verifies() && !files.is_empty() && self.knows(files)
    }

    fn found_right(&self, files: &[FileState]) {
        let begun = self.begun.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        // A second change within the same clock tick of the file system would be invisible.
        let are_settled = files.iter().all(|file| file.changed_at() + COARSEST_TICK < begun);
        self.news.set((are_settled && !self.knows(files)).then(|| files.to_vec()));
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

/// Returns the fingerprint of files, and of the program that has read them: another one may find a problem.
fn fingerprint(files: &[FileState]) -> Fingerprint {
    let program = std::env::current_exe().and_then(std::fs::metadata);
    let program = program.map(|program| (program.ino(), program.size(), program.mtime(), program.mtime_nsec())).ok();
    Fingerprint::new(&[], &(files, program))
}
