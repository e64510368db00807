//! The language of Jinja, which facts and data have templates in anyway.

use crate::engine::{Engine, Find, Render};
use holo_plugin::Host;
use holo_plugin::facts::{Knowledge, LocatedError, Templates};
use holo_plugin::provider::Provider;

/// Jinja.
pub(super) struct Jinja;

impl Provider for Jinja {
    fn name(&self) -> &'static str {
        "jinja"
    }

    fn rank(&self, _: &Host) -> Option<u8> {
        Some(1)
    }
}

impl Engine for Jinja {
    fn suffixes(&self) -> &'static [&'static str] {
        &[".jinja", ".j2"]
    }

    fn renderer(
        &self,
        knowledge: Knowledge,
        delimiters: Option<&[String; 2]>,
        partials: Find,
    ) -> Result<Box<dyn Render>, LocatedError> {
        let mut templates = knowledge.templates();
        if let Some([open, close]) = delimiters {
            templates = templates.with_delimiters(open, close)?;
        }
        Ok(Box::new(templates.with_partials(move |name| partials(name))))
    }
}

impl Render for Templates {
    fn render(&self, name: &str, text: &str) -> Result<String, LocatedError> {
        Templates::render(self, name, text, &serde_json::Map::new())
    }
}
