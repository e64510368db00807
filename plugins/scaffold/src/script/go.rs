//! Values as Go's `text/template` writes them: commands of words, in pipelines.

use super::TemplateError;
use super::lexer::Kind;
use super::syntax::Expression;
use super::words::Words;

/// `COMMAND | COMMAND …`: each gets the value of the one before as its last argument.
pub(super) fn pipeline(words: &mut Words) -> Result<Expression, TemplateError> {
    let mut value = command(words, None)?;
    while words.take("|") {
        value = command(words, Some(value))?;
    }
    Ok(value)
}

fn command(words: &mut Words, last: Option<Expression>) -> Result<Expression, TemplateError> {
    if let Some(Kind::Name(name)) = words.peek() {
        let name = name.clone();
        words.next();
        let mut arguments = Vec::new();
        while !matches!(words.peek(), None | Some(Kind::Symbol("|" | ")"))) {
            arguments.push(operand(words)?);
        }
        arguments.extend(last);
        return Ok(Expression::Call(name, arguments));
    }
    if last.is_some() {
        return Err(words.unexpected("a function is expected after |"));
    }
    let value = operand(words)?;
    if matches!(words.peek(), None | Some(Kind::Symbol("|" | ")"))) {
        return Ok(value);
    }
    Err(words.unexpected("what is before it is not a function"))
}

/// One value.
pub(super) fn operand(words: &mut Words) -> Result<Expression, TemplateError> {
    let mut value = match words.peek().cloned() {
        Some(Kind::Symbol("(")) => {
            words.next();
            let value = words.nested(pipeline)?;
            words.expect(")")?;
            value
        }
        Some(Kind::Name(name)) => {
            words.next();
            Expression::Call(name, Vec::new())
        }
        Some(Kind::Field(name)) => {
            words.next();
            Expression::Field(Box::new(Expression::Dot), name)
        }
        Some(Kind::Dot) => {
            words.next();
            Expression::Dot
        }
        Some(Kind::Variable(name)) => {
            words.next();
            if name.is_empty() { Expression::Root } else { Expression::Variable(name) }
        }
        Some(Kind::Literal(value)) => {
            words.next();
            Expression::Literal(value)
        }
        Some(Kind::Symbol(_)) | None => return Err(words.unexpected("a value is expected")),
    };
    while let Some(Kind::Field(name)) = words.peek_glued() {
        value = Expression::Field(Box::new(value), name.clone());
        words.next();
    }
    Ok(value)
}
