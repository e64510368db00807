//! `holo graph`

use super::Desk;
use crate::cli::{Graph, Picture};
use crate::declarations::Declarations;
use crate::error::Fatal;
use crate::exit;
use crate::graph;
use crate::survey::survey;
use holo_protocol::session::Stream;

pub(super) fn run(arguments: &Graph, desk: &mut Desk) -> Result<u8, Fatal> {
    let Desk { settings, interrupt, console } = desk;
    let survey = survey(settings, interrupt, console)?;
    let selected = super::select(&survey.entities, &arguments.selection.selectors, console)?;
    let contested = super::show_conflicts(&survey, &selected, console);
    let declarations = Declarations::of(&survey.entities);
    let draw = match arguments.format {
        Picture::Dot => graph::dot,
        Picture::Mermaid => graph::mermaid,
        Picture::Svg => graph::svg,
    };
    console.raw(Stream::Stdout, draw(&declarations.nodes(&survey.entities), &survey.plan, &selected).as_bytes());
    Ok(if contested { exit::FAILED } else { exit::DONE })
}
