//! The system whose packages are managed. It runs the programs of its package manager, and retries while another process has the lock.

use crate::mock::Mock;
use crate::model::{Installed, PackageError, name};
use crate::providers::{PackageProvider, RepairBy};
use holo_change::error::PathError;
use holo_plugin::process::{self, Captured, Program};
use holo_plugin::system::Root;
use holo_plugin::{Host, Output};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// The default timeout for downloads and for queries, some of which download files.
const FETCH_LIMIT: Duration = Duration::from_secs(30 * 60);
/// The minimum timeout of a query. A shorter `timeout` in a definition is meant for the transaction.
const LEAST_LIMIT: Duration = Duration::from_secs(10);
/// The maximum time to wait for another process that has locked the package manager.
const LOCK_LIMIT: Duration = Duration::from_secs(120);

const LOOK_AGAIN: Duration = Duration::from_millis(500);

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
}

impl<'a> System<'a> {
    /// Creates the host's own system.
    pub(crate) fn new(host: &'a Host) -> System<'a> {
        System { host, root: None, mock: None, timeout: None, only_looks: false }
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

    /// Returns the time limit for locks. It is less than the whole timeout, so that there is time left to report the problem.
    pub(crate) fn lock_limit(&self) -> Duration {
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

/// The time that a transaction has to finish after its timeout, or after a signal to the plugin.
const FINISH_LIMIT: Duration = Duration::from_secs(30 * 60);

/// A package manager and the system that it works on.
pub(crate) struct Manager<'a> {
    pub(crate) provider: &'static dyn PackageProvider,
    pub(crate) system: System<'a>,
}

impl<'a> Manager<'a> {
    /// Creates the manager of the host's system. In test mode, the real manager is used only if it can work on that root.
    pub(crate) fn new(host: &'a Host, provider: &'static dyn PackageProvider) -> Result<Manager<'a>, PackageError> {
        let system = if !host.test_mode() {
            System::new(host)
        } else if can_work_on(provider, &Root::new(host.root())) {
            System::below_root(host)?
        } else {
            let native = provider.native_arch(&Root::new(host.root()));
            System::mocked(host, Mock::open(host, provider.name(), native)?)
        };
        Ok(Manager { provider, system })
    }

    pub(crate) fn installed(&self) -> Result<Installed, PackageError> {
        self.system.mock.as_ref().map_or_else(|| self.provider.installed(&self.system), |mock| Ok(mock.installed()))
    }

    /// Returns true if the index was refreshed in this run.
    pub(crate) fn has_refreshed(&self) -> bool {
        self.marker().exists()
    }

    /// Refreshes the index.
    pub(crate) fn refresh(&self, output: &mut Output<'_>) -> Result<(), PackageError> {
        let refreshed = self.provider.refresh(&self.system);
        let refreshed = refreshed.and_then(|mut program| self.fetch(&mut program, output));
        if refreshed.is_ok() && self.system.mock.is_none() {
            self.note_index();
        }
        // Without the marker, the index is refreshed once more than necessary.
        let _ = fs::create_dir_all(self.system.cache_dir()).and_then(|()| fs::write(self.marker(), ""));
        refreshed
    }

    fn marker(&self) -> PathBuf {
        self.system.cache_dir().join(format!("refreshed-{}", self.provider.name()))
    }

    /// Runs a program that downloads files. It can be terminated at any time.
    pub(crate) fn fetch(&self, program: &mut Program, output: &mut Output<'_>) -> Result<(), PackageError> {
        program.timeout(self.system.fetch_limit());
        self.change(program, output)
    }

    /// Runs a program that changes installed packages. Once started, it is not terminated before [`FINISH_LIMIT`].
    pub(crate) fn transact(&self, program: &mut Program, output: &mut Output<'_>) -> Result<(), PackageError> {
        program.let_finish(FINISH_LIMIT).timeout(self.system.timeout);
        self.change(program, output)
    }

    /// Runs a program that makes changes. Retries while another process has locked the package manager.
    fn change(&self, program: &mut Program, output: &mut Output<'_>) -> Result<(), PackageError> {
        if self.system.mock.is_some() {
            output.print(format!("MOCK: {program}\n"));
            return Ok(());
        }
        let mut took = Duration::ZERO;
        let captured = self.system.wait_for_others(
            |captured| self.provider.is_locked(captured),
            || {
                let begun = Instant::now();
                let _uninterrupted = program.is_let_finish().then(|| self.system.host().uninterrupted());
                let captured = self.system.run(program);
                took = begun.elapsed();
                captured
            },
        )?;
        let Some(failure) = captured.ended.failure() else {
            if let Some(timeout) = self.system.timeout.filter(|timeout| took > *timeout) {
                let name = name(program);
                output.warning(format!(
                    "{name} took {took:.1?}, longer than its timeout of {timeout:?}, but was not interrupted"
                ));
            }
            return Ok(());
        };
        let is_locked = self.provider.is_locked(&captured);
        let is_general = is_locked || captured.ended.timed_out.is_some() || self.provider.is_general(&captured);
        Err(PackageError { is_general, ..PackageError::from_program(program, &failure, &captured) })
    }

    /// Repairs the state after an interrupted transaction. Returns false if no repair was needed.
    pub(crate) fn repair(&self, output: &mut Output<'_>) -> Result<bool, PackageError> {
        if self.system.mock.is_some() {
            return Ok(false);
        }
        let end = Instant::now() + self.system.lock_limit();
        loop {
            let Some(repair) = self.provider.interrupted(&self.system)? else { return Ok(false) };
            let done = match repair.by {
                RepairBy::Running(mut program) => {
                    program.let_finish(FINISH_LIMIT);
                    let _uninterrupted = self.system.host().uninterrupted();
                    let captured = self.system.run(&mut program)?;
                    if self.provider.is_locked(&captured) && Instant::now() < end {
                        // The transaction is not interrupted, but still running in another process.
                        thread::sleep(LOOK_AGAIN);
                        continue;
                    }
                    let failure = captured.ended.failure();
                    failure.map_or(Ok(()), |failure| Err(PackageError::from_program(&program, &failure, &captured)))
                }
                RepairBy::Removing(path) => fs::remove_file(&path)
                    .map_err(|error| PackageError::new(PathError::new("remove", path, error).to_string())),
            };
            // The error of a single package must not stop the others.
            return match (done, self.provider.interrupted(&self.system)?) {
                (Err(problem), Some(_)) => Err(PackageError { is_general: true, ..problem }),
                (Err(problem), None) => {
                    problem.lines.iter().chain([&problem.summary]).for_each(|line| output.warning(line));
                    Ok(true)
                }
                (Ok(()), _) => {
                    output.warning(repair.said);
                    Ok(true)
                }
            };
        }
    }
}

/// Returns true if a provider can work on a root other than that of the system.
fn can_work_on(provider: &dyn PackageProvider, root: &Root) -> bool {
    let manager = provider.manager();
    let may_begin = provider.begins_from_nothing() && manager.has_configuration(root);
    (manager.has_database(root) || may_begin) && process::find(manager.program).is_some()
}
