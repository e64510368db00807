//! `holo scan`

use super::Context;
use crate::cli::Scan;
use crate::discovery::discover;
use crate::discovery::inventory::Purpose;
use crate::error::FatalError;
use crate::report::{Event, Form};

pub(super) fn run(arguments: &Scan, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let selectors = &arguments.selection.selectors;
    let inputs = super::inputs::of_all(settings, selectors);
    let inventory = discover(settings, Purpose::Inspect, selectors, inputs.as_ref(), interrupt, *reporter)?;
    let selected = super::select("scan", &inventory, &arguments.selection.selectors, *reporter)?;
    super::show_slips(&inventory, &selected, *reporter);
    let has_failed =
        super::show_conflicts(&inventory, &selected, *reporter) || inventory.is_flawed_for(&arguments.selection);
    let form = match (arguments.short, arguments.porcelain) {
        (_, true) => Form::Porcelain,
        (true, false) => Form::Id,
        (false, false) => Form::Paragraph,
    };
    let lists_all = arguments.selection.selectors.is_empty();
    for (_, entity) in inventory.selected_of(&selected) {
        if lists_all && !entity.is_listed() {
            continue;
        }
        if !reporter.is_read() {
            break;
        }
        let plugin = &inventory.plugins[entity.plugin].id;
        reporter.event(Event::Listed { entity, plugin, form });
    }
    Ok(super::exit_code(has_failed, arguments.exit_zero, settings))
}
