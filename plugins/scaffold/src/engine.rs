//! The interface to a template language.

use crate::renderer::Render;
use crate::template_context::TemplateContext;
use holo_plugin::facts::LocatedError;
use holo_plugin::provider::Provider;
use std::sync::Arc;

/// The syntax options of a scaffold's templates, as specified by its definition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form {
    /// The delimiters of values, if they are not the default ones.
    pub(crate) delimiters: Option<[String; 2]>,
    /// True if the newline after a block is removed.
    pub(crate) trim_blocks: bool,
    /// True if the white space before a block at the start of a line is removed.
    pub(crate) lstrip_blocks: bool,
}

/// A template language.
pub(crate) trait Engine: Provider {
    /// Returns the suffixes that are removed from the names of templates.
    fn suffixes(&self) -> &'static [&'static str];

    /// Returns true if the language distinguishes blocks from values, so that the white space around blocks can be
    /// removed.
    fn has_blocks(&self) -> bool {
        false
    }

    /// Returns the renderer for the templates of one scaffold.
    ///
    /// # Errors
    /// If the delimiters are not valid.
    fn renderer(&self, context: Arc<TemplateContext>, form: &Form) -> Result<Box<dyn Render>, LocatedError>;
}
