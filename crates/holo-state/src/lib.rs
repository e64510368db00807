//! The state database: records, contents, directories, refreshes, values, repairs and runs, for which version 3 has no format.
//!
//! One SQLite file, `var/lib/holo/state.db`, which every process of a run may open. It is created by the first write, readable by its owner only,
//! and removed when it is empty.
//!
//! Writes are short transactions. SQLite's write-ahead log makes each of them atomic, whatever kills the process; [`Durability`] says
//! whether it also has to survive a loss of power. Readers see one snapshot and neither block a writer nor wait for it.

mod blobs;
mod directories;
mod error;
mod export;
mod generations;
mod maintenance;
mod records;
mod refreshes;
mod remembered;
mod repairs;
mod runs;
mod values;

pub use error::{Damage, StateError};
pub use export::ImportError;
pub use generations::Input;
pub use maintenance::{Repaired, TableSize};
pub use records::RecordChange;
pub use refreshes::Refresh;
pub use remembered::{Remembered, Settled};
pub use runs::{RunHeader, RunLimits};
pub use values::SentValue;

use error::Problem;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use rustix::fs::{AtFlags, CWD, OFlags};
use std::cell::{Cell, Ref, RefCell};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The version of the schema, kept as `PRAGMA user_version`.
const VERSION: i64 = 1;
/// Marks the file as ours for file(1), as `PRAGMA application_id`: "holo".
const APPLICATION_ID: i64 = 0x686f_6c6f;
/// How long to wait for another process that is writing. Transactions take milliseconds, so a longer wait means that a process is stuck.
const PATIENCE: Duration = Duration::from_secs(10);

/// The size of a log that is moved into the database at the end of a run. Each process that opens the database reads the log first.
const LARGE_LOG: u64 = 256 << 10;

/// The number of attempts to open a database that other processes keep removing.
const REOPENINGS: usize = 8;

/// What a transaction survives once it is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process. A loss of power may undo the transaction, and those after it.
    Process,
    /// A loss of power, too: the commit waits for the disk, and so do all transactions before it.
    Disk,
}

/// A value that differs after any change of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeCounter(Option<((i64, u64), (u64, u64))>);

/// Whether a connection may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// It may not, and all reads see the state of the first one.
    Snapshot,
    Read,
    Write,
}

/// The state database of a root, opened when it is first needed.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
    access: Access,
    connection: RefCell<Option<Connection>>,
    /// The device and inode of the file that the connection has open.
    opened: Cell<Option<(u64, u64)>>,
    /// The durability that the connection is set to.
    durability: Cell<Option<Durability>>,
    /// The number of callers that want reads to share a transaction.
    readers: Cell<usize>,
    /// Whether such a transaction is open.
    is_shared: Cell<bool>,
}

impl Database {
    /// Returns the database at a path, for reading and writing.
    #[must_use]
    pub fn new(path: PathBuf) -> Database {
        Database::with_access(path, Access::Write)
    }

    /// Returns the database at a path, for reading.
    #[must_use]
    pub fn read_only(path: PathBuf) -> Database {
        Database::with_access(path, Access::Read)
    }

    /// Returns the database at a path, for reading. All reads see the state of the first one.
    #[must_use]
    pub fn snapshot(path: PathBuf) -> Database {
        Database::with_access(path, Access::Snapshot)
    }

    fn with_access(path: PathBuf, access: Access) -> Database {
        let (connection, opened, durability, readers, is_shared) = Default::default();
        Database { path, access, connection, opened, durability, readers, is_shared }
    }

    /// Returns the path of the database.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the files of the database: itself, its write-ahead log and the index of that.
    fn files(&self) -> [PathBuf; 3] {
        ["", "-wal", "-shm"].map(|suffix| {
            let mut path = self.path.clone().into_os_string();
            path.push(suffix);
            path.into()
        })
    }

    /// Runs a query. `None` if there is no database.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<Option<T>, StateError> {
        let Some(connection) = self.existing()? else { return Ok(None) };
        let run = || {
            if self.readers.get() > 0 && self.access != Access::Snapshot && !self.is_shared.get() {
                connection.execute_batch("BEGIN")?;
                self.is_shared.set(true);
            }
            work(&connection).map(Some)
        };
        run().map_err(|error| self.error(error))
    }

    /// Makes reads share a transaction until this process writes, or [`Database::end_reads`] has been called as often as this function. A
    /// read in a transaction of its own costs three system calls. Reads may miss what other processes write meanwhile.
    pub fn begin_reads(&self) {
        self.readers.set(self.readers.get() + 1);
    }

    /// Ends what [`Database::begin_reads`] has begun.
    pub fn end_reads(&self) {
        self.readers.set(self.readers.get().saturating_sub(1));
        if self.readers.get() == 0 {
            self.end_shared();
        }
    }

    /// Ends the transaction that reads share.
    fn end_shared(&self) {
        if self.is_shared.take()
            && let Some(connection) = self.connection.borrow().as_ref()
        {
            // This fails only if an error has ended the transaction.
            let _ = connection.execute_batch("COMMIT");
        }
    }

    /// Runs a transaction that writes. It is committed if `work` succeeds, and otherwise leaves no trace.
    fn write<T>(
        &self,
        durability: Durability,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StateError> {
        self.end_shared();
        for _ in 0..REOPENINGS {
            self.create()?;
            let connection = self.connection.borrow();
            let Some(connection) = connection.as_ref() else { continue };
            if self.durability.get() != Some(durability) {
                let level = if durability == Durability::Disk { "FULL" } else { "NORMAL" };
                connection.pragma_update(None, "synchronous", level).map_err(|error| self.error(error))?;
                self.durability.set(Some(durability));
            }
            let begun = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
            let transaction = begun.map_err(|error| self.error(error))?;
            // Another process may have removed the empty database while this one waited for the lock.
            if self.on_disk()? != self.opened.get() {
                continue;
            }
            let run = || {
                let value = work(&transaction)?;
                transaction.commit()?;
                Ok(value)
            };
            return run().map_err(|error| self.error(error));
        }
        Err(self.problem(Problem::Vanished))
    }

    /// Returns the device and inode of the file; `None` if there is none, or one whose creation was cut short.
    fn on_disk(&self) -> Result<Option<(u64, u64)>, StateError> {
        match fs::metadata(&self.path) {
            Ok(metadata) if metadata.len() == 0 => Ok(None),
            Ok(metadata) => Ok(Some((metadata.dev(), metadata.ino()))),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(self.problem(Problem::Io(error))),
        }
    }

    /// Returns a value that differs after any change of the database, within this process.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn change_counter(&self) -> Result<ChangeCounter, StateError> {
        let read = self.read(|connection| {
            // The first counts the commits of other connections.
            let others: i64 = connection.pragma_query_value(None, "data_version", |row| row.get(0))?;
            Ok((others, connection.total_changes()))
        });
        Ok(ChangeCounter(read?.zip(self.opened.get())))
    }

    /// Waits until everything that was committed is on disk.
    ///
    /// # Errors
    /// If the write-ahead log cannot be synced.
    pub fn sync(&self) -> Result<(), StateError> {
        if self.connection.borrow().is_none() || self.durability.get() != Some(Durability::Process) {
            return Ok(());
        }
        // SQLite locks neither this file nor its descriptors, so opening and closing it disturbs no lock.
        let [_, log, _] = self.files();
        let synced = match File::open(&log) {
            Ok(file) => file.sync_data(),
            // Everything has been moved into the database itself, which was synced.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        synced.map_err(|error| self.problem(Problem::Io(error)))
    }

    /// Leaves the files as small as they can be at the end of a run: removes a database without data, and moves a large log into the
    /// database. Call it only while holding the lock of the root.
    ///
    /// # Errors
    /// If the database cannot be read or written, or a file cannot be removed.
    pub fn tidy(&self) -> Result<(), StateError> {
        self.end_shared();
        match self.read(is_empty)? {
            None => Ok(()),
            Some(true) => {
                let removed =
                    self.write(Durability::Process, |_| Ok(self.files().iter().try_for_each(|file| remove(file))))?;
                self.close();
                removed.map_err(|error| self.problem(Problem::Io(error)))
            }
            Some(false) => {
                let [_, log, _] = self.files();
                if fs::metadata(log).is_ok_and(|log| log.len() > LARGE_LOG) {
                    // A reader may keep it from being emptied. Then the next run tries again.
                    self.read(|connection| connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())))?;
                }
                Ok(())
            }
        }
    }

    /// Closes the connection. The next use opens the database again.
    fn close(&self) {
        *self.connection.borrow_mut() = None;
        self.opened.set(None);
        self.durability.set(None);
        self.is_shared.set(false);
    }

    /// Returns the connection to a database that exists. A database that was removed or replaced since it was opened is opened again.
    fn existing(&self) -> Result<Option<Ref<'_, Connection>>, StateError> {
        let on_disk = if self.is_shared.get() { self.opened.get() } else { self.on_disk()? };
        if self.opened.get() != on_disk || on_disk.is_none() {
            self.close();
            if on_disk.is_none() {
                return Ok(None);
            }
            let connection = self.connect()?;
            self.opened.set(if connection.is_some() { on_disk } else { None });
            *self.connection.borrow_mut() = connection;
        }
        Ok(Ref::filter_map(self.connection.borrow(), Option::as_ref).ok())
    }

    /// Connects to a file that exists. `None` if it has no tables yet.
    fn connect(&self) -> Result<Option<Connection>, StateError> {
        // SQLite only says that it cannot open a file, not why. Opening and closing the file here would release the locks of other
        // connections of this process.
        let may_read = rustix::fs::accessat(CWD, &self.path, rustix::fs::Access::READ_OK, AtFlags::EACCESS);
        may_read.map_err(|error| self.problem(Problem::Io(error.into())))?;
        let may_write = self.access == Access::Write
            && rustix::fs::accessat(CWD, &self.path, rustix::fs::Access::WRITE_OK, AtFlags::EACCESS).is_ok();
        let connection = match may_write {
            true => configured(&self.path, OpenFlags::SQLITE_OPEN_READ_WRITE),
            false => self.connect_to_read(),
        };
        let connection = connection.map_err(|error| self.error(error))?;
        match version(&connection).map_err(|error| self.error(error))? {
            0 => Ok(None),
            VERSION => Ok(Some(connection)),
            version => Err(self.problem(Problem::Version(version))),
        }
    }

    fn connect_to_read(&self) -> rusqlite::Result<Connection> {
        let begin = if self.access == Access::Snapshot { "BEGIN;" } else { "" };
        let begin = format!("{begin} SELECT 1 FROM sqlite_schema LIMIT 1;");
        let connection = configured(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        match connection.execute_batch(&begin) {
            Ok(()) => Ok(connection),
            // On a read-only file system, the index of the log cannot be created. Because no process can write there either, the file can be
            // read as it is.
            Err(error) if is_unwritable(&error) => {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
                let connection = configured(Path::new(&immutable_uri(&self.path)), flags)?;
                connection.execute_batch(&begin)?;
                Ok(connection)
            }
            Err(error) => Err(error),
        }
    }

    /// Creates the database where it is missing, and its tables.
    fn create(&self) -> Result<(), StateError> {
        if self.existing()?.is_some() {
            return Ok(());
        }
        let io = |error| self.problem(Problem::Io(error));
        if let Some(folder) = self.path.parent()
            && !folder.exists()
        {
            let above = folder.parent().unwrap_or(folder);
            fs::create_dir_all(above).map_err(io)?;
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io)?;
            // SQLite syncs the directory of the database, but not its parent.
            File::open(above).and_then(|above| above.sync_all()).map_err(io)?;
        }
        // SQLite would create it readable for everyone. Its other files get the mode of this one.
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        match options.open(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io(error)),
            Ok(_) | Err(_) => {}
        }
        // If another process replaces the file before it is opened, the next use notices.
        let created = fs::metadata(&self.path).map_err(io)?;
        let create = || {
            let connection = configured(&self.path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            // Both only count before the first table.
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            let transaction = Transaction::new_unchecked(&connection, TransactionBehavior::Immediate)?;
            // Another process may have been faster.
            if version(&transaction)? == 0 {
                transaction.execute_batch(include_str!("schema.sql"))?;
                transaction.execute_batch(repairs::TABLE)?;
                transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
                transaction.pragma_update(None, "user_version", VERSION)?;
            }
            transaction.commit()?;
            Ok(connection)
        };
        let begun = Instant::now();
        let connection = loop {
            match create() {
                // SQLite does not wait for a lock when it changes the mode of the journal, because two processes that hold a read lock
                // would wait for each other.
                Err(error) if is_busy(&error) && begun.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(1)),
                created => break created.map_err(|error| self.error(error))?,
            }
        };
        *self.connection.borrow_mut() = Some(connection);
        self.opened.set(Some((created.dev(), created.ino())));
        self.durability.set(None);
        Ok(())
    }

    fn error(&self, error: rusqlite::Error) -> StateError {
        self.problem(Problem::from(error))
    }

    fn problem(&self, problem: Problem) -> StateError {
        StateError::new(&self.path, problem)
    }
}

fn configured(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(PATIENCE)?;
    // Moving the log into the database waits for the disk. SQLite does it when the log has grown; doing it at the end of every run would
    // cost runs without changes the most.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // Values may be secrets, so deleted ones are overwritten.
    connection.pragma_update(None, "secure_delete", true)?;
    Ok(connection)
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    for table in export::table_names(connection)? {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM \"{table}\")");
        if connection.query_row(&sql, [], |row| row.get(0))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

fn is_unwritable(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly};
    matches!(error.sqlite_error_code(), Some(CannotOpen | ReadOnly))
}

/// Returns the URI by which SQLite reads a file without creating another one.
fn immutable_uri(path: &Path) -> String {
    let escaped = path.as_os_str().as_bytes().iter().map(|byte| match byte {
        b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(*byte).to_string(),
        byte => format!("%{byte:02x}"),
    });
    format!("file:{}?immutable=1", escaped.collect::<String>())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
