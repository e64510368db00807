//! A reader of the tokens of an action.

use super::TemplateError;
use super::lexer::{Kind, Word};
use std::iter::Peekable;
use std::vec::IntoIter;

/// Maximum nesting of values, in parentheses and the like.
const MAX_NESTING: usize = 30;

/// The remaining tokens of an action.
pub(super) struct Words {
    words: Peekable<IntoIter<Word>>,
    pub(super) line: usize,
    nesting: usize,
}

impl Words {
    pub(super) fn new(words: Vec<Word>, line: usize) -> Words {
        Words { words: words.into_iter().peekable(), line, nesting: 0 }
    }

    pub(super) fn peek(&mut self) -> Option<&Kind> {
        self.words.peek().map(|word| &word.kind)
    }

    /// Returns the next token if there is no space before it.
    pub(super) fn peek_glued(&mut self) -> Option<&Kind> {
        self.words.peek().filter(|word| word.glued).map(|word| &word.kind)
    }

    pub(super) fn next(&mut self) -> Option<Kind> {
        self.words.next().map(|word| word.kind)
    }

    /// Reads this symbol if it is next.
    pub(super) fn take(&mut self, symbol: &str) -> bool {
        self.words.next_if(|word| matches!(word.kind, Kind::Symbol(next) if next == symbol)).is_some()
    }

    pub(super) fn expect(&mut self, symbol: &str) -> Result<(), TemplateError> {
        if self.take(symbol) { Ok(()) } else { Err(self.unexpected(&format!("{symbol} is expected"))) }
    }

    /// Reads a name if one is next.
    pub(super) fn keyword(&mut self) -> Option<String> {
        let name = if let Some(Kind::Name(name)) = self.peek() { name.clone() } else { return None };
        self.words.next();
        Some(name)
    }

    /// Returns the error for the next token.
    pub(super) fn unexpected(&mut self, hint: &str) -> TemplateError {
        let what = match self.peek() {
            None => "the end".to_owned(),
            Some(Kind::Name(name)) => name.clone(),
            Some(Kind::Field(name)) => format!(".{name}"),
            Some(Kind::Dot) => ".".to_owned(),
            Some(Kind::Literal(value)) => value.to_string(),
            Some(Kind::Symbol(symbol)) => (*symbol).to_owned(),
        };
        let hint = if hint.is_empty() { String::new() } else { format!(": {hint}") };
        TemplateError::new(self.line, format!("unexpected {what}{hint}"))
    }

    /// Calls a function that may recurse, or returns an error if values are nested too deep.
    pub(super) fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Words) -> Result<T, TemplateError>,
    ) -> Result<T, TemplateError> {
        if self.nesting == MAX_NESTING {
            return Err(TemplateError::new(self.line, format!("values are nested deeper than {MAX_NESTING}")));
        }
        self.nesting += 1;
        let read = read(self);
        self.nesting -= 1;
        read
    }

    pub(super) fn end(&mut self) -> Result<(), TemplateError> {
        if self.peek().is_none() { Ok(()) } else { Err(self.unexpected("")) }
    }

    /// Reads the names before `:=` or `=` if the action is an assignment, and returns them with true for `:=`.
    pub(super) fn assigned(&mut self) -> Option<(Vec<String>, bool)> {
        let mut words = self.words.clone();
        let mut names = Vec::new();
        loop {
            match words.next()?.kind {
                Kind::Name(name) => names.push(name),
                _ => return None,
            }
            match words.next()?.kind {
                Kind::Symbol(",") => {}
                Kind::Symbol(symbol @ (":=" | "=")) => {
                    self.words = words;
                    return Some((names, symbol == ":="));
                }
                _ => return None,
            }
        }
    }
}
