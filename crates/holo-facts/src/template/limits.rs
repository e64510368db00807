//! The limits of values in templates. The engine counts instructions, but a single operator or filter can create a value
//! of any size: doubling a text 40 times takes 40 instructions and a terabyte.
//!
//! Filters and functions check their arguments before a call, and their results after it. The results of operators are
//! checked by filters that [`syntax`] adds to the template. A value is thus at most a few times larger than the limit
//! when it is detected.

mod syntax;

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters, functions};

pub(super) use syntax::with_checks;

/// The maximum size of the result of a template, in bytes.
pub(super) const MAX_RESULT: usize = 16 << 20;
/// The maximum size of a text, and of all texts in a list or table together, in bytes.
const MAX_VALUE: usize = 8 << 20;
/// The maximum number of items of a list.
const MAX_ITEMS: usize = 1 << 20;
/// The maximum depth of lists and tables within each other.
const MAX_DEPTH: usize = 64;
/// The maximum of all that is printed together, which may be printed several times: into variables, and by macros.
const MAX_PRINTED: usize = 4 * MAX_VALUE;
/// What a value costs in addition to its text, in bytes.
const OVERHEAD: usize = 8;

/// The filter that checks the size of a text or the length of a list.
const SHALLOW: &str = "holo_checked_size";
/// The filter that also checks the values in a list or table.
const DEEP: &str = "holo_checked";

/// The filter that counts a number of bytes as printed, and the one that does so for each item of a list.
const PRINTED: &str = "holo_printed";
const EACH: &str = "holo_printed_for_each";

/// A filter or function, and the largest result of a call if that may exceed the arguments.
type Limited = (&'static str, Value, fn(&[Value]) -> Option<usize>);

pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_filter(SHALLOW, |value: Value| shallow(&value).map(|()| value));
    environment.add_filter(DEEP, |value: Value| deep(&value).map(|()| value));
    environment.add_filter(PRINTED, |state: &mut State<'_, '_>, value: Value, size: usize| {
        count_printed(state, size).map(|()| value)
    });
    environment.add_filter(EACH, |state: &mut State<'_, '_>, value: Value, size: usize| {
        count_printed(state, size.saturating_mul(value.len().unwrap_or(1))).map(|()| value)
    });
    for (name, call, estimate) in limited_filters() {
        environment.add_filter(name, move |state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>| {
            checked(&call, estimate, state, &arguments.into_values())
        });
    }
    for (name, call) in
        [("dict", Value::from_function(functions::dict)), ("namespace", Value::from_function(functions::namespace))]
    {
        environment.add_function(name, move |state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>| {
            checked(&call, |_| None, state, &arguments.into_values())
        });
    }
}

/// Returns the built-in filters whose results are larger than a single value of their arguments, or that walk through all
/// values in them.
fn limited_filters() -> Vec<Limited> {
    vec![
        ("replace", Value::from_function(filters::replace), |arguments| {
            let [text, from, to, ..] = arguments else { return None };
            let count = text.as_str()?.matches(from.as_str()?).count();
            Some(count.saturating_mul(to.as_str()?.len()))
        }),
        ("join", Value::from_function(filters::join), |arguments| {
            let [list, separator, ..] = arguments else { return None };
            Some(list.len()?.saturating_mul(separator.as_str()?.len()))
        }),
        ("indent", Value::from_function(filters::indent), |arguments| {
            let lines = arguments.first()?.as_str()?.lines().count();
            Some(numbers(arguments).max().unwrap_or(4).saturating_mul(lines))
        }),
        ("format", Value::from_function(filters::format), |arguments| {
            let format = arguments.first()?.as_str()?;
            let widths = format.split(|letter: char| !letter.is_ascii_digit()).filter(|digits| !digits.is_empty());
            let widths = widths.map(|digits| digits.parse().unwrap_or(usize::MAX)).fold(0, usize::saturating_add);
            let given = if format.contains('*') { numbers(arguments).fold(0, usize::saturating_add) } else { 0 };
            Some(widths.saturating_add(given))
        }),
        ("batch", Value::from_function(filters::batch), |arguments| numbers(arguments).max()),
        ("slice", Value::from_function(filters::slice), |arguments| numbers(arguments).max()),
        ("split", Value::from_function(filters::split), |arguments| {
            let text = arguments.first()?.as_str()?;
            let separator = arguments.get(1).and_then(Value::as_str).filter(|separator| !separator.is_empty());
            Some(separator.map_or(text.len() / 2, |separator| text.matches(separator).count()).saturating_mul(ITEM))
        }),
        ("lines", Value::from_function(filters::lines), |arguments| {
            Some(arguments.first()?.as_str()?.lines().count().saturating_mul(ITEM))
        }),
        ("list", Value::from_function(filters::list), letters),
        ("sort", Value::from_function(filters::sort), letters),
        ("unique", Value::from_function(filters::unique), letters),
        ("map", Value::from_function(filters::map), letters),
        ("select", Value::from_function(filters::select), letters),
        ("reject", Value::from_function(filters::reject), letters),
        ("chain", Value::from_function(filters::chain), letters),
        ("zip", Value::from_function(filters::zip), letters),
        ("groupby", Value::from_function(filters::groupby), letters),
        ("dictsort", Value::from_function(filters::dictsort), letters),
        ("items", Value::from_function(filters::items), |_| None),
        ("sum", Value::from_function(filters::sum), |_| None),
        ("string", Value::from_function(filters::string), |_| None),
        ("pprint", Value::from_function(filters::pprint), |_| None),
        ("title", Value::from_function(filters::title), |_| None),
        ("upper", Value::from_function(filters::upper), |_| None),
        ("lower", Value::from_function(filters::lower), |_| None),
        ("capitalize", Value::from_function(filters::capitalize), |_| None),
    ]
}

/// The memory that an item of a list takes.
const ITEM: usize = 16;

/// Returns the size of a list of the letters of a text.
fn letters(arguments: &[Value]) -> Option<usize> {
    Some(arguments.first()?.as_str()?.len().saturating_mul(ITEM))
}

/// Returns the whole numbers among arguments, with and without names.
fn numbers(arguments: &[Value]) -> impl Iterator<Item = usize> {
    let named = arguments.iter().filter(|value| value.is_kwargs()).flat_map(|named| {
        let keys = named.try_iter().into_iter().flatten();
        keys.filter_map(|key| named.get_item(&key).ok()?.as_usize()).collect::<Vec<_>>()
    });
    arguments.iter().filter_map(Value::as_usize).chain(named)
}

/// Calls a filter or function with limited arguments, and checks its result.
fn checked(
    call: &Value,
    estimate: fn(&[Value]) -> Option<usize>,
    state: &mut State<'_, '_>,
    arguments: &[Value],
) -> Result<Value, Error> {
    arguments.iter().try_for_each(deep)?;
    within(estimate(arguments).unwrap_or_default())?;
    let result = call.call(state, arguments)?;
    shallow(&result)?;
    Ok(result)
}

/// Checks the length of a text that is about to be created.
pub(super) fn within(size: usize) -> Result<(), Error> {
    if size > MAX_VALUE {
        Err(too_large(format!("a value would exceed the limit of {} MiB", MAX_VALUE >> 20)))
    } else {
        Ok(())
    }
}

fn too_large(problem: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem)
}

fn shallow(value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::String | ValueKind::Bytes => {
            within(value.len().unwrap_or_default().max(value.as_str().map_or(0, str::len)))
        }
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map
            if value.len().is_some_and(|length| length > MAX_ITEMS) =>
        {
            Err(too_large(format!("a list would have more than {MAX_ITEMS} items")))
        }
        _ => Ok(()),
    }
}

/// Checks a value and all values in it. The same list can be in another one many times, so that the number of all values
/// grows exponentially.
pub(super) fn deep(value: &Value) -> Result<(), Error> {
    measure(value, 0, &mut 0)
}

fn measure(value: &Value, depth: usize, total: &mut usize) -> Result<(), Error> {
    shallow(value)?;
    *total = total.saturating_add(OVERHEAD + value.as_str().map_or(0, str::len));
    within(*total)?;
    if depth == MAX_DEPTH {
        return Err(too_large(format!("lists or tables are more than {MAX_DEPTH} levels deep")));
    }
    match value.kind() {
        ValueKind::Seq => value.try_iter()?.try_for_each(|item| measure(&item, depth + 1, total)),
        // An iterator without a length may be usable only once.
        ValueKind::Iterable if value.len().is_some() => {
            value.try_iter()?.try_for_each(|item| measure(&item, depth + 1, total))
        }
        ValueKind::Map => value.try_iter()?.try_for_each(|key| {
            measure(&key, depth + 1, total)?;
            measure(&value.get_item(&key)?, depth + 1, total)
        }),
        _ => Ok(()),
    }
}

/// Counts text that a template prints, including texts that become values: of macros and blocks.
pub(super) fn count_printed(state: &mut State<'_, '_>, size: usize) -> Result<(), Error> {
    const PRINTED: &str = "printed";
    let before = state.get_temp(PRINTED).and_then(|value| value.as_usize()).unwrap_or_default();
    let printed = before.saturating_add(size);
    if printed > MAX_PRINTED {
        return Err(too_large(format!("the template prints more than {} MiB", MAX_PRINTED >> 20)));
    }
    state.set_temp(PRINTED, Value::from(printed));
    Ok(())
}
