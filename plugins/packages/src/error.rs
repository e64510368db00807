//! Errors of packages and their messages.

use crate::repository::masked;
use holo_plugin::process::{Captured, Program};
use holo_plugin::{Output, Stream};

/// The maximum number of output lines shown of a package manager that failed.
const LINES_SHOWN: usize = 20;

/// An error about packages.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{summary}")]
pub(crate) struct PackageError {
    /// The error in one line.
    pub(crate) summary: String,
    /// The last lines of the package manager's output.
    pub(crate) lines: Vec<String>,
    /// True if the cause does not depend on the package, so that all further operations would fail too.
    pub(crate) is_general: bool,
}

impl PackageError {
    pub(crate) fn new(summary: impl Into<String>) -> PackageError {
        PackageError { summary: summary.into(), lines: Vec::new(), is_general: false }
    }

    /// Creates the error of a program that failed.
    pub(crate) fn from_program(program: &Program, failure: &str, captured: &Captured) -> PackageError {
        let lines = captured.ended.last_lines(LINES_SHOWN).iter().map(|line| shown(line)).collect();
        let is_general = captured.ended.timed_out.is_some();
        PackageError { summary: format!("{}: {failure}", name(program)), lines, is_general }
    }

    /// Returns the error for packages that were not attempted because of this one.
    pub(crate) fn for_others(&self) -> PackageError {
        PackageError {
            summary: format!("{}, so no further changes were attempted", self.summary),
            lines: Vec::new(),
            ..self.clone()
        }
    }

    /// Prints the error.
    pub(crate) fn tell(&self, output: &mut Output<'_>) {
        for line in &self.lines {
            output.relay(Stream::Stderr, format!("{line}\n").as_bytes());
        }
        output.error(&self.summary);
    }
}

/// Sanitizes a line of a package manager's output. It may contain a password in a URL, and maintainer scripts may print control characters.
pub(crate) fn shown(line: &str) -> String {
    let harmless = |letter: char| {
        let is_harmless = !letter.is_control() || letter == '\t';
        if is_harmless { letter.to_string() } else { letter.escape_default().to_string() }
    };
    masked(line.trim_end_matches('\r')).chars().map(harmless).collect()
}

/// Why a package manager cannot have a package with this key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("{key} is not a valid {of} package name{}", why.map(|why| format!(": {why}")).unwrap_or_default())]
    Name { key: String, of: &'static str, why: Option<&'static str> },
    #[error("{key}: {manager} has packages for one architecture only, not for {arch}")]
    Arch { key: String, manager: &'static str, arch: String },
}

/// Returns the name of a program for messages.
pub(crate) fn name(program: &Program) -> String {
    program.to_string().split(' ').next().unwrap_or_default().to_owned()
}
