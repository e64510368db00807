//! A part of the language of Go's `text/template`.

use crate::engine::{Engine, Find, Render};
use crate::script::{Dialect, Scripts};
use holo_plugin::Host;
use holo_plugin::facts::{Knowledge, LocatedError};
use holo_plugin::provider::Provider;

/// Go's `text/template`.
pub(super) struct Go;

impl Provider for Go {
    fn name(&self) -> &'static str {
        "go"
    }

    fn rank(&self, _: &Host) -> Option<u8> {
        Some(1)
    }
}

impl Engine for Go {
    fn suffixes(&self) -> &'static [&'static str] {
        &[".tmpl", ".gotmpl"]
    }

    fn renderer(
        &self,
        knowledge: Knowledge,
        delimiters: Option<&[String; 2]>,
        partials: Find,
    ) -> Result<Box<dyn Render>, LocatedError> {
        Ok(Box::new(Scripts::new(Dialect::Go, delimiters, knowledge, partials)))
    }
}
