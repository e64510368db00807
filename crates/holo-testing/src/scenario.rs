//! Runs a scenario: a folder with a root to start from and the output to expect.
//!
//! A scenario is a folder with a file `source-tree`, optionally an `env.sh`, and files `expected-*`.
//! A run makes `target/` of the tree, calls `holo scan`, `holo diff` and `holo apply` on it, and
//! `holo apply --force` too if the apply's output mentions that option. Then it compares what they
//! printed, and the tree as it is now, with what is expected.
//!
//! `env.sh` is read by a bash that then runs all the commands. It may set variables, prepare
//! `target/`, and set `HOLO_BINARY` to another program or to the name of a function of its own, which
//! finds the holo binary in the value that `HOLO_BINARY` had before. It must not end the shell.
//!
//! With a file `steps` there is neither of that: the commands in it are run by a bash, and what it shows of each is compared.

mod error;
mod normalise;
mod outcome;
mod session;
mod steps;
mod target;

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bstr::{BString, ByteSlice};
use rustix::fs::Mode;

use crate::error::{Context, IoError};
use crate::files;
use crate::tree;
use normalise::normalise;
use outcome::expected_name;
use session::Session;

pub use error::Error;
pub use outcome::{Deviation, Outcome};

/// The commands, and the files for their output. The last one is run only if the one before asks.
const COMMANDS: [(&str, &[&str]); 4] = [
    ("scan-output", &["scan"]),
    ("diff-output", &["diff"]),
    ("apply-output", &["apply"]),
    (FORCED, &["apply", "--force"]),
];
const FORCED: &str = "apply-force-output";
const TREE: &str = "tree";
/// The file with commands and what they show.
const STEPS: &str = "steps";
/// The result of the commands in it.
const STEPS_OUTPUT: &str = "steps-output";

/// A scenario's folder.
#[derive(Clone, Debug)]
pub struct Scenario {
    dir: PathBuf,
}

/// Options for running scenarios.
#[derive(Clone, Debug)]
pub struct Options {
    /// The holo binary. A relative path counts from the working directory.
    pub binary: PathBuf,
    /// The time limit of each command, and of reading `env.sh`.
    pub time_limit: Duration,
}

impl Options {
    /// Runs this holo binary, each command for up to a minute.
    #[must_use]
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self { binary: binary.into(), time_limit: Duration::from_secs(60) }
    }
}

impl Scenario {
    /// Takes a folder for a scenario. Whether it is one shows when it is run.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Returns the folder as it was given.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Runs the scenario and compares the results with what is expected.
    ///
    /// The results stay in the folder until the next run: `target/`, `tree`, `*-output` and
    /// `colored-*-output`. Scenarios can be run on several threads, each folder by one at a time.
    /// Call [`set_umask`] before the first one, because commands make files under the umask of this
    /// process. Every command is in a process group of its own, so a Ctrl-C in the terminal does not
    /// reach it.
    ///
    /// # Errors
    ///
    /// If the scenario could not be run to its end. Failing commands are results, not errors.
    pub fn run(&self, options: &Options) -> Result<Outcome, Error> {
        self.remove_leftovers()?;
        self.make_target()?;
        if let Some(expected) = self.expected(STEPS_OUTPUT)? {
            return self.run_steps(expected, options);
        }

        let mut outputs: Vec<Option<BString>> = Vec::new();
        let mut session = Session::start(&self.dir, options)?;
        for (name, words) in COMMANDS {
            let before = outputs.last().and_then(Option::as_ref);
            let asked_for = name != FORCED || before.is_some_and(|text| text.contains_str("--force"));
            outputs.push(if asked_for { Some(self.command(&mut session, name, words)?) } else { None });
        }
        // The shell must live until here: a clean-up at its end is no part of the scenario.
        let tree = tree::dump(&self.target())?;
        let env_output = session.finish()?;
        self.write(TREE, &tree)?;

        let mut deviations = Vec::new();
        deviations.extend(self.compare(TREE, Some(tree.into()))?);
        for ((name, _), output) in COMMANDS.into_iter().zip(outputs) {
            deviations.extend(self.compare(name, output)?);
        }
        Ok(Outcome { dir: self.dir.clone(), deviations, env_output })
    }

    fn run_steps(&self, expected: BString, options: &Options) -> Result<Outcome, Error> {
        let parts = steps::parse(&expected).map_err(|line| Error::Steps { dir: self.dir.clone(), line })?;
        let (actual, env_output) = session::run_steps(&self.dir, options, parts)?;
        self.write(STEPS_OUTPUT, &actual)?;
        let tree = tree::dump(&self.target())?;
        self.write(TREE, &tree)?;
        let mut deviations = Vec::new();
        // Steps can show of the tree what matters; only where a whole one is expected it is compared.
        if self.expected(TREE)?.is_some() {
            deviations.extend(self.compare(TREE, Some(tree.into()))?);
        }
        if expected != actual {
            deviations.push(Deviation { name: STEPS_OUTPUT, expected, actual: Some(actual) });
        }
        Ok(Outcome { dir: self.dir.clone(), deviations, env_output })
    }

    fn target(&self) -> PathBuf {
        self.dir.join("target")
    }

    fn remove_leftovers(&self) -> Result<(), IoError> {
        files::remove(&self.target())?;
        files::remove(&self.dir.join(TREE))?;
        files::remove(&self.dir.join(STEPS_OUTPUT))?;
        for (name, _) in COMMANDS {
            files::remove(&self.dir.join(name))?;
            files::remove(&self.dir.join(colored_name(name)))?;
        }
        Ok(())
    }

    /// Runs one command, writes its output to the two files, and returns it as it is compared.
    fn command(&self, session: &mut Session<'_>, name: &str, words: &[&str]) -> Result<BString, Error> {
        let colored = colored_name(name);
        let status = session.holo(words, &colored)?;
        let path = self.dir.join(colored);
        let mut output = fs::read(&path).context("read", &path)?;
        // Right behind the output, which may lack its last newline: Holo 3's own runner does so.
        writeln!(output, "exit status {status}").context("write", &path)?;
        fs::write(&path, &output).context("write", &path)?;
        let output = normalise(&output);
        self.write(name, &output)?;
        Ok(output.into())
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), IoError> {
        let path = self.dir.join(name);
        fs::write(&path, content).context("write", &path)
    }

    /// Reads what is expected of a result; `None` if there is no such file.
    fn expected(&self, name: &str) -> Result<Option<BString>, IoError> {
        let path = self.dir.join(expected_name(name));
        match fs::read(&path) {
            Ok(expected) => Ok(Some(expected.into())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context("read", &path),
        }
    }

    fn compare(&self, name: &'static str, actual: Option<BString>) -> Result<Option<Deviation>, IoError> {
        let expected = self.expected(name)?;
        let as_expected = match (&expected, &actual) {
            (Some(expected), Some(actual)) => expected == actual,
            (None, Some(actual)) => actual.is_empty(),
            (Some(_), None) => false,
            (None, None) => true,
        };
        Ok((!as_expected).then(|| Deviation { name, expected: expected.unwrap_or_default(), actual }))
    }
}

/// Sets the umask of this process to 022, as scenarios expect it.
///
/// The umask belongs to the whole process: call this once, before other threads start.
pub fn set_umask() {
    rustix::process::umask(Mode::from_raw_mode(0o022));
}

fn colored_name(name: &str) -> String {
    format!("colored-{name}")
}

#[cfg(test)]
mod tests;
