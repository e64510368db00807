//! Makes a template of its parts: what is the same in both languages, which are the blocks.

use super::lexer::{Kind, Part, Word};
use super::syntax::{Branch, Expression, Names, Node};
use super::{Dialect, Wrong, go, jet};
use std::iter::Peekable;
use std::vec::IntoIter;

/// So deep blocks may stand in each other: they are gone through recursively.
const MAX_DEPTH: usize = 30;
/// So deep values may stand in each other, in parentheses and the like.
const MAX_NESTING: usize = 30;

/// What begins an action of the languages, and is not supported.
const UNSUPPORTED: [&str; 12] = [
    "define", "block", "break", "continue", "extends", "import", "yield", "content", "try", "catch", "return", "macro",
];

/// Makes a template of its parts.
pub(super) fn parse(parts: Vec<Part>, dialect: Dialect) -> Result<Vec<Node>, Wrong> {
    let mut parser = Parser { parts: parts.into_iter().peekable(), dialect, depth: 0 };
    let (nodes, end) = parser.block()?;
    match end {
        None => Ok(nodes),
        Some((line, mut words)) => {
            let name = words.keyword().unwrap_or_default();
            Err(Wrong::new(line, format!("there is nothing that this {name} could belong to")))
        }
    }
}

struct Parser {
    parts: Peekable<IntoIter<Part>>,
    dialect: Dialect,
    depth: usize,
}

/// The words of an action, from the first that is not read yet.
pub(super) struct Words {
    words: Peekable<IntoIter<Word>>,
    pub(super) line: usize,
    nesting: usize,
}

impl Words {
    pub(super) fn peek(&mut self) -> Option<&Kind> {
        self.words.peek().map(|word| &word.kind)
    }

    /// The next word if no space is before it.
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

    pub(super) fn expect(&mut self, symbol: &str) -> Result<(), Wrong> {
        if self.take(symbol) { Ok(()) } else { Err(self.unexpected(&format!("{symbol} is expected"))) }
    }

    /// Reads a name if one is next.
    fn keyword(&mut self) -> Option<String> {
        let name = if let Some(Kind::Name(name)) = self.peek() { name.clone() } else { return None };
        self.words.next();
        Some(name)
    }

    /// What is wrong with the word that is next.
    pub(super) fn unexpected(&mut self, hint: &str) -> Wrong {
        let what = match self.peek() {
            None => "the end".to_owned(),
            Some(Kind::Name(name)) => name.clone(),
            Some(Kind::Field(name)) => format!(".{name}"),
            Some(Kind::Dot) => ".".to_owned(),
            Some(Kind::Variable(name)) => format!("${name}"),
            Some(Kind::Literal(value)) => value.to_string(),
            Some(Kind::Symbol(symbol)) => (*symbol).to_owned(),
        };
        let hint = if hint.is_empty() { String::new() } else { format!(": {hint}") };
        Wrong::new(self.line, format!("unexpected {what}{hint}"))
    }

    /// Reads something that may hold itself, unless it does so too often.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Words) -> Result<T, Wrong>) -> Result<T, Wrong> {
        if self.nesting == MAX_NESTING {
            return Err(Wrong::new(self.line, format!("values are nested deeper than {MAX_NESTING}")));
        }
        self.nesting += 1;
        let read = read(self);
        self.nesting -= 1;
        read
    }

    pub(super) fn end(&mut self) -> Result<(), Wrong> {
        if self.peek().is_none() { Ok(()) } else { Err(self.unexpected("")) }
    }

    /// The names before `:=` or `=`, if the action begins with such: `declares` says which of both it was.
    fn assigned(&mut self, dialect: Dialect) -> Option<(Vec<String>, bool)> {
        let mut words = self.words.clone();
        let mut names = Vec::new();
        loop {
            match (words.next()?.kind, dialect) {
                (Kind::Variable(name), Dialect::Go) if !name.is_empty() => names.push(name),
                (Kind::Name(name), Dialect::Jet) => names.push(name),
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

type End = Option<(usize, Words)>;

impl Parser {
    /// What follows up to the `else` or `end` that belongs to it.
    fn block(&mut self) -> Result<(Vec<Node>, End), Wrong> {
        let mut nodes = Vec::new();
        while let Some(part) = self.parts.next() {
            let (line, words) = match part {
                Part::Text(text) => {
                    nodes.push(Node::Text(text));
                    continue;
                }
                Part::Action { line, words } => (line, words),
            };
            let mut words = Words { words: words.into_iter().peekable(), line, nesting: 0 };
            let keyword = if let Some(Kind::Name(name)) = words.peek() { name.clone() } else { String::new() };
            match keyword.as_str() {
                "else" | "end" => return Ok((nodes, Some((line, words)))),
                "if" | "range" | "with" => {
                    words.next();
                    self.depth += 1;
                    if self.depth > MAX_DEPTH {
                        return Err(Wrong::new(line, format!("blocks are nested deeper than {MAX_DEPTH}")));
                    }
                    nodes.push(match keyword.as_str() {
                        "if" => self.condition(words)?,
                        "range" => self.range(words)?,
                        _ => self.with(words)?,
                    });
                    self.depth -= 1;
                }
                keyword if UNSUPPORTED.contains(&keyword) => {
                    return Err(Wrong::new(line, format!("{keyword} is not supported")));
                }
                keyword => nodes.push(self.simple(keyword, words)?),
            }
        }
        Ok((nodes, None))
    }

    fn simple(&mut self, keyword: &str, mut words: Words) -> Result<Node, Wrong> {
        let line = words.line;
        let includes = match self.dialect {
            Dialect::Go => "template",
            Dialect::Jet => "include",
        };
        if keyword == includes {
            words.next();
            let name = self.operand(&mut words)?;
            let context = if words.peek().is_some() { Some(self.expression(&mut words)?) } else { None };
            words.end()?;
            return Ok(Node::Include { line, name, context });
        }
        if let Some((names, declare)) = words.assigned(self.dialect) {
            let [name] = <[String; 1]>::try_from(names)
                .map_err(|_| Wrong::new(line, "several variables at once are for range alone"))?;
            let expression = self.expression(&mut words)?;
            words.end()?;
            return Ok(Node::Assign { line, name, declare, expression });
        }
        let expression = self.expression(&mut words)?;
        words.end()?;
        Ok(Node::Print { line, expression })
    }

    fn expression(&self, words: &mut Words) -> Result<Expression, Wrong> {
        match self.dialect {
            Dialect::Go => go::pipeline(words),
            Dialect::Jet => jet::expression(words),
        }
    }

    fn operand(&self, words: &mut Words) -> Result<Expression, Wrong> {
        match self.dialect {
            Dialect::Go => go::operand(words),
            Dialect::Jet => jet::operand(words),
        }
    }

    /// An expression that may be given a name, to the end of the action.
    fn named(&self, words: &mut Words) -> Result<(Option<String>, Expression), Wrong> {
        let mut name = None;
        if let Some((names, declares)) = words.assigned(self.dialect) {
            let [only] = <[String; 1]>::try_from(names).map_err(|_| words.unexpected("one variable is expected"))?;
            if !declares || self.dialect == Dialect::Jet {
                return Err(Wrong::new(words.line, "an assignment is not supported here"));
            }
            name = Some(only);
        }
        let expression = self.expression(words)?;
        words.end()?;
        Ok((name, expression))
    }

    fn condition(&mut self, mut words: Words) -> Result<Node, Wrong> {
        let began = words.line;
        let mut branches = Vec::new();
        loop {
            let line = words.line;
            let (name, condition) = self.named(&mut words)?;
            let (body, end) = self.block()?;
            branches.push(Branch { line, name, condition, body });
            let Some((line, mut next)) = end else { return Err(unclosed(began, "if")) };
            let is_end = next.keyword().as_deref() == Some("end");
            if is_end {
                next.end()?;
                return Ok(Node::If { branches, otherwise: Vec::new() });
            }
            match next.keyword().as_deref() {
                Some("if") => words = next,
                Some(other) => return Err(Wrong::new(line, format!("else {other} is not supported"))),
                None => {
                    next.end()?;
                    return Ok(Node::If { branches, otherwise: self.last(began, "if")? });
                }
            }
        }
    }

    fn range(&mut self, mut words: Words) -> Result<Node, Wrong> {
        let line = words.line;
        let names = match (words.assigned(self.dialect), self.dialect) {
            (None, _) => Names { dot: true, ..Names::default() },
            (Some((_, false)), _) => return Err(Wrong::new(line, "range wants :=")),
            (Some((names, true)), dialect) => match (<[String; 2]>::try_from(names), dialect) {
                (Ok([key, value]), dialect) => {
                    Names { key: Some(key), value: Some(value), dot: dialect == Dialect::Go }
                }
                (Err(mut names), dialect) if names.len() == 1 => {
                    let name = names.pop();
                    match dialect {
                        Dialect::Go => Names { key: None, value: name, dot: true },
                        Dialect::Jet => Names { key: name, value: None, dot: true },
                    }
                }
                _ => return Err(Wrong::new(line, "range has at most two variables")),
            },
        };
        let over = self.expression(&mut words)?;
        words.end()?;
        let (body, otherwise) = self.body_and_else(line, "range")?;
        Ok(Node::Range { line, names, over, body, otherwise })
    }

    fn with(&mut self, mut words: Words) -> Result<Node, Wrong> {
        let line = words.line;
        if self.dialect == Dialect::Jet {
            return Err(Wrong::new(line, "with is not supported"));
        }
        let (name, expression) = self.named(&mut words)?;
        let (body, otherwise) = self.body_and_else(line, "with")?;
        Ok(Node::With { line, name, expression, body, otherwise })
    }

    fn body_and_else(&mut self, began: usize, what: &str) -> Result<(Vec<Node>, Vec<Node>), Wrong> {
        let (body, end) = self.block()?;
        let Some((_, mut words)) = end else { return Err(unclosed(began, what)) };
        let is_end = words.keyword().as_deref() == Some("end");
        words.end()?;
        let otherwise = if is_end { Vec::new() } else { self.last(began, what)? };
        Ok((body, otherwise))
    }

    /// What follows an `else`, up to its `end`.
    fn last(&mut self, began: usize, what: &str) -> Result<Vec<Node>, Wrong> {
        let (nodes, end) = self.block()?;
        let Some((line, mut words)) = end else { return Err(unclosed(began, what)) };
        if words.keyword().as_deref() != Some("end") {
            return Err(Wrong::new(line, "another else"));
        }
        words.end()?;
        Ok(nodes)
    }
}

fn unclosed(line: usize, what: &str) -> Wrong {
    Wrong::new(line, format!("this {what} has no end"))
}
