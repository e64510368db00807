//! Helpers of this crate's own tests.

use crate::finding::Finding;
use crate::located_error::LocatedError;
use crate::templates::{Rendered, Templates};
use std::fmt::Write as _;
use std::path::Path;

/// Renders nothing: what a template says is for the tests of those who have an engine.
pub(crate) struct NoTemplates;

impl Templates for NoTemplates {
    fn render(&self, _: &str, text: &str) -> Result<Rendered, LocatedError> {
        Ok(Rendered::new(text.to_owned()))
    }

    fn holds(&self, condition: &str) -> Result<bool, LocatedError> {
        condition.parse().map_err(|error| LocatedError::new(condition, error))
    }
}

/// Returns a line for each finding, the folder's path left out.
pub(crate) fn said(findings: &[Finding], folder: &Path) -> String {
    let mut said = String::new();
    for finding in findings {
        let _ = match finding {
            Finding::Error(error) => writeln!(said, "!! {error}"),
            Finding::Doubt(doubt) => writeln!(said, ">> {doubt}"),
            Finding::Folder(path) => writeln!(said, ">> {}: a folder", path.display()),
        };
    }
    said.replace(&format!("{}/", folder.display()), "")
}
