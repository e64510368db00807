//! A part of the language of Jet.

use crate::engine::{Engine, Find, Render};
use crate::script::{Dialect, Scripts};
use holo_plugin::Host;
use holo_plugin::facts::{Knowledge, LocatedError};
use holo_plugin::provider::Provider;

/// Jet.
pub(super) struct Jet;

impl Provider for Jet {
    fn name(&self) -> &'static str {
        "jet"
    }

    fn rank(&self, _: &Host) -> Option<u8> {
        Some(1)
    }
}

impl Engine for Jet {
    fn suffixes(&self) -> &'static [&'static str] {
        &[".jet"]
    }

    fn renderer(
        &self,
        knowledge: Knowledge,
        delimiters: Option<&[String; 2]>,
        partials: Find,
    ) -> Result<Box<dyn Render>, LocatedError> {
        Ok(Box::new(Scripts::new(Dialect::Jet, delimiters, knowledge, partials)))
    }
}
