//! The origins of the lines of a target: its base, its resource files, or a manual change.

use crate::overlay::desired;
use crate::overlay::entity::{FileEntity, Kind, Resource};
use crate::overlay::layout::{EvaluationError, Layout, read};
use bstr::ByteSlice;
use holo_change::Image;
use holo_plugin::origins::{TemplateText, Traced};
use holo_plugin::{Host, Origin, Output, Silence, Span};
use std::collections::VecDeque;
use std::fs;

/// Returns the origins of the lines, if the target and all its sources are text files.
pub(crate) fn blame(entity: &FileEntity, host: &Host) -> Result<Option<Vec<Span>>, EvaluationError> {
    let layout = Layout::open(host)?;
    let images = &layout.images;
    let Some(current) = Image::load(&images.target(&entity.path))? else { return Ok(None) };
    let Some(text) = read(&current)? else { return Ok(None) };
    let base = match Image::load(&images.base(&entity.path))? {
        Some(base) => base,
        None => desired::unpatched(entity, &current, &layout)?.map_or(current, |before| before.image),
    };
    let mut traced = Traced::uniform(read(&base)?.unwrap_or_default(), &Origin::Base);
    if !entity.is_orphan() {
        let mut failure = None;
        desired::evaluate_in_steps(entity, &base, &layout, &mut Output::new(&mut Silence), &mut |resource, image| {
            match read(image) {
                Ok(made) => traced = step(entity, resource, &traced, made.unwrap_or_default()),
                Err(error) => failure = Some(error),
            }
        })?
        .clean_up();
        if let Some(error) = failure {
            return Err(error);
        }
    }
    let provisioned = Image::load(&images.provisioned(&entity.path))?;
    let applied = provisioned.as_ref().map(read).transpose()?.flatten().unwrap_or_default();
    // Lines that the resource files no longer contain are not manual changes.
    let earlier = Origin::Other("applied earlier".into());
    let applied = Traced::uniform(applied, &earlier).become_text(text.clone(), |_, _| Origin::Edited);
    let origin = |index: usize, _: &[u8]| applied.origin(index).cloned().unwrap_or(Origin::Edited);
    Ok(Some(traced.become_text(text, origin).into_spans()))
}

/// Traces the change that a resource file makes.
fn step(entity: &FileEntity, resource: &Resource, before: &Traced, made: Vec<u8>) -> Traced {
    let path = entity.shown_resource(resource);
    let line = |index: usize| Origin::Resource { path: path.clone(), line: index + 1 };
    match resource.kind {
        Kind::Plain => Traced::new(made, |index, _| line(index)),
        Kind::Script => before.become_text(made, |_, _| Origin::Holoscript(path.clone())),
        Kind::Template => {
            let text = fs::read(&path).unwrap_or_default();
            let rendered = TemplateText { path: path.clone(), text }.trace(&[], None, made.clone());
            before.become_text(made, |index, _| rendered.origin(index).cloned().unwrap_or_else(|| line(0)))
        }
        Kind::Patch => {
            let text = fs::read(&path).unwrap_or_default();
            let mut added: VecDeque<(usize, &[u8])> = text
                .lines_with_terminator()
                .enumerate()
                .filter(|(_, line)| !line.starts_with(b"+++ "))
                .filter_map(|(index, line)| Some((index, line.strip_prefix(b"+")?)))
                .collect();
            before.become_text(made, |_, new| {
                // The added lines are in text order.
                let found = added.iter().position(|(_, line)| line.trim_end() == new.trim_end());
                found
                    .and_then(|found| added.drain(..=found).next_back())
                    .map_or_else(|| line(0), |(index, _)| line(index))
            })
        }
    }
}
