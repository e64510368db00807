//! Resource files that are patches: what a person has changed, applied to whatever the others have made of the target.

use crate::overlay::entity::{FileEntity, Kind, Resource};
use crate::overlay::evaluation::{EvaluationError, read};
use crate::overlay::layout::Layout;
use holo_change::error::PathError;
use holo_change::{Content, Image, PathHandle};
use holo_plugin::diff::{HunkError, Labels, Patch, is_binary, merge};
use std::io::Write;

/// Writes what a patch makes of the content so far.
pub(crate) fn content(
    entity: &FileEntity,
    resource: &Resource,
    input: &Image,
    result: &PathHandle,
    layout: &Layout,
) -> Result<Content, EvaluationError> {
    let patched = apply(entity, resource, input, layout)?;
    let written = result.create()?.write_all(&patched);
    written.map_err(|error| PathError::new("write", result.shown(), error))?;
    let image = Image::load(result)?.ok_or_else(|| PathError::missing("open", result.shown()))?;
    Ok(image.content)
}

fn apply(entity: &FileEntity, resource: &Resource, input: &Image, layout: &Layout) -> Result<Vec<u8>, EvaluationError> {
    let name = entity.shown_resource(resource).display().to_string();
    let failed = |reason: String| EvaluationError(format!("skipping target: {reason}"));
    let place = layout.resource(resource).followed()?;
    let image = Image::load(&place)?.ok_or_else(|| PathError::missing("open", place.shown()))?;
    let patch = Patch::parse(&read(&image)?.unwrap_or_default());
    let patch = patch.map_err(|error| failed(format!("{name} is not a patch, {error}")))?;
    let refused = |what: &str| failed(format!("{name} cannot be applied: the content so far is {what}"));
    let text = read(input)?.ok_or_else(|| refused("a symlink"))?;
    if is_binary(&text) {
        return Err(refused("not text"));
    }
    patch.apply(&text).map_err(|error @ HunkError { .. }| {
        // What only root may read is not shown.
        let is_private = image.mode & 0o077 == 0;
        let header = error.hunk.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let hunk = if is_private { header } else { error.hunk.trim_ascii_end() };
        failed(format!("{name}: {error}, so that nothing is written:\n{}", String::from_utf8_lossy(hunk)))
    })
}

/// Returns true if the entity has a patch, and what a person has changed is all in the desired image: then it is not lost if that is
/// written, though others have changed the target too.
pub(crate) fn keeps_changes(
    entity: &FileEntity,
    before: &Image,
    current: &Image,
    desired: &Image,
) -> Result<bool, EvaluationError> {
    let has_patch = entity.resources.last().is_some_and(|resource| resource.kind == Kind::Patch);
    let is_alike = (before.uid, before.gid) == (current.uid, current.gid) && before.mode == current.mode;
    if !has_patch || !is_alike {
        return Ok(false);
    }
    let (Some(before), Some(current), Some(desired)) = (read(before)?, read(current)?, read(desired)?) else {
        return Ok(false);
    };
    if [&before, &current, &desired].into_iter().any(|text| is_binary(text)) {
        return Ok(false);
    }
    let merged = merge(&before, &current, &desired, Labels { one: "", base: "", other: "" });
    Ok(merged.conflicts == 0 && merged.text == desired)
}
