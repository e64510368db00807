//! `holo selectors`

use super::Context;
use crate::discovery::discover;
use crate::error::FatalError;
use crate::exit;
use crate::inventory::Purpose;
use crate::report::Event;
use crate::select;
use bstr::ByteSlice;

pub(super) fn run(context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let inventory = discover(settings, Purpose::Inspect, &[], interrupt, *reporter)?;
    for selector in select::all(&inventory.entities) {
        reporter.event(Event::Selector(selector.as_bstr()));
    }
    Ok(exit::DONE)
}
