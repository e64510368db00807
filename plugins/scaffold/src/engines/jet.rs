//! A subset of the language Jet that suffices for configuration files, with access to facts and data.
//!
//! [`eval`] renders the templates that [`lexer`] and [`parser`] read. Undefined names and unsupported syntax are
//! errors. Values are never rendered as templates.

mod eval;
mod lexer;
mod parser;
mod values;

use crate::engines::{Engine, Form};
use crate::template_context::{Dot, Render, TemplateContext, TemplateContextError};
use holo_plugin::Host;
use holo_plugin::facts::LocatedError;
use holo_plugin::facts::key::KeyError;
use holo_plugin::provider::Provider;
use serde_json::Value;
use std::sync::Arc;

/// Jet.
pub(super) struct Jet;

const SUFFIXES: [&str; 1] = [".jet"];

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
        &SUFFIXES
    }

    fn renderer(&self, context: Arc<TemplateContext>, form: &Form) -> Result<Box<dyn Render>, LocatedError> {
        let own = || ("[[".to_owned(), "]]".to_owned());
        Ok(Box::new(Jets {
            delimiters: form.delimiters.clone().map_or_else(own, |[open, close]| (open, close)),
            context,
        }))
    }
}

/// Evaluates a single expression with the values that templates can access.
///
/// # Errors
/// The reason if the expression has no value.
pub(crate) fn evaluate(text: &str, context: &Arc<TemplateContext>) -> Result<Value, EvalError> {
    let jets = Jets { delimiters: (String::new(), String::new()), context: Arc::clone(context) };
    let expression = lexer::words(text).and_then(parser::expression).map_err(|wrong| EvalError(wrong.text))?;
    eval::value(&jets, &expression)
}

/// An error in a template, with its line.
#[derive(Debug)]
struct TemplateError {
    line: usize,
    text: String,
    /// The template with the error, if it is not the one that is rendered.
    place: Option<String>,
}

impl TemplateError {
    fn at(line: usize) -> impl Fn(EvalError) -> TemplateError {
        move |EvalError(text)| TemplateError::new(line, text)
    }

    fn new(line: usize, text: impl Into<String>) -> TemplateError {
        TemplateError { line, text: text.into(), place: None }
    }
}

/// The reason why an expression has no value. The caller adds the line, which makes it a [`TemplateError`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct EvalError(String);

impl From<&str> for EvalError {
    fn from(text: &str) -> EvalError {
        EvalError(text.to_owned())
    }
}

impl From<KeyError> for EvalError {
    fn from(error: KeyError) -> EvalError {
        EvalError(error.to_string())
    }
}

impl From<LocatedError> for EvalError {
    fn from(error: LocatedError) -> EvalError {
        EvalError(error.to_string())
    }
}

impl From<TemplateContextError> for EvalError {
    fn from(error: TemplateContextError) -> EvalError {
        EvalError(error.to_string())
    }
}

/// Renders templates.
struct Jets {
    delimiters: (String, String),
    context: Arc<TemplateContext>,
}

impl Render for Jets {
    fn render(&self, name: &str, text: &str, dot: Dot<'_>) -> Result<String, LocatedError> {
        let rendered = self.parse(text).and_then(|nodes| eval::render(self, name, &nodes, dot));
        rendered.map_err(|wrong| {
            LocatedError::new(wrong.place.unwrap_or_else(|| name.to_owned()), wrong.text).at(Some(wrong.line))
        })
    }
}

impl Jets {
    fn parse(&self, text: &str) -> Result<Vec<values::Node>, TemplateError> {
        let (open, close) = &self.delimiters;
        parser::parse(lexer::parts(text, (open, close))?)
    }
}
