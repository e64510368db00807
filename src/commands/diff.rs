//! `holo diff`

use super::Context;
use crate::cli::Diff;
use crate::error::Fatal;
use crate::inventory::{Purpose, discover};
use crate::plugin::OperationError;
use crate::view::View;

pub(super) fn run(arguments: &Diff, desk: &mut Context) -> Result<u8, Fatal> {
    let Context { settings, interrupt, console } = desk;
    let mut inventory = discover(settings, Purpose::Look, &arguments.selection.selectors, interrupt, console)?;
    let selected = super::select("diff", &inventory, &arguments.selection.selectors, console)?;
    let view = View { root: &settings.root, resources: &inventory.resources };
    let mut failed =
        super::show_conflicts(&inventory, &selected, console) || inventory.is_flawed_for(&arguments.selection);
    for (index, entity) in inventory.entities.iter().enumerate().filter(|(index, _)| selected[*index]) {
        if console.reader_is_gone() {
            break;
        }
        // It has been said of it that nothing is done with it.
        if inventory.plan.conflicts_of(index).next().is_some() {
            continue;
        }
        let Some(plugin) = inventory.plugins.get_mut(entity.plugin) else { continue };
        console.set_entity(Some(entity.id().into()));
        console.flush();
        let answer = plugin.diff(entity.id(), interrupt, &mut |stream, bytes| {
            console.write(stream, bytes);
            console.flush();
        });
        let text = match answer {
            Ok(None) => Ok(Vec::new()),
            Ok(Some(pair)) => view.difference(&pair).map_err(|error| error.to_string()),
            Err(OperationError::Failed(reason)) => Err(reason),
            Err(OperationError::Fatal(fatal)) => return Err(fatal),
        };
        match text {
            Ok(text) if text.is_empty() => {}
            Ok(text) => {
                console.end_paragraph();
                console.raw_diff(&text);
            }
            Err(reason) => {
                failed = true;
                console.error(format!("cannot diff {}: {reason}", entity.id()));
            }
        }
        console.end_paragraph();
        console.set_entity(None);
    }
    Ok(super::exit_code(failed, arguments.exit_zero, settings))
}
