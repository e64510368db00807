//! `holo report`: writes a self-contained HTML page about a machine.

mod budget;
mod collect;
mod diffs;
mod page;
mod runs;
mod text;

use super::Context;
use super::doctor::{self, Scene};
use crate::apply::Walk;
use crate::cli::Report;
use crate::discovery::inventory::Inventory;
use crate::error::{FatalError, IoError, exit};
use crate::graph;
use crate::host::interrupt::Interrupt;
use crate::host::settings::Settings;
use crate::plan::declarations::Declarations;
use crate::plan::refresh::Refreshes;
use crate::plan::select::Selected;
use crate::plan::sent::SentValues;
use crate::plugin::Task;
use crate::report::Event;
use crate::report::Finding;
use collect::Collected;
use holo_state::Database;
use page::{Page, Plan};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::rc::Rc;

/// The maximum number of entities in a readable picture.
const MOST_DRAWN: usize = 400;

pub(super) fn run(arguments: &Report, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let mut scene = Scene::take(settings, interrupt)?;
    let findings = doctor::examine(&mut scene, interrupt)?;
    let page = match &mut scene.inventory {
        Some(inventory) => of_inventory(inventory, &findings, settings, interrupt)?,
        None => Page::new(settings, &findings, None, Plan::Nothing),
    };
    let html = page.render()?;
    match &arguments.output {
        Some(path) => write(path, html.as_bytes()).map_err(FatalError::could_not_run)?,
        None => reporter.event(Event::Text(html.as_bytes())),
    }
    Ok(exit::DONE)
}

fn of_inventory(
    inventory: &mut Inventory,
    findings: &[Finding],
    settings: &Settings,
    interrupt: &Interrupt,
) -> Result<Page, FatalError> {
    let everything: Selected = inventory.entities.iter().map(|_| true).collect();
    let database = Rc::new(Database::snapshot(settings.root.state_database()));
    let mut refreshes = Refreshes::look(&database).map_err(FatalError::could_not_run)?.0;
    let sent = SentValues::look(&database, inventory.cache()).map_err(FatalError::could_not_run)?;
    inventory.hand_over_refreshes(&mut refreshes);
    let mut collected = Collected::new();
    let walk = Walk::new(inventory, &everything, settings, interrupt, Task::Check, (refreshes, sent));
    walk.with_differences(true).go(&mut collected)?;
    let plan = draw(inventory);
    Ok(Page::new(settings, findings, Some((inventory, collected)), plan))
}

/// Draws the plan, or the part of it that is readable.
fn draw(inventory: &Inventory) -> Plan {
    let mut has_edges: Vec<bool> = vec![false; inventory.entities.len()];
    for edge in inventory.plan.edges() {
        for end in [edge.from, edge.to] {
            has_edges.get_mut(usize::from(end)).into_iter().for_each(|has_edge| *has_edge = true);
        }
    }
    let connected = has_edges.iter().filter(|has_edge| **has_edge).count();
    let selected: Selected = if inventory.entities.len() <= MOST_DRAWN {
        has_edges.iter().map(|_| true).collect()
    } else if connected == 0 {
        return Plan::Nothing;
    } else if connected <= MOST_DRAWN {
        has_edges.into_iter().collect()
    } else {
        return Plan::TooLarge(connected);
    };
    let declarations = Declarations::new(&inventory.entities);
    Plan::Picture(graph::svg(&declarations.nodes(&inventory.entities), &inventory.plan, &selected))
}

/// Writes the page atomically, readable only by us: it may contain what only we may read.
fn write(path: &Path, html: &[u8]) -> Result<(), IoError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(html)?;
        fs::rename(&temporary, path)
    })();
    written.map_err(|error: io::Error| {
        // The partial file is useless.
        let _ = fs::remove_file(&temporary);
        IoError::new("write", path, error)
    })
}

/// The page cannot be rendered.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the page: {0}")]
struct TemplateError(#[from] minijinja::Error);

impl From<TemplateError> for FatalError {
    fn from(error: TemplateError) -> Self {
        FatalError::could_not_run(error)
    }
}

#[cfg(test)]
mod contrast;
