//! Splits a template into text and actions between delimiters, and actions into tokens, and reads these tokens.

use super::TemplateError;
use serde_json::Value;
use std::iter::Peekable;
use std::vec::IntoIter;

/// Maximum number of tokens of an action. The nesting of an expression is limited by it, and expressions are processed
/// recursively.
const MAX_WORDS: usize = 250;

/// A part of a template.
#[derive(Debug)]
pub(super) enum Part {
    Text(String),
    Action { line: usize, words: Vec<Word> },
}

/// A token of an action.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Word {
    pub(super) kind: Kind,
    /// True if there is no space before the token.
    pub(super) glued: bool,
}

/// The kind of a token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Name(String),
    /// `.name`
    Field(String),
    Dot,
    Literal(Value),
    Symbol(&'static str),
}

/// All symbols; longer ones precede their prefixes.
const SYMBOLS: [&str; 25] = [
    ":=", "==", "!=", "<=", ">=", "&&", "||", "(", ")", "[", "]", ",", "|", "=", "<", ">", "+", "-", "*", "/", "%",
    "!", "?", ":", ";",
];

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    open: &'a str,
    close: &'a str,
}

/// Returns the tokens of a single expression.
pub(super) fn words(text: &str) -> Result<Vec<Word>, TemplateError> {
    let mut lexer = Lexer { rest: text, line: 1, open: "", close: "" };
    let (mut words, mut spaced) = (Vec::new(), lexer.skip_space());
    while !lexer.rest.is_empty() {
        words.push(Word { kind: lexer.word(lexer.line)?, glued: !spaced });
        lexer.within_limit(lexer.line, &words)?;
        spaced = lexer.skip_space();
    }
    Ok(words)
}

/// Splits a template into its parts.
pub(super) fn parts(text: &str, (open, close): (&str, &str)) -> Result<Vec<Part>, TemplateError> {
    let mut lexer = Lexer { rest: text, line: 1, open, close };
    let mut parts = Vec::new();
    let mut trims = false;
    loop {
        let (text, next) = lexer.text();
        let text = if trims { text.trim_start() } else { text };
        let mut text = text.to_owned();
        match next {
            None => {
                parts.push(Part::Text(text));
                return Ok(parts);
            }
            Some(Next::Comment) => {
                lexer.skip_comment()?;
                parts.push(Part::Text(text));
                trims = false;
            }
            Some(Next::Action) => {
                let line = lexer.line;
                if lexer.begins_trimming() {
                    text.truncate(text.trim_end().len());
                }
                parts.push(Part::Text(text));
                let words;
                (words, trims) = lexer.action(line)?;
                parts.push(Part::Action { line, words });
            }
        }
    }
}

enum Next {
    Action,
    Comment,
}

impl<'a> Lexer<'a> {
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.bytes().filter(|byte| *byte == b'\n').count();
        self.rest = rest;
        taken
    }

    /// Returns the text up to the next action or comment, and which of them follows.
    fn text(&mut self) -> (&'a str, Option<Next>) {
        let next = self.rest.char_indices().find_map(|(start, _)| {
            let rest = self.rest.get(start..)?;
            let action = rest.starts_with(self.open).then_some(Next::Action);
            Some((start, action.or_else(|| rest.starts_with("{*").then_some(Next::Comment))?))
        });
        let Some((start, next)) = next else { return (self.take(self.rest.len()), None) };
        let text = self.take(start);
        if matches!(next, Next::Action) {
            self.take(self.open.len());
        }
        (text, Some(next))
    }

    fn skip_comment(&mut self) -> Result<(), TemplateError> {
        match self.rest.find("*}") {
            Some(end) => {
                self.take(end + 2);
                Ok(())
            }
            None => Err(TemplateError::new(self.line, "the comment {* is not closed")),
        }
    }

    /// Reads the trim marker after the opening delimiter. Returns true if the white space before the action is removed.
    fn begins_trimming(&mut self) -> bool {
        let trims = self.rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_whitespace()));
        if trims {
            self.take(1);
        }
        trims
    }

    fn skip_space(&mut self) -> bool {
        let length = self.rest.len() - self.rest.trim_start().len();
        self.take(length);
        length > 0
    }

    /// Reads the closing delimiter, if it is next. Returns true if the white space after the action is removed.
    fn ends(&mut self, spaced: bool) -> Option<bool> {
        let trims = spaced && self.rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(self.close));
        if trims || self.rest.starts_with(self.close) {
            self.take(self.close.len() + usize::from(trims));
            return Some(trims);
        }
        None
    }

    /// Returns the tokens of an action up to its closing delimiter, and whether the white space after the action is
    /// removed.
    fn action(&mut self, line: usize) -> Result<(Vec<Word>, bool), TemplateError> {
        let mut spaced = self.skip_space();
        let mut words: Vec<Word> = Vec::new();
        let mut brackets = 0_usize;
        loop {
            if brackets == 0
                && let Some(trims) = self.ends(spaced)
            {
                return Ok((words, trims));
            }
            if self.rest.is_empty() {
                return Err(TemplateError::new(line, format!("{} is not closed", self.open)));
            }
            let kind = self.word(line)?;
            match kind {
                Kind::Symbol("[") => brackets += 1,
                Kind::Symbol("]") => brackets = brackets.saturating_sub(1),
                _ => {}
            }
            words.push(Word { kind, glued: !spaced });
            self.within_limit(line, &words)?;
            spaced = self.skip_space();
        }
    }

    fn within_limit(&self, line: usize, words: &[Word]) -> Result<(), TemplateError> {
        if words.len() > MAX_WORDS {
            return Err(TemplateError::new(line, format!("this has more than {MAX_WORDS} words")));
        }
        Ok(())
    }

    fn word(&mut self, line: usize) -> Result<Kind, TemplateError> {
        let mut letters = self.rest.chars();
        let (first, second) = (letters.next().unwrap_or_default(), letters.next().unwrap_or_default());
        Ok(match first {
            '.' if is_first_of_name(second) => {
                self.take(1);
                Kind::Field(self.name())
            }
            '.' if !second.is_ascii_digit() => {
                self.take(1);
                Kind::Dot
            }
            '"' | '`' | '\'' => Kind::Literal(Value::String(self.string(line, first)?)),
            _ if first.is_ascii_digit() => Kind::Literal(self.number(line)?),
            _ if is_first_of_name(first) => match self.name().as_str() {
                "true" => Kind::Literal(Value::Bool(true)),
                "false" => Kind::Literal(Value::Bool(false)),
                "nil" => Kind::Literal(Value::Null),
                name => Kind::Name(name.to_owned()),
            },
            _ => match SYMBOLS.iter().find(|symbol| self.rest.starts_with(**symbol)) {
                Some(symbol) => {
                    self.take(symbol.len());
                    Kind::Symbol(symbol)
                }
                None => return Err(TemplateError::new(line, format!("unexpected {first:?}"))),
            },
        })
    }

    fn name(&mut self) -> String {
        let length = self.rest.find(|letter: char| !is_of_name(letter)).unwrap_or(self.rest.len());
        self.take(length).to_owned()
    }

    fn number(&mut self, line: usize) -> Result<Value, TemplateError> {
        let length = self.rest.find(|letter: char| !is_of_name(letter) && letter != '.');
        let text = self.take(length.unwrap_or(self.rest.len()));
        let float = || text.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
        let number = text.parse::<i64>().map(serde_json::Number::from).ok().or_else(float);
        number.map(Value::Number).ok_or_else(|| TemplateError::new(line, format!("{text} is not a supported number")))
    }

    fn string(&mut self, line: usize, quote: char) -> Result<String, TemplateError> {
        let unclosed = || TemplateError::new(line, format!("{quote} is not closed"));
        self.take(1);
        if quote == '`' {
            let end = self.rest.find('`').ok_or_else(unclosed)?;
            let text = self.take(end).to_owned();
            self.take(1);
            return Ok(text);
        }
        let mut text = String::new();
        loop {
            let letter = self.rest.chars().next().filter(|letter| *letter != '\n').ok_or_else(unclosed)?;
            self.take(letter.len_utf8());
            match letter {
                letter if letter == quote => return Ok(text),
                '\\' => {
                    let escaped = self.rest.chars().next().ok_or_else(unclosed)?;
                    self.take(escaped.len_utf8());
                    text.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        '"' | '\\' | '\'' => escaped,
                        _ => return Err(TemplateError::new(line, format!("\\{escaped} in a string is not supported"))),
                    });
                }
                letter => text.push(letter),
            }
        }
    }
}

fn is_first_of_name(letter: char) -> bool {
    letter == '_' || letter.is_alphabetic()
}

fn is_of_name(letter: char) -> bool {
    letter == '_' || letter.is_alphanumeric()
}

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
