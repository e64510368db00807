//! Facts and data in templates, loaded only if a template uses them.

use super::Knowledge;
use crate::data::Data;
use crate::key;
use crate::template::{Templates, failed};
use holo_definitions::LocatedError;
use minijinja::value::{Enumerator, Object, ObjectRepr, Serde};
use minijinja::{Error, ErrorKind, Value};
use serde_json::Value as Json;
use std::fmt;
use std::sync::Arc;

/// Returns templates with only `facts` in scope.
pub(super) fn of_facts(knowledge: &Knowledge) -> Templates {
    let knowledge = knowledge.clone();
    Templates::new().with_table("facts", move || Ok(Value::from(Serde(knowledge.facts().value()))))
}

/// Returns templates with `facts`, `data` and `lookup` in scope.
pub(super) fn of_all(knowledge: &Knowledge) -> Templates {
    let table = {
        let knowledge = knowledge.clone();
        move || -> Result<Value, LocatedError> {
            let data = knowledge.data()?;
            opened(&knowledge, data, "", data.sealed())
        }
    };
    let knowledge_of_lookup = knowledge.clone();
    let lookup = move |key: &str| look_up(&knowledge_of_lookup, key);
    of_facts(knowledge).with_table("data", table).with_lookup(lookup)
}

fn look_up(knowledge: &Knowledge, key: &str) -> Result<Option<Value>, Error> {
    let data = knowledge.data().map_err(|error| failed(&error))?;
    let found = key::find(data.sealed(), key);
    let found = found.map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
    found.map(|value| opened(knowledge, data, key, value)).transpose().map_err(|error| failed(&error))
}

/// Decrypts a data value. If a part of a table or list cannot be decrypted, the other parts remain usable.
fn opened(knowledge: &Knowledge, data: &Data, key: &str, value: &Json) -> Result<Value, LocatedError> {
    match data.open(key, value) {
        Ok(value) => Ok(Value::from(Serde(&value))),
        Err(error) if value.is_string() => Err(error),
        Err(error) => Ok(Value::from_object(Unopened {
            knowledge: knowledge.clone(),
            key: key.to_owned(),
            value: value.clone(),
            error,
        })),
    }
}

/// A table or list that contains secrets that cannot be decrypted: its other items can be used individually.
#[derive(Debug)]
struct Unopened {
    knowledge: Knowledge,
    key: String,
    value: Json,
    error: LocatedError,
}

impl Object for Unopened {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        if self.value.is_array() { ObjectRepr::Seq } else { ObjectRepr::Map }
    }

    fn get_value(self: &Arc<Self>, part: &Value) -> Option<Value> {
        let (part, value) = match &self.value {
            Json::Array(list) => (part.to_string(), list.get(part.as_usize()?)?),
            value => (part.as_str()?.to_owned(), value.get(part.as_str()?)?),
        };
        let data = self.knowledge.data().ok()?;
        let opened = opened(&self.knowledge, data, &key::join(&self.key, &part), value);
        Some(opened.unwrap_or_else(|error| failed(&error).into()))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.knowledge.note_unopened(&self.error);
        Enumerator::NonEnumerable
    }

    fn render(self: &Arc<Self>, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.knowledge.note_unopened(&self.error);
        Err(fmt::Error)
    }
}
