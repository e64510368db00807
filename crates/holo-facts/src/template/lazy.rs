//! Tables in templates that are computed only when a template uses them.

use holo_definitions::LocatedError;
use minijinja::value::{Enumerator, Object};
use minijinja::{Error, ErrorKind, Value};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A table that is computed on first use.
pub(super) struct Table<F> {
    find: F,
    found: OnceLock<Result<Value, LocatedError>>,
}

impl<F: Fn() -> Result<Value, LocatedError>> Table<F> {
    pub(super) fn new(find: F) -> Table<F> {
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
