//! Expressions of Jet, with operators, functions, calls and pipes.

use super::lexer::{Kind, Words};
use super::{EvalError, TemplateError};
use crate::engines::MAX_VALUE;
use serde_json::Value;
use std::borrow::Cow;
use std::cmp::Ordering;

/// The operators, the weakest first.
const LEVELS: [&[(&str, Operator)]; 6] = [
    &[("||", Operator::Or)],
    &[("&&", Operator::And)],
    &[("==", Operator::Equal), ("!=", Operator::NotEqual)],
    &[("<=", Operator::AtMost), (">=", Operator::AtLeast), ("<", Operator::Less), (">", Operator::Greater)],
    &[("+", Operator::Plus), ("-", Operator::Minus)],
    &[("*", Operator::Times), ("/", Operator::Over), ("%", Operator::Modulo)],
];

/// Parses an expression and the functions it is piped through: `VALUE | FUNCTION | FUNCTION: ARGUMENT, …`.
pub(super) fn expression(words: &mut Words) -> Result<Expression, TemplateError> {
    let mut value = choice(words)?;
    if words.take(":") {
        value = call(value, after_colon(words)?, words)?;
    }
    while words.take("|") {
        let Some(Kind::Name(function)) = words.next() else {
            return Err(TemplateError::new(words.line, "a function is expected after |"));
        };
        let mut arguments = vec![value];
        if words.take(":") {
            arguments.extend(after_colon(words)?);
        } else if words.take("(") {
            arguments.extend(arguments_to(words, ")")?);
        }
        value = Expression::Call(function, arguments);
    }
    Ok(value)
}

fn after_colon(words: &mut Words) -> Result<Vec<Expression>, TemplateError> {
    let mut arguments = vec![choice(words)?];
    while words.take(",") {
        arguments.push(choice(words)?);
    }
    Ok(arguments)
}

fn arguments_to(words: &mut Words, close: &str) -> Result<Vec<Expression>, TemplateError> {
    let mut arguments = Vec::new();
    if words.take(close) {
        return Ok(arguments);
    }
    loop {
        arguments.push(expression(words)?);
        if words.take(close) {
            return Ok(arguments);
        }
        words.expect(",")?;
    }
}

fn call(function: Expression, arguments: Vec<Expression>, words: &Words) -> Result<Expression, TemplateError> {
    match function {
        Expression::Variable(name) => Ok(Expression::Call(name, arguments)),
        other => Err(TemplateError::new(words.line, format!("{} is not a function", other.shown()))),
    }
}

/// Parses `CONDITION ? VALUE : VALUE`.
fn choice(words: &mut Words) -> Result<Expression, TemplateError> {
    let condition = binary(words, 0)?;
    if !words.take("?") {
        return Ok(condition);
    }
    let yes = words.nested(choice)?;
    words.expect(":")?;
    let no = words.nested(choice)?;
    Ok(Expression::Choice(Box::new([condition, yes, no])))
}

fn binary(words: &mut Words, level: usize) -> Result<Expression, TemplateError> {
    let Some(operators) = LEVELS.get(level) else { return unary(words) };
    let mut left = binary(words, level + 1)?;
    while let Some((_, operator)) = operators.iter().find(|(symbol, _)| words.take(symbol)) {
        let right = binary(words, level + 1)?;
        left = Expression::Binary(Box::new(left), *operator, Box::new(right));
    }
    Ok(left)
}

fn unary(words: &mut Words) -> Result<Expression, TemplateError> {
    if words.take("!") {
        return Ok(Expression::Not(Box::new(words.nested(unary)?)));
    }
    if words.take("-") {
        return Ok(Expression::Minus(Box::new(words.nested(unary)?)));
    }
    operand(words)
}

/// Parses a single value with its fields, indices and arguments.
pub(super) fn operand(words: &mut Words) -> Result<Expression, TemplateError> {
    let mut value = match words.peek().cloned() {
        Some(Kind::Symbol("(")) => {
            words.next();
            let value = words.nested(expression)?;
            words.expect(")")?;
            value
        }
        Some(Kind::Name(name)) => {
            words.next();
            Expression::Variable(name)
        }
        Some(Kind::Field(name)) => {
            words.next();
            Expression::Field(Box::new(Expression::Dot), name)
        }
        Some(Kind::Dot) => {
            words.next();
            Expression::Dot
        }
        Some(Kind::Literal(value)) => {
            words.next();
            Expression::Literal(value)
        }
        Some(Kind::Symbol(_)) | None => return Err(words.unexpected("a value is expected")),
    };
    loop {
        match words.peek_glued() {
            Some(Kind::Field(name)) => {
                value = Expression::Field(Box::new(value), name.clone());
                words.next();
            }
            Some(Kind::Symbol("[")) => {
                words.next();
                let index = words.nested(expression)?;
                words.expect("]")?;
                value = Expression::Index(Box::new(value), Box::new(index));
            }
            Some(Kind::Symbol("(")) => {
                words.next();
                let arguments = words.nested(|words| arguments_to(words, ")"))?;
                value = call(value, arguments, words)?;
            }
            _ => return Ok(value),
        }
    }
}

const ALL: &str = "file, hasPrefix, hasSuffix, isset, json, len, lookup, lower, raw, readFile, registrations, render, replace, \
                   split, template, trimSpace, unsafe, upper, write";

/// Returns the kind of a value, for error messages.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

/// Returns the text of a value, or the kind of a value that has no text.
pub(super) fn text(value: &Value) -> Result<String, &'static str> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        other => Err(kind(other)),
    }
}

/// Calls a function that evaluates all its arguments.
pub(super) fn call_function(name: &str, arguments: &[Cow<'_, Value>]) -> Result<Value, EvalError> {
    let strings = || -> Result<Vec<&str>, EvalError> {
        let of = |value: &'_ Cow<'_, Value>| value.is_string();
        if !arguments.iter().all(of) {
            return Err(EvalError(format!("{name} wants strings")));
        }
        Ok(arguments.iter().filter_map(|value| value.as_str()).collect())
    };
    let wants = |what: &str| Err(EvalError(format!("{name} wants {what}")));
    match (name, arguments) {
        ("len", [value]) => match &**value {
            Value::Array(list) => Ok(list.len().into()),
            Value::Object(table) => Ok(table.len().into()),
            // The length in bytes, as in Go.
            Value::String(text) => Ok(text.len().into()),
            other => Err(EvalError(format!("{} has no length", kind(other)))),
        },
        ("len", _) => wants("one value"),
        ("json", [value]) => Ok(value.to_string().into()),
        // Values are never escaped here, so there is nothing to turn off.
        ("raw" | "unsafe", [value]) => Ok(value.clone().into_owned()),
        ("lower" | "upper" | "trimSpace", [_]) => {
            let texts = strings()?;
            let text = texts.first().copied().unwrap_or_default();
            Ok(match name {
                "lower" => text.to_lowercase(),
                "upper" => text.to_uppercase(),
                _ => text.trim().to_owned(),
            }
            .into())
        }
        ("hasPrefix" | "hasSuffix" | "split", [_, _]) => match strings()?[..] {
            [text, part] if name == "hasPrefix" => Ok(text.starts_with(part).into()),
            [text, part] if name == "hasSuffix" => Ok(text.ends_with(part).into()),
            [text, part] if !part.is_empty() => {
                within(text.matches(part).count().saturating_mul(size_of::<Value>()))?;
                Ok(text.split(part).map(Value::from).collect::<Vec<_>>().into())
            }
            _ => wants("what to split at"),
        },
        ("replace", [text, from, to] | [text, from, to, _]) => {
            let (Some(text), Some(from), Some(to)) = (text.as_str(), from.as_str(), to.as_str()) else {
                return wants("strings");
            };
            within(text.matches(from).count().saturating_mul(to.len()).saturating_add(text.len()))?;
            match arguments.get(3).map(|times| times.as_i64()) {
                None | Some(Some(-1)) => Ok(text.replace(from, to).into()),
                Some(times) => match times.and_then(|times| usize::try_from(times).ok()) {
                    Some(times) => Ok(text.replacen(from, to, times).into()),
                    None => wants("a number of times"),
                },
            }
        }
        ("json" | "raw" | "unsafe" | "lower" | "upper" | "trimSpace", _) => wants("one value"),
        ("hasPrefix" | "hasSuffix" | "split", _) => wants("two strings"),
        ("replace", _) => wants("three strings, and how many times at most"),
        (name, _) => Err(EvalError(format!("there is no function {name}; there are {ALL}"))),
    }
}

/// Checks the size of a text or list that is about to be created, in bytes.
fn within(size: usize) -> Result<(), EvalError> {
    if size > MAX_VALUE {
        return Err(EvalError(format!("a value would exceed the limit of {} MiB", MAX_VALUE >> 20)));
    }
    Ok(())
}

/// Returns the result of a binary operator, except of those that may not evaluate the second operand.
pub(super) fn calculate(left: &Value, operator: Operator, right: &Value) -> Result<Value, EvalError> {
    let cannot = || EvalError(format!("{} and {} cannot be compared or put together so", kind(left), kind(right)));
    match operator {
        Operator::Equal | Operator::NotEqual => {
            let equal = match (left, right) {
                (Value::Number(_), Value::Number(_)) => order(left, right) == Some(Ordering::Equal),
                (Value::Null, _) | (_, Value::Null) => left == right,
                // A number and a string that looks like it are not equal; an error is better than a silent mismatch.
                _ if kind(left) == kind(right) => left == right,
                _ => return Err(cannot()),
            };
            Ok((equal == (operator == Operator::Equal)).into())
        }
        Operator::Less | Operator::AtMost | Operator::Greater | Operator::AtLeast => {
            let order = order(left, right).ok_or_else(cannot)?;
            Ok(match operator {
                Operator::Less => order.is_lt(),
                Operator::AtMost => order.is_le(),
                Operator::Greater => order.is_gt(),
                _ => order.is_ge(),
            }
            .into())
        }
        Operator::And | Operator::Or => Err(cannot()),
        Operator::Plus if left.is_string() || right.is_string() => {
            let (left, right) = (text(left).map_err(|_| cannot())?, text(right).map_err(|_| cannot())?);
            within(left.len().saturating_add(right.len()))?;
            Ok((left + &right).into())
        }
        Operator::Plus | Operator::Minus | Operator::Times | Operator::Over | Operator::Modulo => {
            arithmetic(left, operator, right).ok_or_else(|| match (left, right) {
                (Value::Number(_), Value::Number(_)) => "this has no result that can be written".into(),
                _ => cannot(),
            })
        }
    }
}

fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(one), Value::Number(two)) => match (one.as_i64(), two.as_i64()) {
            (Some(one), Some(two)) => Some(one.cmp(&two)),
            _ => one.as_f64()?.partial_cmp(&two.as_f64()?),
        },
        (Value::String(one), Value::String(two)) => Some(one.cmp(two)),
        _ => None,
    }
}

fn arithmetic(left: &Value, operator: Operator, right: &Value) -> Option<Value> {
    if let (Some(left), Some(right)) = (left.as_i64(), right.as_i64()) {
        return match operator {
            Operator::Plus => left.checked_add(right),
            Operator::Minus => left.checked_sub(right),
            Operator::Times => left.checked_mul(right),
            Operator::Over => left.checked_div(right),
            Operator::Modulo => left.checked_rem(right),
            _ => None,
        }
        .map(Value::from);
    }
    let (left, right) = (left.as_f64()?, right.as_f64()?);
    let result = match operator {
        Operator::Plus => left + right,
        Operator::Minus => left - right,
        Operator::Times => left * right,
        Operator::Over => left / right,
        Operator::Modulo => left % right,
        _ => return None,
    };
    serde_json::Number::from_f64(result).map(Value::Number)
}

/// A part of a template.
#[derive(Debug)]
pub(crate) enum Node {
    Text(String),
    Print {
        line: usize,
        expression: Expression,
    },
    /// An assignment, which declares a new variable if `declare` is true.
    Assign {
        line: usize,
        name: String,
        declare: bool,
        expression: Expression,
    },
    If {
        branches: Vec<Branch>,
        otherwise: Vec<Node>,
    },
    Range {
        line: usize,
        names: Names,
        over: Expression,
        body: Vec<Node>,
        otherwise: Vec<Node>,
    },
    Include {
        line: usize,
        name: Expression,
        context: Option<Expression>,
    },
}

/// A part that is rendered if a condition is true.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(super) line: usize,
    pub(super) condition: Expression,
    pub(super) body: Vec<Node>,
}

/// The variables for the items of a list or table in the body of a loop.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The variable for the index in the list, or for the key.
    pub(super) key: Option<String>,
    pub(super) value: Option<String>,
    /// True if `.` is the item.
    pub(super) dot: bool,
}

/// An expression.
#[derive(Debug)]
pub(super) enum Expression {
    Literal(Value),
    /// `.`
    Dot,
    Variable(String),
    Field(Box<Expression>, String),
    Index(Box<Expression>, Box<Expression>),
    Call(String, Vec<Expression>),
    Not(Box<Expression>),
    Minus(Box<Expression>),
    Binary(Box<Expression>, Operator, Box<Expression>),
    Choice(Box<[Expression; 3]>),
}

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    And,
    Or,
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Plus,
    Minus,
    Times,
    Over,
    Modulo,
}

impl Expression {
    /// Returns the expression as it is written, for error messages.
    pub(super) fn shown(&self) -> String {
        match self {
            Expression::Dot => ".".to_owned(),
            Expression::Variable(name) => name.clone(),
            Expression::Field(of, name) => match &**of {
                Expression::Dot => format!(".{name}"),
                of => format!("{}.{name}", of.shown()),
            },
            Expression::Index(of, _) => format!("{}[…]", of.shown()),
            Expression::Literal(value) => value.to_string(),
            Expression::Call(name, _) => format!("the result of {name}"),
            _ => "this value".to_owned(),
        }
    }
}
