//! The language that a scaffold's templates are written in.

use crate::definition::{Language, ScaffoldDefinition};
use crate::error::Result;
use crate::script::{Dialect, Scripts};
use crate::source::Source;
use holo_plugin::Host;
use holo_plugin::facts::{self, Knowledge, LocatedError, Templates};
use std::path::Path;
use std::sync::Arc;

/// Renders the templates of one scaffold.
pub(crate) enum Engine {
    Jinja(Templates),
    Script(Scripts),
}

impl Engine {
    /// The engine that the definition wants, over facts and data; its file, as the user knows it, is where its own data come from.
    pub(crate) fn new(definition: &ScaffoldDefinition, file: &Path, source: &Source, host: &Host) -> Result<Engine> {
        let partials = source.partials(definition.engine.suffixes());
        let knowledge = knowledge(definition, file, host)?;
        let dialect = match definition.engine {
            Language::Go => Dialect::Go,
            Language::Jet => Dialect::Jet,
            Language::Jinja => {
                let mut templates = knowledge.templates();
                if let Some([open, close]) = &definition.delimiters {
                    templates = templates.with_delimiters(open, close)?;
                }
                return Ok(Engine::Jinja(templates.with_partials(partials)));
            }
        };
        let usual = || {
            let (open, close) = dialect.delimiters();
            (open.to_owned(), close.to_owned())
        };
        let delimiters = definition.delimiters.clone().map_or_else(usual, |[open, close]| (open, close));
        Ok(Engine::Script(Scripts { dialect, delimiters, knowledge, partials: Arc::new(partials) }))
    }

    /// Renders a template once. The name is for errors.
    pub(crate) fn render(&self, name: &str, text: &str) -> std::result::Result<String, LocatedError> {
        match self {
            Engine::Jinja(templates) => templates.render(name, text, &serde_json::Map::new()),
            Engine::Script(scripts) => scripts.render(name, text),
        }
    }
}

fn knowledge(definition: &ScaffoldDefinition, file: &Path, host: &Host) -> Result<Knowledge> {
    if definition.data.is_empty() {
        return Ok(host.knowledge().clone());
    }
    let own = facts::from_toml(format!("{}: data", file.display()), definition.data.clone())?;
    Ok(host.knowledge().with_layer(file, own))
}
