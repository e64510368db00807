//! Something that did not work, and its words.

use holo_plugin::process::{Captured, Program};
use holo_plugin::{Output, Stream};

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

    /// Returns the problem of a program that failed.
    pub(crate) fn of_program(program: &Program, failure: &str, captured: &Captured) -> Problem {
        let lines = captured.ended.last_lines(LINES_SHOWN);
        Problem { summary: format!("{}: {failure}", name(program)), lines, is_general: false }
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

/// Returns the name of a program, as a person knows it.
pub(crate) fn name(program: &Program) -> String {
    program.to_string().split(' ').next().unwrap_or_default().to_owned()
}
