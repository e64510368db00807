//! Resource files that are patches: adopted manual changes, applied to the result of other resource files.

use crate::overlay::entity::{FileEntity, Kind, Resource};
use crate::overlay::evaluation::{EvaluationError, read};
use crate::overlay::layout::Layout;
use holo_change::error::PathError;
use holo_change::{Content, Image, PathHandle};
use holo_plugin::diff::{HunkError, Labels, Patch, is_binary, merge};
use std::io::Write;

/// Applies a patch and writes the result to a temporary file.
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
    let Loaded { patch, is_private } = load(entity, resource, layout)?;
    let refused = |what: &str| failed(&format!("{name} cannot be applied: the content so far is {what}"));
    let text = read(input)?.ok_or_else(|| refused("a symlink"))?;
    if is_binary(&text) {
        return Err(refused("not text"));
    }
    patch.apply(&text).map_err(|error @ HunkError { .. }| {
        // A hunk of a private file is not shown.
        let header = error.hunk.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let hunk = if is_private { header } else { error.hunk.trim_ascii_end() };
        failed(&format!("{name}: {error}; the target is not changed:\n{}", String::from_utf8_lossy(hunk)))
    })
}

/// A parsed patch.
struct Loaded {
    patch: Patch,
    /// True if only its owner can read it.
    is_private: bool,
}

fn load(entity: &FileEntity, resource: &Resource, layout: &Layout) -> Result<Loaded, EvaluationError> {
    let name = entity.shown_resource(resource).display().to_string();
    let place = layout.resource(resource).followed()?;
    let image = Image::load(&place)?.ok_or_else(|| PathError::missing("open", place.shown()))?;
    let patch = Patch::parse(&read(&image)?.unwrap_or_default());
    let patch = patch.map_err(|error| failed(&format!("{name} is not a patch, {error}")))?;
    Ok(Loaded { patch, is_private: image.mode & 0o077 == 0 || entity.is_sensitive() })
}

fn failed(reason: &str) -> EvaluationError {
    EvaluationError(format!("skipping target: {reason}"))
}

/// The image from before patches were applied.
pub(crate) struct Unpatched {
    pub(crate) image: Image,
    /// The temporary file with its content.
    pub(crate) place: PathHandle,
}

/// Returns the original of a target that was never applied but already contains all its patches, because they were adopted from it.
pub(crate) fn unpatched(
    entity: &FileEntity,
    current: &Image,
    layout: &Layout,
) -> Result<Option<Unpatched>, EvaluationError> {
    let are_patches = entity.resources.iter().all(|resource| resource.kind == Kind::Patch);
    if entity.is_orphan() || !are_patches {
        return Ok(None);
    }
    let Some(text) = read(current)?.filter(|text| !is_binary(text)) else { return Ok(None) };
    let patches = entity.resources.iter().map(|resource| Ok(load(entity, resource, layout)?.patch));
    let patches: Vec<Patch> = patches.collect::<Result<_, EvaluationError>>()?;
    let reversed: Vec<Patch> = patches.iter().rev().map(Patch::reversed).collect();
    let apply = |patches: &[Patch], text: &[u8]| {
        patches.iter().try_fold(text.to_vec(), |text, patch| patch.apply_exactly(&text).ok())
    };
    if apply(&patches, &text).is_some() {
        // The patches have not been applied.
        return Ok(None);
    }
    let Some(before) = apply(&reversed, &text) else { return Ok(None) };
    if apply(&patches, &before).is_none_or(|again| again != text) {
        return Ok(None);
    }
    let place = layout.script_result(&entity.path, entity.resources.len());
    let written = place.create()?.write_all(&before);
    written.map_err(|error| PathError::new("write", place.shown(), error))?;
    let image = Image::load(&place)?.ok_or_else(|| PathError::missing("open", place.shown()))?;
    Ok(Some(Unpatched { image: Image { content: image.content, ..current.clone() }, place }))
}

/// Returns true if the entity has a patch, and the desired image contains all manual changes. In this case they are not lost by writing it,
/// even if the target was also changed otherwise.
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
