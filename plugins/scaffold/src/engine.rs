//! The interface to a language that templates are written in.

use crate::reach::Reach;
use crate::renderer::Render;
use holo_plugin::facts::LocatedError;
use holo_plugin::provider::Provider;
use std::sync::Arc;

/// The form that templates of a scaffold are written in, as its definition has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form {
    /// The delimiters of values, if they are others than usual.
    pub(crate) delimiters: Option<[String; 2]>,
    /// True if the newline behind a block is left out.
    pub(crate) trim_blocks: bool,
    /// True if the white space before a block that begins a line is left out.
    pub(crate) lstrip_blocks: bool,
}

/// A language of templates.
pub(crate) trait Engine: Provider {
    /// Returns the suffixes that names of templates may have, and names of files do not.
    fn suffixes(&self) -> &'static [&'static str];

    /// Returns true if the language tells blocks from values, so that the white space around them can be left out.
    fn has_blocks(&self) -> bool {
        false
    }

    /// Returns what renders the templates of one scaffold.
    ///
    /// # Errors
    /// If its delimiters cannot be such.
    fn renderer(&self, reach: Arc<Reach>, form: &Form) -> Result<Box<dyn Render>, LocatedError>;
}
