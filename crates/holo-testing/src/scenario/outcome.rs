//! Comparison of a run's results with the expected ones.

use std::fs;
use std::path::PathBuf;

use bstr::BString;

use super::{STEPS, STEPS_OUTPUT};
use crate::error::{Context, IoError};
use crate::files;

/// The outcome of a run.
#[derive(Clone, Debug)]
#[must_use]
pub struct Outcome {
    pub(super) dir: PathBuf,
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

pub(super) fn expected_name(name: &str) -> String {
    if name == STEPS_OUTPUT { STEPS.to_owned() } else { format!("expected-{name}") }
}
