//! The system whose packages are managed, and how programs are run for it.

use crate::mock::Mock;
use crate::provider::{self, Provider};
use holo_plugin::error::PathError;
use holo_plugin::process::{Captured, Program};
use holo_plugin::{Host, Output, Stream};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How long it is waited for someone else who is installing something.
const LOCK_LIMIT: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How much of what a package manager says is shown when it fails.
const LINES_SHOWN: usize = 20;

/// Something that did not work.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    /// What, in a line.
    pub(crate) summary: String,
    /// What the package manager has said last.
    pub(crate) lines: Vec<String>,
}

impl Problem {
    pub(crate) fn new(summary: impl Into<String>) -> Problem {
        Problem { summary: summary.into(), lines: Vec::new() }
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
    /// What stands for a package manager that is not there.
    pub(crate) mock: Option<Mock>,
    /// How long a transaction may take.
    pub(crate) timeout: Option<Duration>,
    /// Whether nothing is fetched: nothing shall change.
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
            system.mock = Some(Mock::open(host, provider.name())?);
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

    /// Where something can be kept until the end of the run.
    pub(crate) fn cache_dir(&self) -> &Path {
        self.host.cache_dir()
    }

    /// How long others are waited for: not until the very end, so that it can be said that they were.
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

    /// Runs a program that changes something; as long as someone else is at work, again.
    pub(crate) fn change(
        &self,
        program: &mut Program,
        provider: &dyn Provider,
        output: &mut Output<'_>,
    ) -> Result<(), Problem> {
        if self.mock.is_some() {
            output.print(format!("MOCK: {program}\n"));
            return Ok(());
        }
        if let Some(timeout) = self.timeout {
            program.timeout(timeout);
        }
        let end = Instant::now() + self.lock_limit();
        loop {
            let captured = self.run(program)?;
            let Some(failure) = captured.ended.failure() else { return Ok(()) };
            if !provider.is_locked(&captured) || Instant::now() >= end {
                return Err(problem(program, &failure, &captured));
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}

/// What is said of a program that failed.
pub(crate) fn problem(program: &Program, failure: &str, captured: &Captured) -> Problem {
    let command = program.to_string();
    let name = command.split(' ').next().unwrap_or_default().to_owned();
    Problem { summary: format!("{name}: {failure}"), lines: captured.ended.last_lines(LINES_SHOWN) }
}
