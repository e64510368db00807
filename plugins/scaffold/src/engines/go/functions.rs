//! The functions of templates: those of all engines, and those of Sprig. gotmpl provides Go's own functions.

use super::sprig::{self, Arguments};
use super::{Place, Templates, limits, values};
use crate::template_context::{Dot, TemplateContextError};
use gotmpl::{TemplateError, Value, ValueFunc};
use holo_plugin::facts::prometheus_file_sd;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError};

/// Go's own functions.
const BUILT_IN: [&str; 19] = [
    "and", "call", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt", "ne", "not", "or", "print", "printf",
    "println", "slice", "urlquery",
];

/// The functions that all engines provide.
const COMMON: [&str; 8] =
    ["lookup", "readFile", "file", "render", "write", "jet", "registrations", "prometheus_file_sd"];

/// Returns true if there is a function of this name.
pub(super) fn is_known(name: &str) -> bool {
    BUILT_IN.contains(&name) || COMMON.contains(&name) || sprig::find(name).is_some()
}

/// Returns all functions for the rendering of a template.
pub(super) fn all(templates: &Templates, name: &str, place: &Place) -> BTreeMap<String, ValueFunc> {
    let mut functions: BTreeMap<String, ValueFunc> = BTreeMap::new();
    for function in sprig::all() {
        let context = Arc::clone(&templates.context);
        let call = move |arguments: &[Value]| {
            if let Some(warning) = function.warning {
                context.warn(format!("{}: {warning}", function.name));
            }
            (function.call)(&Arguments { name: function.name, values: arguments })
        };
        let call: ValueFunc = Arc::new(call);
        if sprig::CHANGING.contains(&function.name) {
            functions.insert(format!(" {}", function.name), Arc::clone(&call));
        }
        functions.insert(function.name.to_owned(), call);
    }
    for name in ["print", "println"] {
        functions.insert(name.to_owned(), Arc::new(move |arguments: &[Value]| Ok(print(name, arguments))));
    }
    for name in limits::BUILT_IN {
        functions.insert(name.to_owned(), Arc::new(move |arguments: &[Value]| limits::call_built_in(name, arguments)));
    }
    let note = Arc::clone(place);
    let steps = AtomicU64::new(0);
    functions.insert(
        values::AT.to_owned(),
        Arc::new(move |arguments: &[Value]| {
            limits::count_step(&steps)?;
            if let [Value::String(name), Value::Int(line)] = arguments {
                let mut place = note.lock().unwrap_or_else(PoisonError::into_inner);
                *place = (Arc::clone(name), usize::try_from(*line).unwrap_or_default());
            }
            Ok(Value::String("".into()))
        }),
    );
    functions.insert(values::SHOW.to_owned(), Arc::new(show));
    functions.insert(values::NOTHING.to_owned(), Arc::new(|_: &[Value]| Ok(Value::Nil)));
    functions.insert(values::FORMAT.to_owned(), Arc::new(format));
    common(templates, name, &mut functions);
    functions.into_iter().map(|(name, call)| (name.clone(), limits::limited(&name, call))).collect()
}

fn show(arguments: &[Value]) -> Result<Value, TemplateError> {
    let shown = arguments.first().map_or_else(|| Some(String::new()), values::shown);
    let shown = shown
        .ok_or_else(|| TemplateError::Exec("this is a function or a time, which has no text of its own".to_owned()))?;
    Ok(Value::String(shown.into()))
}

/// Returns a format unchanged, or an error if it refers to Go's types.
fn format(arguments: &[Value]) -> Result<Value, TemplateError> {
    let format = arguments.first().cloned().unwrap_or(Value::Nil);
    let text = format.as_str().unwrap_or_default();
    let verb = |after: &str| after.trim_start_matches(|letter: char| !letter.is_alphabetic()).chars().next();
    if text.split('%').skip(1).filter_map(verb).any(|verb| verb == 'T' || verb == 'p') {
        return Err(TemplateError::Exec(format!("printf {text:?}: the verbs %T and %p are not supported")));
    }
    Ok(format)
}

/// Formats values like Go's `Sprint` and `Sprintln`. `Sprint` separates two operands by a space only if neither is a
/// string.
fn print(name: &str, arguments: &[Value]) -> Value {
    let mut text = String::new();
    let is_text = |value: Option<&Value>| matches!(value, Some(Value::String(_)));
    for (index, value) in arguments.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|index| arguments.get(index));
        if index > 0 && (name == "println" || !is_text(before) && !is_text(Some(value))) {
            text.push(' ');
        }
        text.push_str(&values::text(value));
    }
    if name == "println" {
        text.push('\n');
    }
    Value::String(text.into())
}

fn common(templates: &Templates, name: &str, functions: &mut BTreeMap<String, ValueFunc>) {
    let mut add = |function: &'static str, call: fn(&Templates, &str, &Arguments<'_>) -> Result<Value, Failure>| {
        let (templates, by) = (templates.clone(), name.to_owned());
        let call = move |arguments: &[Value]| {
            call(&templates, &by, &Arguments { name: function, values: arguments }).map_err(|Failure(error)| error)
        };
        functions.insert(function.to_owned(), Arc::new(call));
    };
    add("lookup", |templates, _, arguments| {
        arguments.between(1, 2)?;
        match templates.context.lookup(arguments.text(0)?, None) {
            Err(TemplateContextError::Missing(_)) if arguments.values.len() == 2 => Ok(arguments.value(1)?.clone()),
            found => Ok(values::of_json(&found?)),
        }
    });
    for function in ["readFile", "file"] {
        add(function, |templates, _, arguments| {
            arguments.exactly(1)?;
            Ok(Value::String(templates.context.read_file(arguments.text(0)?)?.into()))
        });
    }
    add("registrations", |templates, _, arguments| {
        let wanted = (0..arguments.values.len()).map(|index| arguments.text(index)).collect::<Result<Vec<_>, _>>()?;
        Ok(values::of_json(&templates.context.registrations(&wanted)?))
    });
    // Lists have no fields.
    add("prometheus_file_sd", |_, _, arguments| {
        arguments.exactly(1)?;
        let services = values::to_json(arguments.value(0)?);
        let services = services.as_ref().and_then(|services| services.as_array());
        let services = services.ok_or_else(|| arguments.error("takes a list of registrations"))?;
        Ok(Value::String(prometheus_file_sd(services).into()))
    });
    add("render", |templates, _, arguments| {
        arguments.between(1, 2)?;
        let path = arguments.text(0)?;
        let all = templates.all.get();
        let is_all = |value: &Value| match (value, all) {
            (Value::Map(value), Some(Value::Map(all))) => Arc::ptr_eq(value, all),
            _ => false,
        };
        let rendered = match arguments.values.get(1).filter(|value| !is_all(value)) {
            None => templates.context.render_file(templates, path, Dot::All)?,
            Some(value) => {
                let value = values::to_json(value).ok_or_else(|| arguments.error("cannot hand a function over"))?;
                templates.context.render_file(templates, path, Dot::Value(&value))?
            }
        };
        Ok(Value::String(rendered.into()))
    });
    add("write", |templates, by, arguments| {
        arguments.exactly(2)?;
        templates.context.write(by, arguments.text(0)?, arguments.text(1)?)?;
        Ok(Value::String("".into()))
    });
    add("jet", |templates, _, arguments| {
        let delimiters = match arguments.values.len() {
            1 => None,
            3 => Some([arguments.text(1)?.to_owned(), arguments.text(2)?.to_owned()]),
            _ => return Err(arguments.error("wants a text, and two delimiters if others than [[ and ]]").into()),
        };
        Ok(Value::String(templates.context.render_in("jet", delimiters.as_ref(), arguments.text(0)?)?.into()))
    });
}

/// The error of a function call.
struct Failure(TemplateError);

impl From<TemplateError> for Failure {
    fn from(error: TemplateError) -> Failure {
        Failure(error)
    }
}

impl From<TemplateContextError> for Failure {
    fn from(error: TemplateContextError) -> Failure {
        Failure(TemplateError::Exec(error.to_string()))
    }
}
