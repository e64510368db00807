//! `holo check`

use super::Context;
use super::inputs::Inputs;
use crate::apply::Walk;
use crate::cli::{Check, Selection};
use crate::discovery::inventory::{Inventory, Purpose};
use crate::error::{FatalError, exit};
use crate::host::interrupt::Interrupt;
use crate::host::settings::Settings;
use crate::plan::refresh::Refreshes;
use crate::plan::select::Selected;
use crate::plan::sent::SentValues;
use crate::plugin::Task;
use crate::report::{Event, Reporter, Severity};
use holo_events::Tally;
use holo_state::Database;
use std::rc::Rc;

pub(super) fn run(arguments: &Check, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let preview = Preview { differences: arguments.diff, ..Preview::default() };
    context.settings.jobs = arguments.jobs.unwrap_or(context.settings.jobs);
    let Context { settings, interrupt, reporter } = context;
    walk(settings, interrupt, *reporter, &arguments.selection, preview).map(exit_code)
}

/// The options of the apply that a check previews.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Preview {
    pub(super) force: bool,
    pub(super) fail_fast: bool,
    pub(super) differences: bool,
}

/// Checks the selected entities in the order of an apply. Nothing is changed, so no lock is needed.
pub(super) fn walk(
    settings: &Settings,
    interrupt: &Interrupt,
    reporter: &mut dyn Reporter,
    selection: &Selection,
    preview: Preview,
) -> Result<Tally, FatalError> {
    reporter.event(Event::RunBegins(&settings.run));
    let mut inputs = Inputs::new(settings, &selection.selectors);
    let (mut inventory, selected) = loop {
        let inventory = inputs.discover(Purpose::Check, interrupt, reporter)?;
        let selected = super::select("check", &inventory, &selection.selectors, reporter)?;
        if inputs.is_consistent(&inventory, &selected, interrupt, reporter)? {
            break (inventory, selected);
        }
    };
    let settings = &inputs.settings;
    let flawed = inventory.is_flawed_for(selection);
    let tally = look(&mut inventory, &selected, settings, interrupt, reporter, preview)?;
    super::show_generation(&settings.root, reporter);
    Ok(Tally { flawed, ..tally })
}

/// Checks the selected entities of an inventory.
pub(super) fn look(
    inventory: &mut Inventory,
    selected: &Selected,
    settings: &Settings,
    interrupt: &Interrupt,
    reporter: &mut dyn Reporter,
    preview: Preview,
) -> Result<Tally, FatalError> {
    let database = Rc::new(Database::snapshot(settings.root.state_database()));
    let (mut refreshes, hidden) = Refreshes::look(&database).map_err(FatalError::could_not_run)?;
    if let Some(error) = hidden {
        let text = format!("{error}; pending refreshes are unknown");
        reporter.event(Event::Aside(Severity::Warning, &text));
    }
    inventory.hand_over_refreshes(&mut refreshes);
    let sent = SentValues::look(&database, inventory.cache()).map_err(FatalError::could_not_run)?;
    super::show_slips(inventory, selected, reporter);
    let walk = Walk::new(inventory, selected, settings, interrupt, Task::Check, (refreshes, sent));
    walk.with_force(preview.force).fail_fast(preview.fail_fast).with_differences(preview.differences).go(reporter)
}

/// Returns the exit code. Failures take precedence over pending changes.
pub(super) fn exit_code(tally: Tally) -> u8 {
    if tally.has_failed() {
        exit::FAILED
    } else if tally.pending + tally.hindered() > 0 {
        exit::PENDING
    } else {
        exit::DONE
    }
}
