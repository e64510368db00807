//! `holo health`

use super::Context;
use crate::cli::Health as Arguments;
use crate::discovery::discover;
use crate::discovery::inventory::{Inventory, Purpose};
use crate::discovery::scan::{Heard, concurrently};
use crate::entities::node::EntityIndex;
use crate::error::{FatalError, exit};
use crate::plan::Requirement;
use crate::plan::select::Selected;
use crate::plugin::{OperationError, Plugin};
use crate::report::table::{Cell, Table};
use crate::report::{Event, Remarks, Reporter};
use bstr::{BStr, BString, ByteSlice};
use holo_events::Line;
use holo_protocol::{Health, HealthState};
use std::collections::{BTreeSet, HashMap};

/// The number of plugins that run health checks concurrently.
const AT_ONCE: usize = 16;

pub(super) fn run(arguments: &Arguments, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let selectors = &arguments.selection.selectors;
    let mut inventory = discover(settings, Purpose::Inspect, selectors, None, interrupt, *reporter)?;
    let selected = super::select("health", &inventory, selectors, *reporter)?;
    let ids = ids_by_plugin(&inventory, &selected);
    let mut has_failed = inventory.is_flawed_for(&arguments.selection);
    let mut found: Vec<Health> = Vec::new();
    let asked = inventory.plugins.iter_mut().zip(&ids);
    let ask = |(plugin, ids): (&mut Plugin, &Vec<BString>), on_output: &mut dyn FnMut(_, &[u8])| {
        plugin.health(ids, interrupt, on_output)
    };
    concurrently(asked, AT_ONCE, ask, |_, heard| {
        match heard {
            Heard::Output(stream, bytes) => reporter.output(stream, bytes),
            Heard::Answer(Ok(lines)) => {
                for line in lines.lines() {
                    match Health::parse(line) {
                        Ok(health) => found.push(health),
                        Err(error) => {
                            has_failed = true;
                            reporter.error(error.to_string());
                        }
                    }
                }
            }
            Heard::Answer(Err(OperationError::Fatal(fatal))) => return Err(fatal),
            Heard::Answer(Err(OperationError::Failed(error))) => {
                has_failed = true;
                reporter.error(error.to_string());
            }
        }
        Ok(())
    })?;
    let by_id: HashMap<&BStr, EntityIndex> =
        inventory.selected_of(&selected).map(|(index, entity)| (entity.id(), index)).collect();
    // A plugin that was scanned in full may report entities that are not selected.
    let found: Vec<(EntityIndex, Health)> =
        found.into_iter().filter_map(|health| Some((*by_id.get(health.id.as_bstr())?, health))).collect();
    show(&inventory, &found, *reporter);
    let is_unwell = found.iter().any(|(_, health)| health.state != HealthState::Ok);
    Ok(if has_failed || is_unwell { exit::FAILED } else { exit::DONE })
}

/// Returns the IDs of the selected entities of each plugin, in the order of the plugins.
fn ids_by_plugin(inventory: &Inventory, selected: &Selected) -> Vec<Vec<BString>> {
    let mut ids = vec![Vec::new(); inventory.plugins.len()];
    for (_, entity) in inventory.selected_of(selected) {
        ids.get_mut(usize::from(entity.plugin)).into_iter().for_each(|ids| ids.push(entity.id().to_owned()));
    }
    ids
}

fn show(inventory: &Inventory, found: &[(EntityIndex, Health)], reporter: &mut dyn Reporter) {
    let cells = |(_, health): &(EntityIndex, Health)| {
        vec![Cell::from(health.state.word()), Cell::from(&health.id), Cell::from(&health.text)]
    };
    let rows: Vec<Vec<Cell>> = found.iter().map(cells).collect();
    reporter.event(Event::Table(&Table { columns: &["HEALTH", "ENTITY", "REASON"], rows: &rows }));
    for (entity, health) in found {
        let required = required_by(inventory, *entity);
        reporter.event(Event::Line(&Line::Health {
            id: (&health.id).into(),
            plugin: inventory.entities[*entity].plugin_id().into(),
            state: health.state.into(),
            text: (!health.text.is_empty()).then(|| (&health.text).into()),
            requires: required.iter().map(|&entity| inventory.entities[entity].id().into()).collect(),
        }));
    }
}

/// Returns the transitive requirements of an entity.
fn required_by(inventory: &Inventory, entity: EntityIndex) -> BTreeSet<EntityIndex> {
    let mut required = BTreeSet::new();
    let mut next = vec![entity];
    while let Some(entity) = next.pop() {
        for requirement in inventory.plan.requirements(entity) {
            if let Requirement::Entity(other) = requirement
                && required.insert(*other)
            {
                next.push(*other);
            }
        }
    }
    required.remove(&entity);
    required
}
