//! The directories of a plugin, and the state database.

use holo_state::Database;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The file name of the state database, next to the plugins' state directories.
const DATABASE: &str = "state.db";

/// The root directory of the managed system, the plugin's own directories, and the state database.
#[derive(Clone, Debug)]
pub struct Locations {
    root: PathBuf,
    state_dir: PathBuf,
    cache_dir: PathBuf,
    database: SharedDatabase,
}

/// The state database, which all threads of a process share. It is opened on first use.
#[derive(Clone)]
pub struct SharedDatabase(Arc<Mutex<Database>>);

impl SharedDatabase {
    /// Waits until no other thread uses the database.
    pub fn lock(&self) -> MutexGuard<'_, Database> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes reads share a transaction until the result is dropped, or this process writes.
    #[must_use]
    pub fn reads(&self) -> Reads {
        self.lock().begin_reads();
        Reads(self.clone())
    }
}

/// While this exists, reads of the state database share a transaction.
#[derive(Debug)]
pub struct Reads(SharedDatabase);

impl Drop for Reads {
    fn drop(&mut self) {
        self.0.lock().end_reads();
    }
}

impl From<Database> for SharedDatabase {
    fn from(database: Database) -> SharedDatabase {
        SharedDatabase(Arc::new(Mutex::new(database)))
    }
}

impl fmt::Debug for SharedDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedDatabase")
    }
}

impl Locations {
    /// Creates the locations. The parents of the state and cache directories contain those of the other plugins.
    #[must_use]
    pub fn new(root: PathBuf, state_dir: PathBuf, cache_dir: PathBuf) -> Locations {
        let database = Database::new(database_path(&state_dir)).into();
        Locations { root, state_dir, cache_dir, database }
    }

    /// Creates the locations for a run that only reads.
    #[must_use]
    pub fn read_only(root: PathBuf, state_dir: PathBuf, cache_dir: PathBuf) -> Locations {
        let database = Database::read_only(database_path(&state_dir)).into();
        Locations { root, state_dir, cache_dir, database }
    }

    /// Returns the root directory of the managed system.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory for persistent state.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Returns the directory for temporary files of this run.
    #[must_use]
    pub fn cache_dir(&self) -> &Path {
        &self.cache_dir
    }

    /// Returns the ID of the plugin, which is the name of its state directory.
    #[must_use]
    pub fn plugin(&self) -> String {
        self.state_dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the state database.
    #[must_use]
    pub fn database(&self) -> &SharedDatabase {
        &self.database
    }
}

fn database_path(state_dir: &Path) -> PathBuf {
    state_dir.parent().unwrap_or(Path::new("")).join(DATABASE)
}
