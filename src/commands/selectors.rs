//! `holo selectors`

use super::Context;
use crate::cli::Selectors;
use crate::discovery::discover_what_answers;
use crate::discovery::inventory::Purpose;
use crate::discovery::limited::Interest;
use crate::error::{FatalError, exit};
use crate::plan::select;
use crate::report::Event;
use bstr::{BString, ByteSlice};
use std::os::unix::ffi::OsStringExt;

pub(super) fn run(arguments: &Selectors, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let prefix = BString::from(arguments.prefix.clone().unwrap_or_default().into_vec());
    let interest = Interest::Prefix(prefix.as_bstr());
    let inventory = discover_what_answers(settings, Purpose::Inspect, interest, interrupt, *reporter)?;
    for selector in select::all(&inventory.entities).into_iter().filter(|selector| selector.starts_with(&prefix)) {
        reporter.event(Event::Selector(selector.as_bstr()));
    }
    Ok(if inventory.failed.is_empty() { exit::DONE } else { exit::FAILED })
}
