//! `holo diff`

mod pending;

use super::Context;
use crate::cli::Diff;
use crate::discovery::discover;
use crate::error::FatalError;
use crate::inventory::Purpose;
use crate::plugin::OperationError;
use crate::report::{Event, Remarks};
use crate::view::View;

pub(super) fn run(arguments: &Diff, context: &mut Context<'_>) -> Result<u8, FatalError> {
    if arguments.pending { pending::run(arguments, context) } else { changed(arguments, context) }
}

/// Shows manual changes.
fn changed(arguments: &Diff, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let mut inventory = discover(settings, Purpose::Inspect, &arguments.selection.selectors, interrupt, *reporter)?;
    let selected = super::select("diff", &inventory, &arguments.selection.selectors, *reporter)?;
    let view = View { root: &settings.root, resources: &inventory.resources };
    let mut failed =
        super::show_conflicts(&inventory, &selected, *reporter) || inventory.is_flawed_for(&arguments.selection);
    for (index, entity) in inventory.entities.entries().filter(|(index, _)| selected.contains(*index)) {
        if !reporter.is_read() {
            break;
        }
        // The conflict has been reported already.
        if inventory.plan.conflicts_of(index).next().is_some() {
            continue;
        }
        reporter.event(Event::About(Some(entity)));
        let answer = inventory.plugins[entity.plugin]
            .diff(entity.id(), interrupt, &mut |stream, bytes| reporter.output(stream, bytes));
        let text = match answer {
            Ok(None) => Ok(Vec::new()),
            Ok(Some(pair)) => view.difference(&pair).map_err(|error| error.to_string()),
            Err(OperationError::Failed(error)) => Err(error.to_string()),
            Err(OperationError::Fatal(fatal)) => return Err(fatal),
        };
        match text {
            Ok(text) if text.is_empty() => {}
            Ok(text) => reporter.event(Event::Difference(&text)),
            Err(reason) => {
                failed = true;
                reporter.error(format!("cannot diff {}: {reason}", entity.id()));
            }
        }
        reporter.end_paragraph();
        reporter.event(Event::About(None));
    }
    Ok(super::exit_code(failed, arguments.exit_zero, settings))
}
