//! `holo facts`

use super::{Context, data};
use crate::cli::Facts;
use crate::error::{FatalError, exit};
use crate::report::{Event, Severity};
use holo_facts::key;

pub(super) fn run(arguments: &Facts, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let knowledge = super::knowledge(settings, *reporter)?;
    let facts = knowledge.facts();
    data::warn(&knowledge, *reporter);
    interrupt.check()?;
    let query = arguments.query.as_deref();
    let found = query.map_or(Ok(Some(facts.value())), |query| key::find(facts.value(), query));
    match found {
        Ok(Some(found)) => {
            let text = if arguments.json { data::as_json(found) } else { data::plain(query, found) };
            reporter.event(Event::Text(text.as_bytes()));
            Ok(exit::DONE)
        }
        Ok(None) => {
            let text = format!("there is no fact {}", key::shown(query.unwrap_or_default()));
            reporter.event(Event::Aside(Severity::Error, &text));
            Ok(exit::FAILED)
        }
        Err(error) => {
            reporter.event(Event::Aside(Severity::Error, &error.to_string()));
            Ok(exit::FAILED)
        }
    }
}
