//! Expressions in the data of a definition, such as `{{ Facts.version }}`.

use crate::engines::jet::{self, EvalError};
use crate::template_context::{DELIMITERS, TemplateContext};
use holo_plugin::facts::LocatedError;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The reason why a text with expressions has no value.
#[derive(Debug, thiserror::Error)]
enum ExpressionError {
    #[error("{0} is not closed")]
    Open(&'static str),
    #[error("{0}: {1}")]
    Value(String, EvalError),
}

/// Replaces the expressions in all strings with their values. A string that consists of one expression is replaced with
/// its value, whatever its type. `shown` names the data in error messages.
///
/// # Errors
/// If an expression has no value, or no end.
pub(crate) fn evaluate(
    shown: &str,
    data: Map<String, Value>,
    context: &Arc<TemplateContext>,
) -> Result<Map<String, Value>, LocatedError> {
    let each = |(key, value)| match evaluated(value, context) {
        Ok(value) => Ok((key, value)),
        Err(reason) => Err(LocatedError::new(format!("{shown}.{key}"), reason)),
    };
    data.into_iter().map(each).collect()
}

fn evaluated(value: Value, context: &Arc<TemplateContext>) -> Result<Value, ExpressionError> {
    Ok(match value {
        Value::String(text) => text_of(text, context)?,
        Value::Array(list) => list.into_iter().map(|value| evaluated(value, context)).collect::<Result<_, _>>()?,
        Value::Object(table) => {
            let entries = table.into_iter().map(|(key, value)| Ok((key, evaluated(value, context)?)));
            Value::Object(entries.collect::<Result<_, ExpressionError>>()?)
        }
        other => other,
    })
}

fn text_of(text: String, context: &Arc<TemplateContext>) -> Result<Value, ExpressionError> {
    let (mut rest, mut result) = (text.as_str(), String::new());
    while let Some((at, open, close)) = first(rest) {
        let (before, after) = rest.split_at(at);
        let within = &after[open.len()..];
        let end = end(within, close).ok_or(ExpressionError::Open(open))?;
        let value = jet::evaluate(within[..end].trim(), context)
            .map_err(|error| ExpressionError::Value(format!("{open}{}{close}", &within[..end]), error))?;
        rest = &within[end + close.len()..];
        if result.is_empty() && before.is_empty() && rest.is_empty() {
            return Ok(value);
        }
        result.push_str(before);
        match value {
            Value::String(text) => result.push_str(&text),
            other => result.push_str(&other.to_string()),
        }
    }
    if result.is_empty() {
        return Ok(Value::String(text));
    }
    result.push_str(rest);
    Ok(Value::String(result))
}

/// Returns the position of the first expression, with its delimiters.
pub(crate) fn first(text: &str) -> Option<(usize, &'static str, &'static str)> {
    DELIMITERS.iter().filter_map(|(open, close)| Some((text.find(open)?, *open, *close))).min()
}

/// Returns the position of the end of an expression. Delimiters in string literals are skipped.
fn end(text: &str, close: &str) -> Option<usize> {
    let (mut quote, mut escaped) = (None, false);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => quote = Some(letter),
            (None, _) if text[at..].starts_with(close) => return Some(at),
            (None, _) => {}
        }
    }
    None
}
