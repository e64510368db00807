//! Templates and conditions whose results say if they hold something that is encrypted in data.

use super::Knowledge;
use crate::template::Templates;
use holo_definitions::{LocatedError, Rendered};
use serde_json::{Map, Value};
use std::sync::OnceLock;

/// Renders templates and evaluates conditions over all that is known.
///
/// Where data have something encrypted in them, all is done a second time with look-alikes instead: what differs then has come from that.
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

    /// Renders a template once. The name is for errors; what else is in scope hides facts and data of the same name.
    ///
    /// # Errors
    /// What is wrong, with the name and the line of the template.
    pub fn render(&self, name: &str, text: &str, scope: &Map<String, Value>) -> Result<Rendered, LocatedError> {
        let (rendered, disguised) = self.twice(|templates| templates.render(name, text, scope))?;
        Ok(match disguised {
            Some(disguised) => Rendered::beside(rendered, disguised.unwrap_or_default()),
            None => Rendered::new(rendered),
        })
    }

    /// Does something with the templates, and with those that have look-alikes if something is encrypted.
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
        Renderer::render(self, name, text, &Map::new())
    }

    fn holds(&self, condition: &str) -> Result<bool, LocatedError> {
        self.twice(|templates| templates.expression(condition)?.holds()).map(|(holds, _)| holds)
    }
}

/// Returns a result, if nothing was used for it that cannot be decrypted.
fn opened<T>(done: Result<T, LocatedError>, knowledge: &Knowledge) -> Result<T, LocatedError> {
    knowledge.take_unopened().map_or(done, Err)
}

/// Returns an error without what may come from a value that is encrypted: its words are others then if that is a look-alike.
#[must_use]
pub fn shown(error: LocatedError, disguised: Option<&LocatedError>) -> LocatedError {
    if disguised == Some(&error) {
        return error;
    }
    let text = "something is wrong that cannot be shown, as it is about a value that is encrypted in data";
    LocatedError { text: text.to_owned(), ..error }
}
