//! `facts` and `data` in templates: found out only when a template looks into them.

use crate::knowledge::Knowledge;
use holo_definitions::LocatedError;
use minijinja::value::{Enumerator, Object, Serde};
use minijinja::{Error, ErrorKind, Value};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The source of a table.
type Find = fn(&Knowledge) -> Result<Value, LocatedError>;

/// A table that is asked for when it is first looked into.
pub(super) struct Table {
    knowledge: Knowledge,
    find: Find,
    found: OnceLock<Result<Value, LocatedError>>,
}

impl Table {
    pub(super) fn of_facts(knowledge: &Knowledge) -> Table {
        Table::new(knowledge, |knowledge| Ok(Value::from(Serde(knowledge.facts().value()))))
    }

    pub(super) fn of_data(knowledge: &Knowledge) -> Table {
        Table::new(knowledge, |knowledge| Ok(Value::from(Serde(knowledge.data()?.value()))))
    }

    fn new(knowledge: &Knowledge, find: Find) -> Table {
        Table { knowledge: knowledge.clone(), find, found: OnceLock::new() }
    }

    fn found(&self) -> Result<&Value, &LocatedError> {
        self.found.get_or_init(|| (self.find)(&self.knowledge)).as_ref()
    }
}

/// A fault as an error of the template that came upon it.
pub(super) fn failed(fault: &LocatedError) -> Error {
    Error::new(ErrorKind::InvalidOperation, fault.to_string())
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Table")
    }
}

impl Object for Table {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match self.found() {
            Ok(table) => table.get_item(key).ok().filter(|value| !value.is_undefined()),
            // An error at the place where the value is used.
            Err(fault) => Some(Value::from(failed(fault))),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match self.found() {
            Ok(table) => Enumerator::Values(table.try_iter().map(Iterator::collect).unwrap_or_default()),
            Err(fault) => Enumerator::Values(vec![Value::from(failed(fault))]),
        }
    }
}
