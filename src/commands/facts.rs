//! `holo facts`

use super::{Context, values};
use crate::cli::Facts;
use crate::error::Fatal;
use crate::exit;
use holo_facts::key;
use holo_protocol::session::Stream;

pub(super) fn run(arguments: &Facts, desk: &mut Context) -> Result<u8, Fatal> {
    let Context { settings, interrupt, console } = desk;
    let knowledge = settings.knowledge();
    let facts = knowledge.facts();
    values::warn(&knowledge, console);
    interrupt.check()?;
    let query = arguments.query.as_deref();
    let found = query.map_or(Ok(Some(facts.value())), |query| key::find(facts.value(), query));
    match found {
        Ok(Some(found)) => {
            let text = if arguments.json { values::json(found) } else { values::plain(query, found) };
            console.raw(Stream::Stdout, text.as_bytes());
            Ok(exit::DONE)
        }
        Ok(None) => {
            console.raw_error(format!("!! there is no fact {}", key::shown(query.unwrap_or_default())));
            Ok(exit::FAILED)
        }
        Err(text) => {
            console.raw_error(format!("!! {text}"));
            Ok(exit::FAILED)
        }
    }
}
