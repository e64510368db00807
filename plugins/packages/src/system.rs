//! The system whose packages are managed.

use crate::mock::Mock;
use crate::model::PackageError;
use holo_change::error::PathError;
use holo_plugin::Host;
use holo_plugin::process::{Captured, Program};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// The default timeout for downloads and for queries, some of which download files.
const FETCH_LIMIT: Duration = Duration::from_secs(30 * 60);
/// The minimum timeout of a query. A shorter `timeout` in a definition is meant for the transaction.
const LEAST_LIMIT: Duration = Duration::from_secs(10);
/// The maximum time to wait for another process that has locked the package manager.
const LOCK_LIMIT: Duration = Duration::from_secs(120);

pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A system and how its package manager is run.
pub(crate) struct System<'a> {
    host: &'a Host,
    /// The root to pass to the package manager, or `None` if it is the default.
    root: Option<PathBuf>,
    /// The mock of a missing package manager.
    pub(crate) mock: Option<Mock>,
    /// The timeout of a transaction.
    pub(crate) timeout: Option<Duration>,
    /// True if nothing may be downloaded because nothing may change.
    pub(crate) only_looks: bool,
    /// The program in whose transaction holo runs. It holds the lock of the package manager.
    pub(crate) inside: Option<&'static str>,
}

impl<'a> System<'a> {
    /// Creates the host's own system.
    pub(crate) fn new(host: &'a Host) -> System<'a> {
        System { host, root: None, mock: None, timeout: None, only_looks: false, inside: None }
    }

    /// Creates a system below a root that has to be passed to the package manager.
    pub(crate) fn below_root(host: &'a Host) -> Result<System<'a>, PackageError> {
        let root = fs::canonicalize(host.root());
        let root = root.map_err(|error| PackageError::new(PathError::new("open", host.root(), error).to_string()))?;
        Ok(System { root: Some(root), ..System::new(host) })
    }

    /// Creates a system with a mock package manager.
    pub(crate) fn mocked(host: &'a Host, mock: Mock) -> System<'a> {
        System { mock: Some(mock), ..System::new(host) }
    }

    pub(crate) fn host(&self) -> &Host {
        self.host
    }

    /// Returns the root that has to be passed to the package manager, if any.
    pub(crate) fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// Returns a path of the system.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.as_deref().unwrap_or(Path::new("/")).join(path)
    }

    /// Reads a file of the system as text. A missing file is empty.
    pub(crate) fn text(&self, path: &str) -> Result<String, PackageError> {
        let path = self.path(path);
        match fs::read(&path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(PackageError::new(PathError::new("read", path, error).to_string())),
        }
    }

    /// Returns the directory for files that are kept until the end of the run.
    pub(crate) fn cache_dir(&self) -> &Path {
        self.host.cache_dir()
    }

    /// Returns the time limit for locks. It is less than the whole timeout, so that there is time left to report the problem. A lock that is
    /// held until holo exits is not waited for.
    pub(crate) fn lock_limit(&self) -> Duration {
        if self.inside.is_some() {
            return Duration::ZERO;
        }
        self.timeout.map_or(LOCK_LIMIT, |timeout| timeout.mul_f32(0.9).min(LOCK_LIMIT))
    }

    /// Returns the timeout for downloads.
    pub(crate) fn fetch_limit(&self) -> Duration {
        self.timeout.unwrap_or(FETCH_LIMIT)
    }

    /// Runs a query, which must exit with 0.
    pub(crate) fn read(&self, program: &mut Program) -> Result<Captured, PackageError> {
        let captured = self.ask(program)?;
        succeeded(program, captured)
    }

    /// Runs a query that only reads local files and must exit with 0. It has no timeout, because that would cost two processes.
    pub(crate) fn read_local(&self, program: &mut Program) -> Result<Captured, PackageError> {
        let captured = self.run(program)?;
        succeeded(program, captured)
    }

    /// Runs a query with any exit status. It has a timeout because some queries download files or wait for locks.
    pub(crate) fn ask(&self, program: &mut Program) -> Result<Captured, PackageError> {
        self.run(program.timeout(self.fetch_limit().max(LEAST_LIMIT)))
    }

    /// Calls `work`, and repeats it while another process has locked the package manager.
    pub(crate) fn wait_for_others(
        &self,
        is_locked: impl Fn(&Captured) -> bool,
        mut work: impl FnMut() -> Result<Captured, PackageError>,
    ) -> Result<Captured, PackageError> {
        let end = Instant::now() + self.lock_limit();
        loop {
            let captured = work()?;
            if !is_locked(&captured) || Instant::now() >= end {
                return Ok(captured);
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// Runs a program with any exit status.
    pub(crate) fn run(&self, program: &mut Program) -> Result<Captured, PackageError> {
        program.plain_locale();
        program.output().map_err(|error| PackageError::new(error.to_string()))
    }
}

/// Returns the output of a program that has exited with 0.
fn succeeded(program: &Program, captured: Captured) -> Result<Captured, PackageError> {
    match captured.ended.failure() {
        None => Ok(captured),
        Some(failure) => Err(PackageError::from_program(program, &failure, &captured)),
    }
}
