//! The interface to a language that templates are written in.

use crate::reach::Reach;
use crate::renderer::Render;
use holo_plugin::facts::LocatedError;
use holo_plugin::provider::Provider;
use std::sync::Arc;

/// A language of templates.
pub(crate) trait Engine: Provider {
    /// Returns the suffixes that names of templates may have, and names of files do not.
    fn suffixes(&self) -> &'static [&'static str];

    /// Returns what renders the templates of one scaffold. The delimiters are others than usual.
    ///
    /// # Errors
    /// If such delimiters cannot be.
    fn renderer(&self, reach: Arc<Reach>, delimiters: Option<&[String; 2]>) -> Result<Box<dyn Render>, LocatedError>;
}
