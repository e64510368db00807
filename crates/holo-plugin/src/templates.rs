//! Facts and data in definitions: files that are rendered, and conditions.

use crate::{Host, Output};
use holo_facts::{Knowledge, Templates as Rendering};
use std::path::Path;

/// Renders definition files and evaluates conditions, over what is known of the host.
pub(crate) struct Templates<'a> {
    rendering: Rendering,
    knowledge: &'a Knowledge,
}

impl<'a> Templates<'a> {
    pub(crate) fn new(host: &'a Host) -> Templates<'a> {
        Templates { rendering: Rendering::new(host.knowledge()), knowledge: host.knowledge() }
    }

    /// A definition file, rendered.
    ///
    /// # Errors
    /// What is wrong, with file and line.
    pub(crate) fn render(&self, path: &Path, text: &str) -> Result<String, String> {
        let rendered = self.rendering.render(&path.display().to_string(), text, &serde_json::Map::new());
        rendered.map_err(|fault| fault.to_string())
    }

    /// Returns true if a condition holds.
    ///
    /// # Errors
    /// Why it cannot be evaluated.
    pub(crate) fn holds(&self, condition: &str) -> Result<bool, String> {
        let held = self.rendering.expression(condition).and_then(|expression| expression.holds());
        held.map_err(|fault| fault.to_string())
    }

    /// Says what went wrong while facts were gathered.
    pub(crate) fn warn(&self, output: &mut Output<'_>) {
        self.knowledge.take_warnings().iter().for_each(|warning| output.warning(warning.to_string()));
    }
}
