//! The interface to a language that templates are written in.

use holo_plugin::facts::{Knowledge, LocatedError};
use holo_plugin::provider::Provider;
use std::io;
use std::sync::Arc;

/// Finds a template that another one includes.
pub(crate) type Find = Arc<dyn Fn(&str) -> io::Result<Option<String>> + Send + Sync>;

/// A language of templates.
pub(crate) trait Engine: Provider {
    /// Returns the suffixes that names of templates may have, and names of files do not.
    fn suffixes(&self) -> &'static [&'static str];

    /// Returns what renders the templates of one scaffold. The delimiters are others than usual.
    ///
    /// # Errors
    /// If such delimiters cannot be.
    fn renderer(
        &self,
        knowledge: Knowledge,
        delimiters: Option<&[String; 2]>,
        partials: Find,
    ) -> Result<Box<dyn Render>, LocatedError>;
}

/// Renders templates.
pub(crate) trait Render {
    /// Renders a template once. The name is for errors.
    ///
    /// # Errors
    /// The mistake, with the name of the template and its line.
    fn render(&self, name: &str, text: &str) -> Result<String, LocatedError>;
}
