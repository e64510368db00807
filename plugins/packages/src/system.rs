//! The system whose packages are managed.

use crate::error::PackageError;
use crate::mock::Mock;
use holo_change::error::PathError;
use holo_plugin::Host;
use holo_plugin::process::{Captured, Program};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The time limit of fetching an index or packages, and of questions, which may have to fetch something: unless another one is declared.
const FETCH_LIMIT: Duration = Duration::from_secs(30 * 60);
/// The least time that a question has, whatever is declared: that is for a transaction.
const LEAST_LIMIT: Duration = Duration::from_secs(10);
/// The time limit of waiting for another process that is installing something.
const LOCK_LIMIT: Duration = Duration::from_secs(120);

pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A system, and the package manager that it has.
pub(crate) struct System<'a> {
    host: &'a Host,
    /// The root that the package manager is told to work on; none if it is the one that it works on anyway.
    root: Option<PathBuf>,
    /// The substitute for a package manager that is not there.
    pub(crate) mock: Option<Mock>,
    /// The time limit of a transaction.
    pub(crate) timeout: Option<Duration>,
    /// True if nothing is fetched, as nothing shall change.
    pub(crate) only_looks: bool,
}

impl<'a> System<'a> {
    /// The host's own system.
    pub(crate) fn new(host: &'a Host) -> System<'a> {
        System { host, root: None, mock: None, timeout: None, only_looks: false }
    }

    /// The system below a root that the package manager has to be told of.
    pub(crate) fn below_root(host: &'a Host) -> Result<System<'a>, PackageError> {
        let root = fs::canonicalize(host.root());
        let root = root.map_err(|error| PackageError::new(PathError::new("open", host.root(), error).to_string()))?;
        Ok(System { root: Some(root), ..System::new(host) })
    }

    /// A system without a package manager, for which something else stands.
    pub(crate) fn mocked(host: &'a Host, mock: Mock) -> System<'a> {
        System { mock: Some(mock), ..System::new(host) }
    }

    pub(crate) fn host(&self) -> &Host {
        self.host
    }

    /// The root that has to be named to the package manager, if any.
    pub(crate) fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// A path of the system.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.as_deref().unwrap_or(Path::new("/")).join(path)
    }

    /// A file of the system, as text; empty if there is none.
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

    /// Returns the time limit of waiting for others: less than the whole, so that there is time left to say so.
    pub(crate) fn lock_limit(&self) -> Duration {
        self.timeout.map_or(LOCK_LIMIT, |timeout| timeout.mul_f32(0.9).min(LOCK_LIMIT))
    }

    /// Returns the time limit of fetching something.
    pub(crate) fn fetch_limit(&self) -> Duration {
        self.timeout.unwrap_or(FETCH_LIMIT)
    }

    /// Runs a program that answers a question, and has to end with 0.
    pub(crate) fn read(&self, program: &mut Program) -> Result<Captured, PackageError> {
        let captured = self.ask(program)?;
        succeeded(program, captured)
    }

    /// Runs a program that only reads what is on this machine, and has to end with 0. It needs no limit, which would cost two processes.
    pub(crate) fn read_local(&self, program: &mut Program) -> Result<Captured, PackageError> {
        let captured = self.run(program)?;
        succeeded(program, captured)
    }

    /// Runs a program that answers a question, however it ends, but not for ever: some fetch what they need, or wait for others by themselves.
    pub(crate) fn ask(&self, program: &mut Program) -> Result<Captured, PackageError> {
        self.run(program.timeout(self.fetch_limit().max(LEAST_LIMIT)))
    }

    /// Does something; as long as another process is at work, again.
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

    /// Runs a program, however it ends.
    pub(crate) fn run(&self, program: &mut Program) -> Result<Captured, PackageError> {
        program.plain_locale();
        program.output().map_err(|error| PackageError::new(error.to_string()))
    }
}

/// Returns what a program has said if it has ended with 0.
fn succeeded(program: &Program, captured: Captured) -> Result<Captured, PackageError> {
    match captured.ended.failure() {
        None => Ok(captured),
        Some(failure) => Err(PackageError::from_program(program, &failure, &captured)),
    }
}
