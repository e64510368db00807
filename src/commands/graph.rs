//! `holo graph`

use super::Context;
use crate::cli::{Graph, Picture};
use crate::discovery::discover;
use crate::discovery::inventory::Purpose;
use crate::error::FatalError;
use crate::graph;
use crate::plan::edges::Declarations;
use crate::report::Event;

pub(super) fn run(arguments: &Graph, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let inventory = discover(settings, Purpose::Inspect, &arguments.selection.selectors, None, interrupt, *reporter)?;
    let selected = super::select("graph", &inventory, &arguments.selection.selectors, *reporter)?;
    let has_failed =
        super::show_conflicts(&inventory, &selected, *reporter) || inventory.is_flawed_for(&arguments.selection);
    let declarations = Declarations::new(&inventory.entities);
    let draw = match arguments.format {
        Picture::Dot => graph::dot,
        Picture::Mermaid => graph::mermaid,
        Picture::Svg => graph::svg,
    };
    let picture = draw(&declarations.nodes(&inventory.entities), &inventory.plan, &selected);
    reporter.event(Event::Text(picture.as_bytes()));
    Ok(super::exit_code(has_failed, arguments.exit_zero, settings))
}
