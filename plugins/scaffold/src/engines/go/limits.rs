//! The limits of values in templates. The results of all functions are checked, because a few calls can create a value of
//! any size, such as a text that is doubled 40 times. gotmpl itself limits loops and recursion.

use crate::engines::{MAX_RESULT, MAX_STEPS, MAX_VALUE, too_many_steps};
use gotmpl::{Template, TemplateError, Value, ValueFunc};
use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum depth of lists and tables within each other.
const MAX_DEPTH: usize = 64;
/// The size of a value in addition to its text, in bytes.
pub(super) const OVERHEAD: usize = 16;

/// Go's own functions that create texts and whose arguments and results are limited here.
pub(super) const BUILT_IN: [&str; 4] = ["html", "js", "printf", "urlquery"];

/// The functions that return one of their arguments, or a value from it, which has been checked before.
const ACCESSORS: [&str; 8] = ["coalesce", "default", "first", "get", "last", "lookup", "required", "ternary"];

/// Returns a function whose result is limited.
pub(super) fn limited(name: &str, call: ValueFunc) -> ValueFunc {
    if ACCESSORS.contains(&name) {
        return call;
    }
    Arc::new(move |arguments: &[Value]| {
        let result = call(arguments)?;
        measure(&result, 0, &mut 0)?;
        Ok(result)
    })
}

/// Counts an action.
pub(super) fn count_step(steps: &AtomicU64) -> Result<(), TemplateError> {
    if steps.fetch_add(1, Ordering::Relaxed) < MAX_STEPS { Ok(()) } else { Err(TemplateError::Exec(too_many_steps())) }
}

/// Checks the size of a value, in bytes.
pub(super) fn within(size: usize) -> Result<(), TemplateError> {
    let problem = || format!("a value would exceed the limit of {} MiB", MAX_VALUE >> 20);
    if size > MAX_VALUE { Err(TemplateError::Exec(problem())) } else { Ok(()) }
}

/// Checks a value and all values in it. The same list can be in another one many times, so that the number of all values
/// grows exponentially.
fn measure(value: &Value, depth: usize, total: &mut usize) -> Result<(), TemplateError> {
    if depth > MAX_DEPTH {
        return Err(TemplateError::Exec(format!("lists or tables are more than {MAX_DEPTH} levels deep")));
    }
    *total = total.saturating_add(match value {
        Value::String(text) if depth == 0 => text.len(),
        Value::String(text) => text.len().saturating_add(OVERHEAD),
        _ => OVERHEAD,
    });
    within(*total)?;
    match value {
        Value::List(list) => list.iter().try_for_each(|item| measure(item, depth + 1, total)),
        Value::Map(table) => table.iter().try_for_each(|(key, value)| {
            *total = total.saturating_add(key.len());
            measure(value, depth + 1, total)
        }),
        _ => Ok(()),
    }
}

/// Calls one of Go's own functions, which gotmpl only calls from templates.
pub(super) fn call_built_in(name: &str, arguments: &[Value]) -> Result<Value, TemplateError> {
    let mut total = 0;
    arguments.iter().try_for_each(|argument| measure(argument, 1, &mut total))?;
    if let (true, Some(Value::String(format))) = (name == "printf", arguments.first()) {
        // Each verb may refer to the same argument, and has a width.
        let widths = format.split(|letter: char| !letter.is_ascii_digit()).filter(|digits| !digits.is_empty());
        let widths = widths.map(|digits| digits.parse().unwrap_or(usize::MAX)).fold(0, usize::saturating_add);
        let repeated = if format.contains('[') { format.matches('%').count() } else { 1 };
        within(total.saturating_mul(repeated).saturating_add(widths))?;
    }
    let words: String = (0..arguments.len()).map(|index| format!(" (index . {index})")).collect();
    let template = Template::new(name).parse(&format!("{{{{{name}{words}}}}}"))?;
    let mut rendered = Rendered::default();
    template.execute_fmt(&mut rendered, &Value::List(arguments.iter().cloned().collect()))?;
    Ok(Value::String(rendered.0.into()))
}

/// The result of a template, up to the maximum size.
#[derive(Debug, Default)]
pub(super) struct Rendered(String);

impl Rendered {
    pub(super) fn text(self) -> String {
        self.0
    }
}

impl Write for Rendered {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_RESULT {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}
