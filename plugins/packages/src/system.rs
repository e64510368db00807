//! The system whose packages are managed, and how programs are run for it.

use crate::mock::Mock;
use crate::provider::{self, Provider};
use holo_change::error::PathError;
use holo_plugin::process::{Captured, Program};
use holo_plugin::{Host, Output, Stream};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The time limit of waiting for another process that is installing something.
const LOCK_LIMIT: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// The time limit of fetching an index or packages, unless another one is declared.
const FETCH_LIMIT: Duration = Duration::from_secs(30 * 60);
/// The time that a transaction has to finish after a signal that ends us, or after its time limit.
const FINISH_LIMIT: Duration = Duration::from_secs(30 * 60);
/// The number of lines of a failed package manager's output that are shown.
const LINES_SHOWN: usize = 20;

/// Something that did not work.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    /// The problem in one line.
    pub(crate) summary: String,
    /// The last lines of the package manager's output.
    pub(crate) lines: Vec<String>,
    /// True if it is no single package's fault, so that nothing else would work either.
    pub(crate) is_general: bool,
}

impl Problem {
    pub(crate) fn new(summary: impl Into<String>) -> Problem {
        Problem { summary: summary.into(), lines: Vec::new(), is_general: false }
    }

    /// The same problem for those that were not even tried because of it.
    pub(crate) fn for_others(&self) -> Problem {
        Problem { summary: format!("{}, so nothing more was tried", self.summary), lines: Vec::new(), ..self.clone() }
    }

    /// Tells it to the user.
    pub(crate) fn tell(&self, output: &mut Output<'_>) {
        for line in &self.lines {
            output.relay(Stream::Stderr, format!("{line}\n").as_bytes());
        }
        output.error(&self.summary);
    }
}

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
    /// The host's system. In test mode, the package manager is only asked if it can work on that root.
    pub(crate) fn new(host: &'a Host, provider: &dyn Provider) -> Result<System<'a>, Problem> {
        let mut system = System { host, root: None, mock: None, timeout: None, only_looks: false };
        if !host.test_mode() {
            return Ok(system);
        }
        if provider::can_work_on(provider, host.root()) {
            let root = fs::canonicalize(host.root());
            let failed = |error| Problem::new(PathError::new("open", host.root(), error).to_string());
            system.root = Some(root.map_err(failed)?);
        } else {
            system.mock = Some(Mock::open(host, provider)?);
        }
        Ok(system)
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
    pub(crate) fn text(&self, path: &str) -> Result<String, Problem> {
        let path = self.path(path);
        match fs::read(&path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(Problem::new(PathError::new("read", path, error).to_string())),
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

    /// Runs a program that has to end with 0.
    pub(crate) fn read(&self, program: &mut Program) -> Result<Captured, Problem> {
        let captured = self.run(program)?;
        let failure = captured.ended.failure();
        failure.map_or(Ok(captured.clone()), |failure| Err(problem(program, &failure, &captured)))
    }

    /// Runs a program, however it ends.
    pub(crate) fn run(&self, program: &mut Program) -> Result<Captured, Problem> {
        program.plain_locale();
        program.output().map_err(|error| Problem::new(error.to_string()))
    }

    /// Runs a program that fetches something: it can be cut off at any time.
    pub(crate) fn fetch(
        &self,
        program: &mut Program,
        provider: &dyn Provider,
        output: &mut Output<'_>,
    ) -> Result<(), Problem> {
        program.timeout(self.timeout.unwrap_or(FETCH_LIMIT));
        self.change(program, provider, output)
    }

    /// Runs a program that changes what is installed: once it has begun, it is let finish.
    pub(crate) fn transact(
        &self,
        program: &mut Program,
        provider: &dyn Provider,
        output: &mut Output<'_>,
    ) -> Result<(), Problem> {
        program.let_finish(FINISH_LIMIT);
        if let Some(timeout) = self.timeout {
            program.timeout(timeout);
        }
        self.change(program, provider, output)
    }

    /// Runs a program that changes something; as long as someone else is at work, again.
    fn change(&self, program: &mut Program, provider: &dyn Provider, output: &mut Output<'_>) -> Result<(), Problem> {
        if self.mock.is_some() {
            output.print(format!("MOCK: {program}\n"));
            return Ok(());
        }
        let end = Instant::now() + self.lock_limit();
        loop {
            let begun = Instant::now();
            let captured = {
                let _uninterrupted = program.is_let_finish().then(|| self.host.uninterrupted());
                self.run(program)?
            };
            let is_locked = provider.is_locked(&captured);
            let Some(failure) = captured.ended.failure() else {
                let took = begun.elapsed();
                if let Some(timeout) = self.timeout.filter(|timeout| took > *timeout) {
                    let name = name(program);
                    output.warning(format!(
                        "{name} took {took:.1?}, longer than its timeout of {timeout:?}; it was let finish"
                    ));
                }
                return Ok(());
            };
            if !is_locked || Instant::now() >= end {
                let is_general = is_locked || captured.ended.timed_out.is_some() || provider.is_general(&captured);
                return Err(Problem { is_general, ..problem(program, &failure, &captured) });
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// Repairs what is left of a transaction that was cut off, if there is any; whether there was.
    pub(crate) fn repair(&self, provider: &dyn Provider, output: &mut Output<'_>) -> Result<bool, Problem> {
        if self.mock.is_some() {
            return Ok(false);
        }
        let end = Instant::now() + self.lock_limit();
        loop {
            let Some(repair) = provider.interrupted(self)? else { return Ok(false) };
            let done = match repair.by {
                RepairBy::Running(mut program) => {
                    program.let_finish(FINISH_LIMIT);
                    let _uninterrupted = self.host.uninterrupted();
                    let captured = self.run(&mut program)?;
                    if provider.is_locked(&captured) && Instant::now() < end {
                        // It is not interrupted: someone else is at work.
                        thread::sleep(LOOK_AGAIN);
                        continue;
                    }
                    let failure = captured.ended.failure();
                    failure.map_or(Ok(()), |failure| Err(problem(&program, &failure, &captured)))
                }
                RepairBy::Removing(path) => fs::remove_file(&path)
                    .map_err(|error| Problem::new(PathError::new("remove", path, error).to_string())),
            };
            // A problem of a single package is no reason to stop here.
            return match (done, provider.interrupted(self)?) {
                (Err(problem), Some(_)) => Err(Problem { is_general: true, ..problem }),
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

/// The repair of an interrupted package manager.
pub(crate) struct Repair {
    /// The words for what was found and done.
    pub(crate) said: String,
    pub(crate) by: RepairBy,
}

/// The means of a repair.
pub(crate) enum RepairBy {
    /// A program of the package manager.
    Running(Box<Program>),
    /// A file that was left behind goes.
    Removing(PathBuf),
}

fn name(program: &Program) -> String {
    program.to_string().split(' ').next().unwrap_or_default().to_owned()
}

/// Returns the problem of a program that failed.
pub(crate) fn problem(program: &Program, failure: &str, captured: &Captured) -> Problem {
    let lines = captured.ended.last_lines(LINES_SHOWN);
    Problem { summary: format!("{}: {failure}", name(program)), lines, is_general: false }
}
