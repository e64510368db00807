//! `holo scan`

use super::Context;
use crate::cli::Scan;
use crate::error::Fatal;
use crate::inventory::{Purpose, discover};
use crate::report;
use bstr::ByteSlice;
use holo_protocol::session::Stream;

pub(super) fn run(arguments: &Scan, desk: &mut Context) -> Result<u8, Fatal> {
    let Context { settings, interrupt, console } = desk;
    let inventory = discover(settings, Purpose::Look, &arguments.selection.selectors, interrupt, console)?;
    let selected = super::select("scan", &inventory, &arguments.selection.selectors, console)?;
    super::show_slips(&inventory, &selected, console);
    let has_failed =
        super::show_conflicts(&inventory, &selected, console) || inventory.is_flawed_for(&arguments.selection);
    let lists_all = arguments.selection.selectors.is_empty();
    for (entity, _) in inventory.entities.iter().zip(selected).filter(|(_, selected)| *selected) {
        if lists_all && !entity.is_listed() {
            continue;
        }
        if console.reader_is_gone() {
            break;
        }
        if console.speaks_json() {
            let plugin = inventory.plugins.get(entity.plugin).map_or("", |plugin| &plugin.id);
            report::entity_line(console, entity, plugin);
        } else if arguments.short {
            console.raw(Stream::Stdout, &[entity.id().as_bytes(), b"\n"].concat());
        } else if arguments.porcelain {
            report::porcelain(console, entity);
        } else {
            report::entity(console, entity);
        }
    }
    Ok(super::exit_code(has_failed, arguments.exit_zero, settings))
}
