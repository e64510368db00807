//! Lists and defaults.

use super::{Arguments, Function, texts_of};
use gotmpl::{TemplateError, Value};

type Result = std::result::Result<Value, TemplateError>;

const fn function(name: &'static str, call: fn(&Arguments<'_>) -> Result) -> Function {
    Function { name, call, warning: None }
}

pub(super) const ALL: &[Function] = &[
    function("list", |a| Ok(list(a.values.iter().cloned()))),
    function("first", |a| Ok(single(a)?.first().cloned().unwrap_or(Value::Nil))),
    function("last", |a| Ok(single(a)?.last().cloned().unwrap_or(Value::Nil))),
    function("rest", |a| Ok(list(single(a)?.iter().skip(1).cloned()))),
    function("initial", |a| Ok(list(single(a)?.split_last().map_or(&[][..], |(_, rest)| rest).iter().cloned()))),
    function("append", |a| {
        a.exactly(2)?;
        Ok(list(a.list(0)?.iter().chain([a.value(1)?]).cloned()))
    }),
    function("prepend", |a| {
        a.exactly(2)?;
        Ok(list([a.value(1)?].into_iter().chain(a.list(0)?).cloned()))
    }),
    function("uniq", |a| {
        let mut unique: Vec<Value> = Vec::new();
        for value in single(a)? {
            if !unique.contains(value) {
                unique.push(value.clone());
            }
        }
        Ok(list(unique))
    }),
    function("sortAlpha", |a| {
        a.exactly(1)?;
        let mut texts = texts_of(a.value(0)?);
        texts.sort();
        Ok(list(texts.into_iter().map(|text| Value::String(text.into()))))
    }),
    function("reverse", |a| Ok(list(single(a)?.iter().rev().cloned()))),
    function("has", |a| {
        a.exactly(2)?;
        if matches!(a.value(1)?, Value::Nil) {
            return Ok(Value::Bool(false));
        }
        Ok(Value::Bool(a.list(1)?.contains(a.value(0)?)))
    }),
    function("without", |a| {
        a.at_least(1)?;
        let omitted = a.values.get(1..).unwrap_or_default();
        Ok(list(a.list(0)?.iter().filter(|value| !omitted.contains(value)).cloned()))
    }),
    function("default", |a| {
        a.at_least(1)?;
        let given = a.values.get(1).filter(|given| given.is_truthy());
        Ok(given.unwrap_or(a.value(0)?).clone())
    }),
    function("coalesce", |a| Ok(a.values.iter().find(|value| value.is_truthy()).cloned().unwrap_or(Value::Nil))),
    function("empty", |a| {
        a.exactly(1)?;
        Ok(Value::Bool(!a.value(0)?.is_truthy()))
    }),
    function("ternary", |a| {
        a.exactly(3)?;
        match a.value(2)? {
            Value::Bool(condition) => Ok(a.value(usize::from(!condition))?.clone()),
            other => Err(a.error(&format!("wants a truth value last, and is given {}", other.type_name()))),
        }
    }),
    function("fail", |a| {
        a.exactly(1)?;
        Err(TemplateError::Exec(a.text(0)?.to_owned()))
    }),
    function("required", |a| {
        a.exactly(2)?;
        let value = a.value(1)?;
        let missing = matches!(value, Value::Nil) || value.as_str().is_some_and(str::is_empty);
        if missing { Err(TemplateError::Exec(a.text(0)?.to_owned())) } else { Ok(value.clone()) }
    }),
    function("kindOf", |a| {
        a.exactly(1)?;
        super::text(kind(a, 0)?)
    }),
    function("kindIs", |a| {
        a.exactly(2)?;
        Ok(Value::Bool(a.text(0)? == kind(a, 1)?))
    }),
    function("typeOf", |a| {
        a.exactly(1)?;
        super::text(match kind(a, 0)? {
            "map" => "map[string]interface {}",
            "slice" => "[]interface {}",
            "invalid" => "<nil>",
            kind => kind,
        })
    }),
];

fn list(values: impl IntoIterator<Item = Value>) -> Value {
    Value::List(values.into_iter().collect())
}

fn single<'a>(a: &Arguments<'a>) -> std::result::Result<&'a [Value], TemplateError> {
    a.exactly(1)?;
    a.list(0)
}

fn kind(a: &Arguments<'_>, index: usize) -> std::result::Result<&'static str, TemplateError> {
    Ok(match a.value(index)? {
        Value::Nil => "invalid",
        Value::List(_) => "slice",
        Value::Function(_) => return Err(a.error("knows no kind of functions and times")),
        Value::Uint(_) => "uint64",
        other => other.type_name(),
    })
}
