//! `holo selectors`

use super::Desk;
use crate::error::Fatal;
use crate::exit;
use crate::report;
use crate::select;
use crate::survey::{Purpose, survey};
use bstr::ByteSlice;
use holo_protocol::session::Stream;

pub(super) fn run(desk: &mut Desk) -> Result<u8, Fatal> {
    let Desk { settings, interrupt, console } = desk;
    let survey = survey(settings, Purpose::Look, &[], interrupt, console)?;
    for selector in select::all(&survey.entities) {
        if console.speaks_json() {
            report::selector_line(console, selector.as_ref());
            continue;
        }
        console.raw(Stream::Stdout, &[selector.as_bytes(), b"\n"].concat());
    }
    Ok(exit::DONE)
}
