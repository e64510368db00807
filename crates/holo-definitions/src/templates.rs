//! The engine of templates and expressions that definitions ask for.

use crate::located_error::LocatedError;

/// Renders definition files and evaluates conditions.
pub trait Templates {
    /// Renders a text once. The name is for errors.
    ///
    /// # Errors
    /// What is wrong, with the name and the line of the template.
    fn render(&self, name: &str, text: &str) -> Result<String, LocatedError>;

    /// Returns true if a condition holds.
    ///
    /// # Errors
    /// If it cannot be evaluated; the place is the condition itself.
    fn holds(&self, condition: &str) -> Result<bool, LocatedError>;
}
