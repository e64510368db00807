//! Parses the parts of a template.

use super::TemplateError;
use super::lexer::{Kind, Part, Word, Words};
use super::values::{self, Branch, Expression, Names, Node};
use std::iter::Peekable;
use std::vec::IntoIter;

/// Maximum nesting of blocks, which are processed recursively.
const MAX_DEPTH: usize = 30;

/// The keywords of Jet's actions that are not supported.
const UNSUPPORTED: [&str; 13] = [
    "with", "define", "block", "break", "continue", "extends", "import", "yield", "content", "try", "catch", "return",
    "macro",
];

/// Parses the parts of a template.
pub(super) fn parse(parts: Vec<Part>) -> Result<Vec<Node>, TemplateError> {
    let mut parser = Parser { parts: parts.into_iter().peekable(), depth: 0 };
    let (nodes, end) = parser.block()?;
    match end {
        None => Ok(nodes),
        Some((line, mut words)) => {
            let name = words.keyword().unwrap_or_default();
            Err(TemplateError::new(line, format!("there is nothing that this {name} could belong to")))
        }
    }
}

struct Parser {
    parts: Peekable<IntoIter<Part>>,
    depth: usize,
}

type End = Option<(usize, Words)>;

impl Parser {
    /// Parses all parts up to the matching `else` or `end`.
    fn block(&mut self) -> Result<(Vec<Node>, End), TemplateError> {
        let mut nodes = Vec::new();
        while let Some(part) = self.parts.next() {
            let (line, words) = match part {
                Part::Text(text) => {
                    nodes.push(Node::Text(text));
                    continue;
                }
                Part::Action { line, words } => (line, words),
            };
            let mut words = Words::new(words, line);
            let keyword = if let Some(Kind::Name(name)) = words.peek() { name.clone() } else { String::new() };
            match keyword.as_str() {
                "else" | "end" => return Ok((nodes, Some((line, words)))),
                "if" | "range" => {
                    words.next();
                    self.depth += 1;
                    if self.depth > MAX_DEPTH {
                        return Err(TemplateError::new(line, format!("blocks are nested deeper than {MAX_DEPTH}")));
                    }
                    nodes.push(if keyword == "if" { self.condition(words)? } else { self.range(words)? });
                    self.depth -= 1;
                }
                keyword if UNSUPPORTED.contains(&keyword) => {
                    return Err(TemplateError::new(line, format!("{keyword} is not supported")));
                }
                keyword => nodes.push(self.simple(keyword, words)?),
            }
        }
        Ok((nodes, None))
    }

    fn simple(&mut self, keyword: &str, mut words: Words) -> Result<Node, TemplateError> {
        let line = words.line;
        if keyword == "include" {
            words.next();
            let name = values::operand(&mut words)?;
            let context = if words.peek().is_some() { Some(values::expression(&mut words)?) } else { None };
            words.end()?;
            return Ok(Node::Include { line, name, context });
        }
        if let Some((names, declare)) = words.assigned() {
            let [name] = <[String; 1]>::try_from(names)
                .map_err(|_| TemplateError::new(line, "several variables at once are for range alone"))?;
            let expression = values::expression(&mut words)?;
            words.end()?;
            return Ok(Node::Assign { line, name, declare, expression });
        }
        let expression = values::expression(&mut words)?;
        words.end()?;
        Ok(Node::Print { line, expression })
    }

    /// Parses an expression up to the end of the action.
    fn condition_of(words: &mut Words) -> Result<Expression, TemplateError> {
        if words.assigned().is_some() {
            return Err(TemplateError::new(words.line, "an assignment is not supported here"));
        }
        let expression = values::expression(words)?;
        words.end()?;
        Ok(expression)
    }

    fn condition(&mut self, mut words: Words) -> Result<Node, TemplateError> {
        let began = words.line;
        let mut branches = Vec::new();
        loop {
            let line = words.line;
            let condition = Self::condition_of(&mut words)?;
            let (body, end) = self.block()?;
            branches.push(Branch { line, condition, body });
            let Some((line, mut next)) = end else { return Err(unclosed(began, "if")) };
            let is_end = next.keyword().as_deref() == Some("end");
            if is_end {
                next.end()?;
                return Ok(Node::If { branches, otherwise: Vec::new() });
            }
            match next.keyword().as_deref() {
                Some("if") => words = next,
                Some(other) => return Err(TemplateError::new(line, format!("else {other} is not supported"))),
                None => {
                    next.end()?;
                    return Ok(Node::If { branches, otherwise: self.last(began, "if")? });
                }
            }
        }
    }

    fn range(&mut self, mut words: Words) -> Result<Node, TemplateError> {
        let line = words.line;
        let names = match words.assigned() {
            None => Names { dot: true, ..Names::default() },
            Some((_, false)) => return Err(TemplateError::new(line, "range wants :=")),
            Some((names, true)) => match <[String; 2]>::try_from(names) {
                Ok([key, value]) => Names { key: Some(key), value: Some(value), dot: false },
                Err(mut names) if names.len() == 1 => Names { key: names.pop(), value: None, dot: true },
                Err(_) => return Err(TemplateError::new(line, "range has at most two variables")),
            },
        };
        let over = values::expression(&mut words)?;
        words.end()?;
        let (body, otherwise) = self.body_and_else(line, "range")?;
        Ok(Node::Range { line, names, over, body, otherwise })
    }

    fn body_and_else(&mut self, began: usize, what: &str) -> Result<(Vec<Node>, Vec<Node>), TemplateError> {
        let (body, end) = self.block()?;
        let Some((_, mut words)) = end else { return Err(unclosed(began, what)) };
        let is_end = words.keyword().as_deref() == Some("end");
        words.end()?;
        let otherwise = if is_end { Vec::new() } else { self.last(began, what)? };
        Ok((body, otherwise))
    }

    /// Parses all parts between an `else` and its `end`.
    fn last(&mut self, began: usize, what: &str) -> Result<Vec<Node>, TemplateError> {
        let (nodes, end) = self.block()?;
        let Some((line, mut words)) = end else { return Err(unclosed(began, what)) };
        if words.keyword().as_deref() != Some("end") {
            return Err(TemplateError::new(line, "another else"));
        }
        words.end()?;
        Ok(nodes)
    }
}

fn unclosed(line: usize, what: &str) -> TemplateError {
    TemplateError::new(line, format!("this {what} has no end"))
}

/// Parses the tokens of an expression, all of which are on one line.
pub(super) fn expression(words: Vec<Word>) -> Result<Expression, TemplateError> {
    let mut words = Words::new(words, 1);
    let expression = values::expression(&mut words)?;
    words.end()?;
    Ok(expression)
}
