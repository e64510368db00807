//! Runs a scenario: a folder with an initial root and the expected output.
//!
//! A scenario is a folder with a file `source-tree`, optionally an `env.sh`, and files `expected-*`. A run creates
//! `target/` from the tree and runs `holo scan`, `holo diff` and `holo apply` on it, as well as `holo apply --force` if
//! the apply's output mentions that option. Then it compares their output and the resulting tree with the expected
//! ones.
//!
//! `env.sh` is read by a bash that then runs all commands. It may set variables, prepare `target/`, and set
//! `HOLO_BINARY` to another program or to the name of one of its functions, which finds the holo binary in the previous
//! value of `HOLO_BINARY`. It must not exit the shell.
//!
//! If there is a file `steps`, a bash runs the commands in it instead, and their output is compared.
//!
//! The format is that of cram tests: a line that is indented by two blanks and starts with `$ ` is a command, one that
//! starts with `> ` continues it, and the other indented lines below it are its output. `[N]` at the end is an exit
//! status other than 0. Lines that are not indented are prose.

mod session;
#[cfg(test)]
mod tests;

use crate::files::{self, Context, IoError};
use crate::tree::{self, ParseError};
use bstr::{BString, ByteSlice};
use rustix::fs::Mode;
use session::Session;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The commands, and the files for their output. The last one only runs if the preceding output asks for it.
const COMMANDS: [(&str, &[&str]); 4] = [
    ("scan-output", &["scan"]),
    ("diff-output", &["diff"]),
    ("apply-output", &["apply"]),
    (FORCED, &["apply", "--force"]),
];
const FORCED: &str = "apply-force-output";
const TREE: &str = "tree";
/// The file with commands and their expected output.
const STEPS: &str = "steps";
/// The transcript of these commands.
const STEPS_OUTPUT: &str = "steps-output";

/// A scenario's folder.
#[derive(Clone, Debug)]
pub struct Scenario {
    dir: PathBuf,
}

/// Options for running scenarios.
#[derive(Clone, Debug)]
pub struct Options {
    /// The holo binary. A relative path is resolved against the working directory.
    pub binary: PathBuf,
    /// The timeout for each command, and for reading `env.sh`.
    pub time_limit: Duration,
}

impl Options {
    /// Returns options with this holo binary, and a timeout of one minute per command.
    #[must_use]
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self { binary: binary.into(), time_limit: Duration::from_secs(60) }
    }
}

impl Scenario {
    /// Returns the scenario in a folder, which is only validated when the scenario is run.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Returns the folder as it was passed in.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Runs the scenario and compares the results with the expected ones.
    ///
    /// The results stay in the folder until the next run: `target/`, `tree`, `*-output` and `colored-*-output`.
    /// Scenarios can be run on several threads, but each folder only by one at a time. Call [`set_umask`] before the
    /// first one, because commands create files with the umask of this process. Every command has its own process
    /// group, so that a Ctrl-C in the terminal does not reach it.
    ///
    /// # Errors
    ///
    /// If the scenario could not be run completely. Failing commands are results, not errors.
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
        // The shell must not end earlier: its cleanup is not part of the scenario.
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
        let parts = parse(&expected).map_err(|line| Error::Steps { dir: self.dir.clone(), line })?;
        let (actual, env_output) = session::run_steps(&self.dir, options, parts)?;
        self.write(STEPS_OUTPUT, &actual)?;
        let tree = tree::dump(&self.target())?;
        self.write(TREE, &tree)?;
        let mut deviations = Vec::new();
        // Steps can show the relevant parts of the tree; the whole tree is only compared if an expected one exists.
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

    /// Runs a command, writes its output to both files, and returns the normalised output.
    fn command(&self, session: &mut Session<'_>, name: &str, words: &[&str]) -> Result<BString, Error> {
        let colored = colored_name(name);
        let status = session.holo(words, &colored)?;
        let path = self.dir.join(colored);
        let mut output = fs::read(&path).context("read", &path)?;
        // Directly after the output, even if that lacks a final newline, like the test runner of Holo 3.
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

    /// Returns the expected result; `None` if there is no such file.
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

/// Sets the umask of this process to 022, as scenarios expect.
///
/// The umask belongs to the whole process: call this once, before other threads are started.
pub fn set_umask() {
    rustix::process::umask(Mode::from_raw_mode(0o022));
}

fn colored_name(name: &str) -> String {
    format!("colored-{name}")
}

/// A scenario that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder has no `source-tree`, so it is not a scenario.
    #[error("{}: no source-tree; a scenario is a folder with a source-tree, and perhaps env.sh and expected-*", dir.display())]
    NoSourceTree {
        /// The folder.
        dir: PathBuf,
    },
    /// The `source-tree` is invalid.
    #[error("{}/{reason}", dir.display())]
    SourceTree {
        /// The scenario.
        dir: PathBuf,
        /// The error and its line.
        reason: ParseError,
    },
    /// An indented line of `steps` belongs to no command.
    #[error("{}/steps:{line}: an indented line follows no command; commands begin with two blanks and `$ `", dir.display())]
    Steps {
        /// The scenario.
        dir: PathBuf,
        /// The line number, counted from 1.
        line: usize,
    },
    /// A command exceeded its timeout and was killed. Its output until then is in `colored-*-output`.
    #[error("{}: {during} was ended after {limit:?}", dir.display())]
    TimedOut {
        /// The scenario.
        dir: PathBuf,
        /// The running command, such as `holo diff` or `env.sh`.
        during: String,
        /// The timeout.
        limit: Duration,
    },
    /// The shell that reads `env.sh` ended before the last command.
    #[error("{}: the shell ended with status {status} during {during}; {script} and its functions must neither call exit nor fail under set -e{output}", dir.display())]
    ShellEnded {
        /// The scenario.
        dir: PathBuf,
        /// The running command, such as `holo diff` or `env.sh`.
        during: String,
        /// The script that the shell reads.
        script: &'static str,
        /// The exit status of the shell; 128 + N for signal N.
        status: i32,
        /// The output of `env.sh`, with each line indented.
        output: String,
    },
    /// A file or directory could not be accessed, or a program could not be run.
    #[error(transparent)]
    Io(#[from] IoError),
}

/// The outcome of a run.
#[derive(Clone, Debug)]
#[must_use]
pub struct Outcome {
    dir: PathBuf,
    /// The unexpected results, in this order: tree, steps, scan, diff, apply, forced apply.
    pub deviations: Vec<Deviation>,
    /// The output of `env.sh` itself. It is not compared, but may explain a deviation.
    pub env_output: BString,
}

/// An unexpected result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// The file with the result, such as `scan-output`. The expected one is in `expected-…`, or in `steps` for
    /// `steps-output`.
    pub name: &'static str,
    /// The expected content; empty if the file does not exist.
    pub expected: BString,
    /// The actual content; `None` if the file was not produced.
    pub actual: Option<BString>,
}

impl Deviation {
    /// Returns the name of the file with the expected content.
    #[must_use]
    pub fn expected_name(&self) -> String {
        expected_name(self.name)
    }
}

impl Outcome {
    /// Returns true if all results are as expected.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.deviations.is_empty()
    }

    /// Accepts the results: writes deviations to `expected-*`, and removes the expected output of a forced apply that
    /// was not run.
    ///
    /// # Errors
    ///
    /// If a file cannot be written or removed.
    pub fn bless(&self) -> Result<(), IoError> {
        for deviation in &self.deviations {
            let path = self.dir.join(deviation.expected_name());
            match &deviation.actual {
                Some(actual) => fs::write(&path, actual).context("write", &path)?,
                None => files::remove(&path)?,
            }
        }
        Ok(())
    }
}

fn expected_name(name: &str) -> String {
    if name == STEPS_OUTPUT { STEPS.to_owned() } else { format!("expected-{name}") }
}

/// The path of a run's cache, followed by a number.
const CACHE: &[u8] = b"target/tmp/holo.";

/// The fields of JSON Lines that differ in every run.
const FIELDS: [&[u8]; 3] = [b"\"run\":", b"\"time\":", b"\"duration\":"];

/// Removes colours, the numbers in names of cache directories, and the fields of JSON Lines that differ in every run.
fn normalise(output: &[u8]) -> Vec<u8> {
    let folded = without_cache_number(&without_colours(output));
    folded.split_inclusive(|&byte| byte == b'\n').flat_map(without_times).collect()
}

/// Removes the fields of a JSON line that differ in every run, with their commas.
fn without_times(line: &[u8]) -> Vec<u8> {
    if !line.starts_with(b"{\"version\":") {
        return line.to_vec();
    }
    let mut kept = Vec::with_capacity(line.len());
    let mut text = line;
    while let [byte, rest @ ..] = text {
        let field = FIELDS.iter().find_map(|field| text.strip_prefix(*field)).filter(|_| kept.ends_with(b","));
        if let Some(value) = field {
            // None of these values contains a comma or is the last one.
            let (_, after) = split_while(value, |byte| byte != b',');
            text = after.strip_prefix(b",").unwrap_or(after);
            continue;
        }
        kept.push(*byte);
        text = rest;
    }
    kept
}

/// Removes only the ANSI sequences that set colours (`ESC [ … m`).
fn without_colours(mut text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    while let [byte, rest @ ..] = text {
        if let Some(after) = text.strip_prefix(b"\x1b[") {
            let (_, after) = split_while(after, |byte| byte.is_ascii_digit() || byte == b';');
            if let [b'm', after @ ..] = after {
                text = after;
                continue;
            }
        }
        plain.push(*byte);
        text = rest;
    }
    plain
}

/// Replaces `target/tmp/holo.123` with `target/tmp/holo`.
fn without_cache_number(mut text: &[u8]) -> Vec<u8> {
    let mut folded = Vec::with_capacity(text.len());
    while let [byte, rest @ ..] = text {
        if let Some(after) = text.strip_prefix(CACHE) {
            let (number, after) = split_while(after, |byte| byte.is_ascii_digit());
            if !number.is_empty() {
                folded.extend_from_slice(CACHE.strip_suffix(b".").unwrap_or(CACHE));
                text = after;
                continue;
            }
        }
        folded.push(*byte);
        text = rest;
    }
    folded
}

/// Splits a text at the first byte for which the condition is false.
fn split_while(text: &[u8], condition: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = text.iter().position(|&byte| !condition(byte));
    text.split_at(end.unwrap_or(text.len()))
}

const INDENT: &[u8] = b"  ";
const COMMAND: &[u8] = b"  $ ";
const CONTINUATION: &[u8] = b"  > ";
const NO_NEWLINE: &[u8] = b" (no-eol)";

/// A part of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// A line of prose without its newline.
    Prose(BString),
    /// A command: its lines, without indentation and prompts, joined by newlines.
    Command(BString),
}

/// Returns the parts of a file. The expected output is left out: the whole file is compared with the
/// [`transcript`](Transcript) of a run.
///
/// # Errors
///
/// The number, counted from 1, of the first indented line that belongs to no command.
fn parse(text: &[u8]) -> Result<Vec<Part>, usize> {
    let mut parts = Vec::new();
    let mut has_output = false;
    for (index, line) in text.lines().enumerate() {
        if let Some(command) = line.strip_prefix(COMMAND) {
            parts.push(Part::Command(command.into()));
            has_output = false;
        } else if line.starts_with(INDENT) {
            let Some(Part::Command(command)) = parts.last_mut() else { return Err(index + 1) };
            match line.strip_prefix(CONTINUATION).filter(|_| !has_output) {
                Some(more) => {
                    command.push(b'\n');
                    command.extend_from_slice(more);
                }
                None => has_output = true,
            }
        } else {
            parts.push(Part::Prose(line.into()));
        }
    }
    Ok(parts)
}

/// A text in the format of the file, built part by part.
#[derive(Debug, Default)]
struct Transcript(Vec<u8>);

impl Transcript {
    /// Appends a line of prose.
    fn prose(&mut self, line: &[u8]) {
        self.line(&[], line);
    }

    /// Appends a command with its output and exit status.
    fn command(&mut self, command: &[u8], output: &[u8], status: i32) {
        let prompts = std::iter::once(COMMAND).chain(std::iter::repeat(CONTINUATION));
        command.split_str("\n").zip(prompts).for_each(|(line, prompt)| self.line(prompt, line));
        output.lines().for_each(|line| self.line(INDENT, line));
        if !output.is_empty() && !output.ends_with(b"\n") {
            self.0.pop();
            self.0.extend_from_slice(NO_NEWLINE);
            self.0.push(b'\n');
        }
        if status != 0 {
            self.line(INDENT, format!("[{status}]").as_bytes());
        }
    }

    /// Returns the text.
    fn into_text(self) -> BString {
        self.0.into()
    }

    fn line(&mut self, prefix: &[u8], line: &[u8]) {
        for bytes in [prefix, line, b"\n"] {
            self.0.extend_from_slice(bytes);
        }
    }
}
