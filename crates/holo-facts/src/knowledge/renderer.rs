//! Templates and conditions that detect whether results contain encrypted data.

use super::Knowledge;
use crate::template::{Templates, escape_in_strings};
use holo_definitions::{LocatedError, Rendered};
use serde_json::{Map, Value};
use std::sync::OnceLock;

/// Renders templates and evaluates conditions over facts and data.
///
/// If the data contains encrypted values, every operation is repeated with look-alikes: parts of results that differ
/// depend on secrets.
#[derive(Debug)]
pub struct Renderer {
    knowledge: Knowledge,
    templates: Templates,
    disguised: OnceLock<Templates>,
}

impl Renderer {
    pub(super) fn new(knowledge: &Knowledge) -> Renderer {
        Renderer { knowledge: knowledge.clone(), templates: knowledge.templates(), disguised: OnceLock::new() }
    }

    /// Renders a template. The name is used in errors; names in `scope` hide facts and data of the same name.
    ///
    /// # Errors
    /// The error, with the name and line of the template.
    pub fn render(&self, name: &str, text: &str, scope: &Map<String, Value>) -> Result<Rendered, LocatedError> {
        let (rendered, disguised) = self.twice(|templates| templates.render(name, text, scope))?;
        Ok(match disguised {
            Some(disguised) => Rendered::beside(rendered, disguised.unwrap_or_default()),
            None => Rendered::new(rendered),
        })
    }

    /// Performs an operation with the templates, and again with look-alikes if there are encrypted values.
    fn twice<T>(
        &self,
        work: impl Fn(&Templates) -> Result<T, LocatedError>,
    ) -> Result<(T, Option<Result<T, LocatedError>>), LocatedError> {
        let done = opened(work(&self.templates), &self.knowledge);
        let again = self
            .knowledge
            .disguised()
            .map(|knowledge| opened(work(self.disguised.get_or_init(|| knowledge.templates())), knowledge));
        match (done, again) {
            (Ok(done), again) => Ok((done, again)),
            (Err(error), Some(again)) => Err(shown(error, again.err().as_ref())),
            (Err(error), None) => Err(error),
        }
    }
}

impl holo_definitions::Templates for Renderer {
    fn render(&self, name: &str, text: &str) -> Result<Rendered, LocatedError> {
        Renderer::render(self, name, &escape_in_strings(text), &Map::new())
    }

    fn holds(&self, condition: &str) -> Result<bool, LocatedError> {
        self.twice(|templates| templates.expression(condition)?.holds()).map(|(holds, _)| holds)
    }
}

/// Returns the result, or an error if it depends on a secret that cannot be decrypted.
fn opened<T>(done: Result<T, LocatedError>, knowledge: &Knowledge) -> Result<T, LocatedError> {
    knowledge.take_unopened().map_or(done, Err)
}

/// Returns an error without text from encrypted values: if it differs from that with look-alikes, it is replaced.
#[must_use]
pub fn shown(error: LocatedError, disguised: Option<&LocatedError>) -> LocatedError {
    if disguised == Some(&error) {
        return error;
    }
    let text = "the error is not shown, because it concerns an encrypted value in data";
    LocatedError { text: text.to_owned(), ..error }
}
