//! Tables. The functions that modify a table in Go return a new table here, and `tree` assigns it to the variable.

use super::{Arguments, Function, text_of};
use gotmpl::{TemplateError, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) type Table = BTreeMap<Arc<str>, Value>;

type Result = std::result::Result<Value, TemplateError>;

const fn function(name: &'static str, call: fn(&Arguments<'_>) -> Result) -> Function {
    Function { name, call, warning: None }
}

pub(super) const ALL: &[Function] = &[
    function("dict", |a| {
        let pairs = a.values.chunks(2).filter_map(<[Value]>::split_first);
        let value = |rest: &[Value]| rest.first().cloned().unwrap_or(Value::String("".into()));
        Ok(made(pairs.map(|(key, rest)| (text_of(key).into(), value(rest))).collect()))
    }),
    function("get", |a| {
        a.exactly(2)?;
        Ok(a.table(0)?.get(a.text(1)?).cloned().unwrap_or(Value::String("".into())))
    }),
    function("hasKey", |a| {
        a.exactly(2)?;
        Ok(Value::Bool(a.table(0)?.contains_key(a.text(1)?)))
    }),
    // The order of keys and values is undefined in Go. Here they are sorted by key.
    function("keys", |a| {
        let tables = tables(a, 0)?;
        Ok(Value::List(
            tables.iter().flat_map(|table| table.keys()).map(|key| Value::String(Arc::clone(key))).collect(),
        ))
    }),
    function("values", |a| {
        a.exactly(1)?;
        Ok(Value::List(a.table(0)?.values().cloned().collect()))
    }),
    function("pluck", |a| {
        let key = a.text(0)?;
        Ok(Value::List(tables(a, 1)?.iter().filter_map(|table| table.get(key)).cloned().collect()))
    }),
    function("set", |a| {
        a.exactly(3)?;
        let mut table = a.table(0)?.clone();
        table.insert(a.text(1)?.into(), a.value(2)?.clone());
        Ok(made(table))
    }),
    function("unset", |a| {
        a.exactly(2)?;
        let mut table = a.table(0)?.clone();
        table.remove(a.text(1)?);
        Ok(made(table))
    }),
    function("merge", |a| {
        let mut table = a.table(0)?.clone();
        tables(a, 1)?.into_iter().for_each(|other| merge(&mut table, other));
        Ok(made(table))
    }),
];

fn made(table: Table) -> Value {
    Value::Map(Arc::new(table))
}

fn tables<'a>(a: &Arguments<'a>, from: usize) -> std::result::Result<Vec<&'a Table>, TemplateError> {
    (from..a.values.len()).map(|index| a.table(index)).collect()
}

/// Merges two tables. Existing values that are not empty are kept.
fn merge(table: &mut Table, other: &Table) {
    for (key, value) in other {
        match (table.get_mut(key), value) {
            (Some(Value::Map(inner)), Value::Map(other)) if !inner.is_empty() => merge(Arc::make_mut(inner), other),
            (Some(present), _) if present.is_truthy() => {}
            _ => drop(table.insert(Arc::clone(key), value.clone())),
        }
    }
}
