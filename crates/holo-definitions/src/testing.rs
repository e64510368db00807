//! Helpers for the tests of this crate.

use crate::finding::{Finding, LocatedError};
use crate::templates::{Rendered, Templates};
use std::fmt::Write as _;
use std::path::Path;

/// Leaves texts unrendered: templates are tested in the crates with an engine.
pub(crate) struct NoTemplates;

impl Templates for NoTemplates {
    fn render(&self, _: &str, text: &str) -> Result<Rendered, LocatedError> {
        Ok(Rendered::new(text.to_owned()))
    }

    fn holds(&self, condition: &str) -> Result<bool, LocatedError> {
        condition.parse().map_err(|error| LocatedError::new(condition, error))
    }
}

/// Returns one line per finding, without the directory's path.
pub(crate) fn said(findings: &[Finding], folder: &Path) -> String {
    let mut said = String::new();
    for finding in findings {
        let _ = match finding {
            Finding::Error(error) => writeln!(said, "!! {error}"),
            Finding::Warning(warning) => writeln!(said, ">> {warning}"),
            Finding::Unrendered(warning) => writeln!(said, ">> {warning}"),
            Finding::Folder(path) => writeln!(said, ">> {}: a folder", path.display()),
        };
    }
    said.replace(&format!("{}/", folder.display()), "")
}
