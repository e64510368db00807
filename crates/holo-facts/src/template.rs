//! Templates and expressions over facts and data. Tables are computed only when a template uses them.

mod filters;
mod limits;
mod toml_strings;

use crate::key;
use holo_definitions::LocatedError;
use holo_process::words::reason;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Enumerator, Object, Rest, Serde, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, Value};
use std::sync::{Arc, OnceLock};
use std::{fmt, io};

pub(crate) use toml_strings::escape_in_strings;

/// Renders templates. Undefined names are errors, values are not rendered recursively, and there is no escaping.
#[derive(Debug)]
pub struct Templates {
    environment: Environment<'static>,
}

/// A compiled expression.
#[derive(Debug)]
pub struct Expression<'a> {
    expression: minijinja::Expression<'a, 'static>,
    text: String,
}

/// The reason why a template function failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct FunctionError(pub String);

impl From<&str> for FunctionError {
    fn from(reason: &str) -> FunctionError {
        FunctionError(reason.to_owned())
    }
}

/// The maximum number of instructions of the template engine for one template.
const MAX_STEPS: u64 = 20_000_000;

impl Templates {
    /// Creates templates with an empty scope.
    pub(crate) fn new() -> Templates {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // Makes errors name the undefined variable.
        environment.set_debug(true);
        environment.set_fuel(Some(MAX_STEPS));
        environment.set_syntax(syntax(None).unwrap_or_default());
        limits::add(&mut environment);
        filters::add(&mut environment);
        Templates { environment }
    }

    /// Returns templates in which undefined values are empty.
    pub(crate) fn leniently(mut self) -> Templates {
        self.environment.set_undefined_behavior(UndefinedBehavior::Chainable);
        self
    }

    /// Adds a table to the scope, which is loaded only if a template uses it.
    pub(crate) fn with_table(
        mut self,
        name: &'static str,
        find: impl Fn() -> Result<Value, LocatedError> + Send + Sync + 'static,
    ) -> Templates {
        self.environment.add_global(name, Value::from_object(Table::new(find)));
        self
    }

    /// Adds the function `lookup` to the scope, which takes a data key and a default value.
    pub(crate) fn with_lookup(
        mut self,
        find: impl Fn(&str) -> Result<Option<Value>, Error> + Send + Sync + 'static,
    ) -> Templates {
        self.environment.add_function("lookup", move |key: &str, default: Option<Value>| {
            find(key)?.or(default).ok_or_else(|| {
                Error::new(ErrorKind::UndefinedError, format!("there is no data at {}", key::shown(key)))
            })
        });
        self
    }

    /// Adds the function `registrations` to the scope, which takes up to four names.
    pub(crate) fn with_registrations(
        mut self,
        find: impl Fn(&[&str]) -> Result<Value, Error> + Send + Sync + 'static,
    ) -> Templates {
        self.environment.add_function("registrations", move |wanted: Rest<Value>| {
            let names: Option<Vec<&str>> = wanted.iter().map(Value::as_str).collect();
            let names = names.filter(|names| names.len() <= 4).ok_or_else(|| {
                let problem = "registrations takes cluster, protocol, service and address, each a name or \"*\"";
                Error::new(ErrorKind::InvalidOperation, problem)
            })?;
            find(&names)
        });
        self
    }

    /// Adds a value to the scope, which is computed only if a template uses it.
    #[must_use]
    pub fn with_value(
        self,
        name: &'static str,
        find: impl Fn() -> Result<serde_json::Value, LocatedError> + Send + Sync + 'static,
    ) -> Templates {
        self.with_table(name, move || Ok(Value::from(Serde(find()?))))
    }

    /// Adds a function to the scope. It receives the name of the calling template and its arguments.
    #[must_use]
    pub fn with_function(
        mut self,
        name: &'static str,
        call: impl Fn(&str, &[serde_json::Value]) -> Result<serde_json::Value, FunctionError> + Send + Sync + 'static,
    ) -> Templates {
        self.environment.add_function(name, move |state: &State<'_, '_>, arguments: Rest<Value>| {
            let invalid = |problem: String| Error::new(ErrorKind::InvalidOperation, problem);
            let plain = |argument: &Value| match argument.kind() {
                ValueKind::Undefined => Err(invalid(format!("{name} received an undefined value"))),
                _ => serde_json::to_value(argument).map_err(|error| invalid(error.to_string())),
            };
            let arguments = arguments.iter().map(plain).collect::<Result<Vec<_>, _>>()?;
            let value = call(state.name(), &arguments).map_err(|error| invalid(format!("{name}: {error}")))?;
            Ok(Value::from(Serde(value)))
        });
        self
    }

    /// Sets other delimiters, such as `[[` and `]]`. Those of blocks and comments consist of the outermost letters with
    /// `%` and `#`: `[% if … %]` and `[# … #]`.
    ///
    /// # Errors
    /// If they are empty or equal.
    pub fn with_delimiters(mut self, open: &str, close: &str) -> Result<Templates, LocatedError> {
        let syntax = syntax(Some((open, close)))
            .map_err(|error| LocatedError::new(format!("delimiters {open:?} and {close:?}"), describe(&error)))?;
        self.environment.set_syntax(syntax);
        Ok(self)
    }

    /// Removes the newline after a block (`trim`), and the white space before a block at the start of a line
    /// (`lstrip`).
    ///
    /// # Errors
    /// If the delimiters are invalid, as in [`with_delimiters`](Self::with_delimiters).
    pub fn with_trimmed_blocks(mut self, trim: bool, lstrip: bool) -> Result<Templates, LocatedError> {
        let syntax = self.environment.syntax().to_builder().trim_blocks(trim).lstrip_blocks(lstrip).build();
        self.environment.set_syntax(syntax.map_err(|error| LocatedError::new("trim_blocks", describe(&error)))?);
        Ok(self)
    }

    /// Sets the loader for `include`, `import` and `extends`, after the delimiters. The caller must ensure that names do not refer to files
    /// outside of the permitted directory.
    #[must_use]
    pub fn with_partials(
        mut self,
        find: impl Fn(&str) -> io::Result<Option<String>> + Send + Sync + 'static,
    ) -> Templates {
        let syntax = self.environment.syntax().clone();
        self.environment.set_loader(move |name| {
            let source = find(name)
                .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("{name}: {}", reason(&error))))?;
            source.map(|source| limits::with_checks(name, &source, Some(&syntax))).transpose()
        });
        self
    }

    /// Renders a template. The name is used in errors; names in `scope` hide facts and data of the same name.
    ///
    /// # Errors
    /// The error, with the name and line of the template.
    pub fn render(
        &self,
        name: &str,
        source: &str,
        scope: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<String, LocatedError> {
        let render = || {
            let source = limits::with_checks(name, source, Some(self.environment.syntax()))?;
            let mut rendered = Rendered(Vec::new());
            let template = self.environment.template_from_named_str(name, &source)?;
            template.render_captured_to(Value::from(Serde(scope)), &mut rendered)?;
            String::from_utf8(rendered.0).map_err(|error| Error::new(ErrorKind::WriteFailure, error.to_string()))
        };
        render().map_err(|error: Error| fault(name, &error))
    }

    /// Compiles an expression, such as `facts.os.id == "debian" and lookup("web", false)`.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn expression(&self, text: &str) -> Result<Expression<'_>, LocatedError> {
        let checked = limits::with_checks(text, text, None);
        match checked.and_then(|checked| self.environment.compile_expression_owned(checked)) {
            Ok(expression) => Ok(Expression { expression, text: text.to_owned() }),
            Err(error) => Err(LocatedError::new(text, describe(&error))),
        }
    }
}

/// Returns the truth of an expression, as in `{% if %}`, over nothing but the names of a table.
///
/// # Errors
/// If it is invalid, or refers to something else.
pub fn holds(expression: &str, scope: &serde_json::Value) -> Result<bool, LocatedError> {
    Templates::new().expression(expression)?.holds_for(scope)
}

/// The result of a template, up to a maximum size.
struct Rendered(Vec<u8>);

impl io::Write for Rendered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > limits::MAX_RESULT {
            return Err(io::Error::other(format!("the result exceeds the limit of {} MiB", limits::MAX_RESULT >> 20)));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Expression<'_> {
    /// Returns the truth of the expression as in `{% if %}`: 0, `none` and empty values are false. An undefined value
    /// is an error.
    ///
    /// # Errors
    /// If it cannot be evaluated; the place of the error is the expression itself.
    pub fn holds(&self) -> Result<bool, LocatedError> {
        self.holds_in(())
    }

    /// Like `holds`, with additional names in scope.
    pub(crate) fn holds_for(&self, scope: &serde_json::Value) -> Result<bool, LocatedError> {
        self.holds_in(Serde(scope))
    }

    /// Returns the source of the expression.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn holds_in(&self, scope: impl Into<Value>) -> Result<bool, LocatedError> {
        let value =
            self.expression.eval(scope.into()).map_err(|error| LocatedError::new(&self.text, describe(&error)))?;
        match value.kind() {
            ValueKind::Undefined => Err(LocatedError::new(&self.text, "this is undefined")),
            ValueKind::Invalid => Err(LocatedError::new(&self.text, value)),
            _ => Ok(value.is_true()),
        }
    }
}

/// Returns the syntax with default or other delimiters. A final newline is kept.
fn syntax(delimiters: Option<(&str, &str)>) -> Result<SyntaxConfig, Error> {
    let mut builder = SyntaxConfig::builder();
    builder.keep_trailing_newline(true);
    if let Some((open, close)) = delimiters {
        let (first, last) = (open.chars().next(), close.chars().next_back());
        let (Some(first), Some(last)) = (first, last) else {
            return Err(Error::new(ErrorKind::InvalidDelimiter, "a delimiter is empty"));
        };
        builder.variable_delimiters(open.to_owned(), close.to_owned());
        builder.block_delimiters(format!("{first}%"), format!("%{last}"));
        builder.comment_delimiters(format!("{first}#"), format!("#{last}"));
    }
    builder.build()
}

/// Returns the innermost error, which is the most specific: the error of an included template is nested in that of the
/// including one.
fn fault(name: &str, error: &Error) -> LocatedError {
    let mut innermost = error;
    while let Some(within) = std::error::Error::source(innermost).and_then(|source| source.downcast_ref::<Error>()) {
        innermost = within;
    }
    LocatedError::new(innermost.name().unwrap_or(name), describe(innermost)).at(innermost.line())
}

fn describe(error: &Error) -> String {
    if error.kind() == ErrorKind::WriteFailure
        && let Some(source) = std::error::Error::source(error)
    {
        return source.to_string();
    }
    match (error.kind(), error.detail()) {
        // These details are complete messages.
        (ErrorKind::InvalidOperation | ErrorKind::TemplateNotFound | ErrorKind::UndefinedError, Some(detail)) => {
            detail.to_owned()
        }
        (ErrorKind::OutOfFuel, _) => format!("it needs more than {MAX_STEPS} steps; is there an endless loop?"),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    }
}

/// A table that is computed on first use.
struct Table<F> {
    find: F,
    found: OnceLock<Result<Value, LocatedError>>,
}

impl<F: Fn() -> Result<Value, LocatedError>> Table<F> {
    fn new(find: F) -> Table<F> {
        Table { find, found: OnceLock::new() }
    }

    fn found(&self) -> Result<&Value, &LocatedError> {
        self.found.get_or_init(&self.find).as_ref()
    }
}

/// Converts an error into one of the template engine.
pub(crate) fn failed(error: &LocatedError) -> Error {
    Error::new(ErrorKind::InvalidOperation, error.to_string())
}

impl<F> fmt::Debug for Table<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Table")
    }
}

impl<F: Fn() -> Result<Value, LocatedError> + Send + Sync + 'static> Object for Table<F> {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match self.found() {
            Ok(table) => table.get_item(key).ok().filter(|value| !value.is_undefined()),
            // The engine reports the error where the value is used.
            Err(error) => Some(Value::from(failed(error))),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match self.found() {
            Ok(table) => match table.try_iter() {
                Ok(keys) => Enumerator::Values(keys.collect()),
                Err(_) => Enumerator::NonEnumerable,
            },
            Err(error) => Enumerator::Values(vec![Value::from(failed(error))]),
        }
    }
}

#[cfg(test)]
mod tests;
