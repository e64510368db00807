//! `holo scan`

use super::Desk;
use crate::cli::Scan;
use crate::error::Fatal;
use crate::report;
use crate::survey::{Purpose, survey};
use bstr::ByteSlice;
use holo_protocol::session::Stream;

pub(super) fn run(arguments: &Scan, desk: &mut Desk) -> Result<u8, Fatal> {
    let Desk { settings, interrupt, console } = desk;
    let survey = survey(settings, Purpose::Look, &arguments.selection.selectors, interrupt, console)?;
    let selected = super::select("scan", &survey, &arguments.selection.selectors, console)?;
    super::show_slips(&survey, &selected, console);
    let has_failed = super::show_conflicts(&survey, &selected, console) || survey.is_flawed_for(&arguments.selection);
    let lists_all = arguments.selection.selectors.is_empty();
    for (entity, _) in survey.entities.iter().zip(selected).filter(|(_, selected)| *selected) {
        if lists_all && !entity.is_listed() {
            continue;
        }
        if console.reader_is_gone() {
            break;
        }
        if console.speaks_json() {
            let plugin = survey.plugins.get(entity.plugin).map_or("", |plugin| &plugin.id);
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
