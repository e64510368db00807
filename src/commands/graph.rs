//! `holo graph`

use super::Context;
use crate::cli::{Graph, Picture};
use crate::declarations::Declarations;
use crate::error::Fatal;
use crate::graph;
use crate::inventory::{Purpose, discover};
use holo_protocol::session::Stream;

pub(super) fn run(arguments: &Graph, desk: &mut Context) -> Result<u8, Fatal> {
    let Context { settings, interrupt, console } = desk;
    let inventory = discover(settings, Purpose::Look, &arguments.selection.selectors, interrupt, console)?;
    let selected = super::select("graph", &inventory, &arguments.selection.selectors, console)?;
    let has_failed =
        super::show_conflicts(&inventory, &selected, console) || inventory.is_flawed_for(&arguments.selection);
    let declarations = Declarations::of(&inventory.entities);
    let draw = match arguments.format {
        Picture::Dot => graph::dot,
        Picture::Mermaid => graph::mermaid,
        Picture::Svg => graph::svg,
    };
    console.raw(Stream::Stdout, draw(&declarations.nodes(&inventory.entities), &inventory.plan, &selected).as_bytes());
    Ok(super::exit_code(has_failed, arguments.exit_zero, settings))
}
