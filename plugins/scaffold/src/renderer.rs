//! The interface to what renders the templates of one scaffold.

use holo_plugin::facts::LocatedError;
use serde_json::Value;

/// Renders templates.
pub(crate) trait Render {
    /// Renders a template once. The name is for errors.
    ///
    /// # Errors
    /// The mistake, with the name of the template and its line.
    fn render(&self, name: &str, text: &str, dot: Dot<'_>) -> Result<String, LocatedError>;
}

/// What `.` is in a template.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dot<'a> {
    /// All values that there are: facts, data and environment.
    All,
    /// The value that another template hands over.
    Value(&'a Value),
}
