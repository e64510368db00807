//! Definition files that are known to be right: of those, a limited scan reads only what it is about.
//!
//! They are known by a record of the state in which they were when nothing was wrong in them. If it is lost, they are read as a whole again.

mod related;

use bstr::ByteSlice;
use holo_change::{Fingerprint, Tree, UnchangedRecord};
use holo_plugin::definitions::{FileState, KnownFiles, OutlinedTable};
use holo_plugin::{Host, ScanLimit};
use related::Related;
use std::cell::RefCell;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The file of the record in the state directory, and its name until it is whole.
const RECORD: &str = ".definitions";
const STAGED: &str = ".definitions.new";
/// The only entry of the record.
const ALL: &[u8] = b"definitions";
/// No clock of a file system has a tick longer than this, in seconds.
const COARSEST_TICK: u64 = 2;

/// The news for the record, from a scan to the next apply.
#[derive(Debug, Default)]
pub(crate) struct News(Mutex<Option<Vec<FileState>>>);

impl News {
    /// Forgets the news, as something else is wrong that is to be said again.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Keeps for the next scan that nothing is wrong in the files as they are. Whatever cannot be kept costs no more than time.
    pub(crate) fn keep(&self, host: &Host) {
        let news = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (Some(files), Ok(state)) = (news, Tree::open(host.state_dir())) else { return };
        let place = state.place(Path::new(RECORD));
        let mut record = UnchangedRecord::open(&place);
        if files.is_empty() {
            record.forget(ALL);
        } else {
            record.insert(ALL, fingerprint(&files));
        }
        record.keep(&place, &state.place(Path::new(STAGED)));
    }
}

/// The definition files of a scan.
pub(crate) struct ScannedFiles<'a> {
    host: &'a Host,
    /// None for a whole scan.
    limit: Option<ScanLimit<'a>>,
    begun: SystemTime,
    news: &'a News,
    record: RefCell<Option<UnchangedRecord>>,
}

impl<'a> ScannedFiles<'a> {
    pub(crate) fn new(host: &'a Host, limit: Option<ScanLimit<'a>>, news: &'a News) -> ScannedFiles<'a> {
        ScannedFiles { host, limit, begun: SystemTime::now(), news, record: RefCell::new(None) }
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
        // A second change within the same tick of the file system's clock would not show.
        let are_settled = files.iter().all(|file| file.changed_at() + COARSEST_TICK < begun);
        let news = (are_settled && !self.knows(files)).then(|| files.to_vec());
        *self.news.0.lock().unwrap_or_else(PoisonError::into_inner) = news;
    }

    fn choose(&self, tables: &[(OutlinedTable<'_>, Option<String>)]) -> Option<Vec<bool>> {
        match self.limit? {
            ScanLimit::Prefix(prefix) => {
                let begins = |id: &String| id.as_bytes().starts_with_str(prefix);
                Some(tables.iter().map(|(_, id)| id.as_ref().is_none_or(begins)).collect())
            }
            ScanLimit::Ids(ids) => Related::new(tables, self.host)?.to(ids),
            ScanLimit::Neighbours { needs, provides } => {
                Related::new(tables, self.host)?.to_neighbours(needs, provides)
            }
        }
    }
}

/// Returns the fingerprint of files, and of the program that has read them: another one may find something wrong.
fn fingerprint(files: &[FileState]) -> Fingerprint {
    let program = std::env::current_exe().and_then(std::fs::metadata);
    let program = program.map(|program| (program.ino(), program.size(), program.mtime(), program.mtime_nsec())).ok();
    Fingerprint::new(&[], &(files, program))
}
