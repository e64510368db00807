//! Facts and data as templates see them: asked for only if a template does so.

use super::Knowledge;
use crate::template::{Templates, failed};
use holo_definitions::LocatedError;
use minijinja::value::Serde;
use minijinja::{Error, ErrorKind, Value};

/// Returns templates in whose scope are `facts` alone.
pub(super) fn of_facts(knowledge: &Knowledge) -> Templates {
    let knowledge = knowledge.clone();
    Templates::new().with_table("facts", move || Ok(Value::from(Serde(knowledge.facts().value()))))
}

/// Returns templates in whose scope are `facts`, `data` and `lookup`.
pub(super) fn of_all(knowledge: &Knowledge) -> Templates {
    let data = {
        let knowledge = knowledge.clone();
        move || -> Result<Value, LocatedError> { Ok(Value::from(Serde(knowledge.data()?.value()))) }
    };
    let knowledge_of_lookup = knowledge.clone();
    let lookup = move |key: &str| look_up(&knowledge_of_lookup, key);
    of_facts(knowledge).with_table("data", data).with_lookup(lookup)
}

fn look_up(knowledge: &Knowledge, key: &str) -> Result<Option<Value>, Error> {
    let data = knowledge.data().map_err(|error| failed(&error))?;
    let found = data.lookup(key).map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
    Ok(found.map(|value| Value::from(Serde(value))))
}
