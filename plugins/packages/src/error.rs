//! Something that did not work, and its words.

use crate::repository::masked;
use holo_plugin::process::{Captured, Program};
use holo_plugin::{Output, Stream};

/// The number of lines of a failed package manager's output that are shown.
const LINES_SHOWN: usize = 20;

/// Something that did not work.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{summary}")]
pub(crate) struct PackageError {
    /// The problem in one line.
    pub(crate) summary: String,
    /// The last lines of the package manager's output.
    pub(crate) lines: Vec<String>,
    /// True if it is no single package's fault, so that nothing else would work either.
    pub(crate) is_general: bool,
}

impl PackageError {
    pub(crate) fn new(summary: impl Into<String>) -> PackageError {
        PackageError { summary: summary.into(), lines: Vec::new(), is_general: false }
    }

    /// Returns the problem of a program that failed.
    pub(crate) fn from_program(program: &Program, failure: &str, captured: &Captured) -> PackageError {
        let lines = captured.ended.last_lines(LINES_SHOWN).iter().map(|line| shown(line)).collect();
        let is_general = captured.ended.timed_out.is_some();
        PackageError { summary: format!("{}: {failure}", name(program)), lines, is_general }
    }

    /// The same problem for those that were not even tried because of it.
    pub(crate) fn for_others(&self) -> PackageError {
        PackageError {
            summary: format!("{}, so nothing more was tried", self.summary),
            lines: Vec::new(),
            ..self.clone()
        }
    }

    /// Tells it to the user.
    pub(crate) fn tell(&self, output: &mut Output<'_>) {
        for line in &self.lines {
            output.relay(Stream::Stderr, format!("{line}\n").as_bytes());
        }
        output.error(&self.summary);
    }
}

/// Returns a line of a package manager for people. It may say from where it could not fetch something, with a password in the address;
/// and scripts of packages may say what a terminal would obey.
pub(crate) fn shown(line: &str) -> String {
    let harmless = |letter: char| {
        let is_harmless = !letter.is_control() || letter == '\t';
        if is_harmless { letter.to_string() } else { letter.escape_default().to_string() }
    };
    masked(line.trim_end_matches('\r')).chars().map(harmless).collect()
}

/// A package that a manager cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("{key} is not a valid {of} package name{}", why.map(|why| format!(": {why}")).unwrap_or_default())]
    Name { key: String, of: &'static str, why: Option<&'static str> },
    #[error("{key}: {manager} has packages for one architecture only, not for {arch}")]
    Arch { key: String, manager: &'static str, arch: String },
}

/// Returns the name of a program, as a person knows it.
pub(crate) fn name(program: &Program) -> String {
    program.to_string().split(' ').next().unwrap_or_default().to_owned()
}
