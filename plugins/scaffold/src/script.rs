//! The parts of Go's `text/template` and of Jet that configuration files need, over facts and data.
//!
//! Both languages have the same blocks and differ in how they write values, so they are two ways to write one kind of template: what
//! is read by [`lexer`] and [`parser`], [`go`] or [`jet`], is rendered by [`eval`]. What is undefined is an error, and so is what is not
//! supported. Values are never rendered themselves.

mod eval;
mod functions;
mod go;
mod jet;
mod lexer;
mod parser;
mod syntax;
mod words;

use crate::engine::{Find, Render};
use holo_plugin::facts::key::KeyError;
use holo_plugin::facts::{Knowledge, LocatedError};

/// One of the two languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Go's `text/template`.
    Go,
    /// Jet.
    Jet,
}

/// An error in a template, with its line.
#[derive(Debug)]
pub(crate) struct TemplateError {
    line: usize,
    text: String,
    /// The template that it is in, if it is not the one that is rendered.
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

/// The reason why an expression has no value. Whoever knows the line makes it an error of the template.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct EvalError(String);

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

/// Renders templates of one of the languages.
pub(crate) struct Scripts {
    dialect: Dialect,
    delimiters: (String, String),
    knowledge: Knowledge,
    partials: Find,
}

impl Dialect {
    /// Returns the delimiters of actions, unless others are given.
    fn delimiters(self) -> (&'static str, &'static str) {
        match self {
            Dialect::Go => ("{{", "}}"),
            Dialect::Jet => ("[[", "]]"),
        }
    }
}

impl Render for Scripts {
    fn render(&self, name: &str, text: &str) -> Result<String, LocatedError> {
        let rendered = self.parse(text).and_then(|nodes| eval::render(self, &nodes));
        rendered.map_err(|wrong| LocatedError {
            place: wrong.place.unwrap_or_else(|| name.to_owned()),
            line: Some(wrong.line),
            text: wrong.text,
        })
    }
}

impl Scripts {
    /// Templates of a language, over facts and data; its own delimiters are the default.
    pub(crate) fn new(
        dialect: Dialect,
        delimiters: Option<&[String; 2]>,
        knowledge: Knowledge,
        partials: Find,
    ) -> Scripts {
        let own = || dialect.delimiters();
        let (open, close) = delimiters.map_or_else(own, |[open, close]| (open.as_str(), close.as_str()));
        Scripts { dialect, delimiters: (open.to_owned(), close.to_owned()), knowledge, partials }
    }

    fn parse(&self, text: &str) -> Result<Vec<syntax::Node>, TemplateError> {
        let (open, close) = &self.delimiters;
        parser::parse(lexer::parts(text, self.dialect, (open, close))?, self.dialect)
    }
}

#[cfg(test)]
mod tests;
