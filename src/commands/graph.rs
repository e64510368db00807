//! `holo graph`

use super::Desk;
use crate::cli::{Graph, Picture};
use crate::declarations::Declarations;
use crate::error::Fatal;
use crate::graph;
use crate::survey::{Purpose, survey};
use holo_protocol::session::Stream;

pub(super) fn run(arguments: &Graph, desk: &mut Desk) -> Result<u8, Fatal> {
    let Desk { settings, interrupt, console } = desk;
    let survey = survey(settings, Purpose::Look, &arguments.selection.selectors, interrupt, console)?;
    let selected = super::select("graph", &survey, &arguments.selection.selectors, console)?;
    let has_failed = super::show_conflicts(&survey, &selected, console) || survey.is_flawed_for(&arguments.selection);
    let declarations = Declarations::of(&survey.entities);
    let draw = match arguments.format {
        Picture::Dot => graph::dot,
        Picture::Mermaid => graph::mermaid,
        Picture::Svg => graph::svg,
    };
    console.raw(Stream::Stdout, draw(&declarations.nodes(&survey.entities), &survey.plan, &selected).as_bytes());
    Ok(super::exit_code(has_failed, arguments.exit_zero, settings))
}
