//! The interface to a renderer for the templates of one scaffold.

use holo_plugin::facts::LocatedError;
use serde_json::Value;

/// Renders templates.
pub(crate) trait Render {
    /// Renders a template once. The name is for error messages.
    ///
    /// # Errors
    /// The mistake, with the name of the template and its line.
    fn render(&self, name: &str, text: &str, dot: Dot<'_>) -> Result<String, LocatedError>;
}

/// The value of `.` in a template.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dot<'a> {
    /// All values: facts, data and environment.
    All,
    /// The value that is passed by another template.
    Value(&'a Value),
}
