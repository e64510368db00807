//! Expressions of Jet, with operators, calls and pipes.

use super::TemplateError;
use super::lexer::Kind;
use super::syntax::{Expression, Operator};
use super::words::Words;

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
