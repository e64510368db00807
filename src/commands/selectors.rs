//! `holo selectors`

use super::Context;
use crate::error::Fatal;
use crate::exit;
use crate::inventory::{Purpose, discover};
use crate::report;
use crate::select;
use bstr::ByteSlice;
use holo_protocol::session::Stream;

pub(super) fn run(desk: &mut Context) -> Result<u8, Fatal> {
    let Context { settings, interrupt, console } = desk;
    let inventory = discover(settings, Purpose::Look, &[], interrupt, console)?;
    for selector in select::all(&inventory.entities) {
        if console.speaks_json() {
            report::selector_line(console, selector.as_ref());
            continue;
        }
        console.raw(Stream::Stdout, &[selector.as_bytes(), b"\n"].concat());
    }
    Ok(exit::DONE)
}
