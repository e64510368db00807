//! `holo diff`, and `holo diff --pending`, which shows only the differences that an apply would make.

use super::Context;
use super::check::{self, Preview};
use crate::cli::Diff;
use crate::diff::View;
use crate::discovery::discover;
use crate::discovery::inventory::Purpose;
use crate::error::FatalError;
use crate::plugin::OperationError;
use crate::report::{Event, Remarks, Reporter};

pub(super) fn run(arguments: &Diff, context: &mut Context<'_>) -> Result<u8, FatalError> {
    if arguments.pending { show_pending(arguments, context) } else { changed(arguments, context) }
}

/// Shows manual changes.
fn changed(arguments: &Diff, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let selectors = &arguments.selection.selectors;
    let inputs = super::inputs::of_all(settings, selectors);
    let mut inventory = discover(settings, Purpose::Inspect, selectors, inputs.as_ref(), interrupt, *reporter)?;
    let selected = super::select("diff", &inventory, &arguments.selection.selectors, *reporter)?;
    let view = View { root: &settings.root, resources: &inventory.resources };
    let mut failed =
        super::show_conflicts(&inventory, &selected, *reporter) || inventory.is_flawed_for(&arguments.selection);
    for (index, entity) in inventory.entities.entries().filter(|(index, _)| selected.contains(*index)) {
        if !reporter.is_read() {
            break;
        }
        // A conflict has been reported already, and an entity in its desired state has no difference.
        if inventory.plan.conflicts_of(index).next().is_some() || inventory.remembered.was_unchanged(index) {
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

fn show_pending(arguments: &Diff, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let preview = Preview { differences: true, ..Preview::default() };
    let tally = check::walk(settings, interrupt, &mut Differences(*reporter), &arguments.selection, preview)?;
    Ok(super::exit_code(tally.has_failed(), arguments.exit_zero, settings))
}

/// Forwards differences and errors.
struct Differences<'a>(&'a mut dyn Reporter);

impl Reporter for Differences<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Begin(entity) => self.0.event(Event::About(Some(entity))),
            Event::Preview { difference, .. } => self.0.event(Event::Preview { difference, is_alone: true }),
            Event::Failed(Some(reason)) => self.0.error(reason),
            Event::End(..) => {
                self.0.end_paragraph();
                self.0.event(Event::About(None));
            }
            Event::Remark(_) | Event::About(_) | Event::Conflict(..) | Event::UnknownSelector(_) => self.0.event(event),
            _ => {}
        }
    }

    fn is_read(&self) -> bool {
        self.0.is_read()
    }
}
