//! The desired image of a target: its base with resource files applied, including patches, which are adopted manual changes.

use crate::overlay::entity::{FileEntity, Kind, Resource};
use crate::overlay::layout::{EvaluationError, Layout, read};
use holo_change::error::PathError;
use holo_change::{Content, Image, PathHandle, Unmanageable};
use holo_plugin::diff::{HunkError, Labels, Patch, PatchedText, is_binary, merge};
use holo_plugin::{Output, process};
use std::cell::OnceCell;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

/// The mode of a file that replaces a symlink: that of all symlinks, minus the usual umask.
const MODE_AFTER_SYMLINK: u32 = 0o755;

/// A desired image and its temporary files.
#[derive(Debug)]
pub(crate) struct Desired {
    pub(crate) image: Image,
    /// Temporary files with results of holoscripts, to be removed after the image is written.
    pub(crate) scratch: Vec<PathHandle>,
}

/// Applies the resource files to the base in order. Those before the last plain one are skipped, because they would be overwritten.
pub(crate) fn evaluate(
    entity: &FileEntity,
    base: &Image,
    layout: &Layout,
    output: &mut Output<'_>,
) -> Result<Desired, EvaluationError> {
    evaluate_in_runs(entity, base, layout, output, None)
}

/// Is called with a resource file and the result of applying it.
type OnStep<'a> = &'a mut dyn FnMut(&Resource, &Image);

/// Like `evaluate`, but calls `on_step` with the result of each resource file.
pub(crate) fn evaluate_in_steps(
    entity: &FileEntity,
    base: &Image,
    layout: &Layout,
    output: &mut Output<'_>,
    on_step: OnStep<'_>,
) -> Result<Desired, EvaluationError> {
    evaluate_in_runs(entity, base, layout, output, Some(on_step))
}

/// Applies successive patches together, unless the result of each is needed: the work for each would grow with the content.
fn evaluate_in_runs(
    entity: &FileEntity,
    base: &Image,
    layout: &Layout,
    output: &mut Output<'_>,
    mut on_step: Option<OnStep<'_>>,
) -> Result<Desired, EvaluationError> {
    let first = entity.resources.iter().rposition(|resource| resource.kind == Kind::Plain).unwrap_or(0);
    let mut desired = Desired { image: base.clone(), scratch: Vec::new() };
    // True if the current content is trusted, which matters if it is a symlink.
    let mut is_trusted = base.is_trusted();
    let is_each_needed = on_step.is_some();
    let are_patches = |one: &Resource, next: &Resource| one.kind == Kind::Patch && next.kind == Kind::Patch;
    let mut index = first;
    let resources = entity.resources.get(first..).unwrap_or_default();
    for run in resources.chunk_by(|one, next| !is_each_needed && are_patches(one, next)) {
        let Some(resource) = run.first() else { continue };
        let image = match resource.kind {
            Kind::Plain => plain_image(resource, layout).map(|image| {
                is_trusted = image.is_trusted();
                laid_over(&desired.image, image.content)
            }),
            Kind::Patch => {
                let result = layout.script_result(&entity.path, index);
                desired.scratch.push(result.clone());
                let content = content(entity, run, &desired.image, &result, layout);
                content.map(|content| laid_over(&desired.image, content))
            }
            Kind::Script | Kind::Template => {
                let result = layout.script_result(&entity.path, index);
                desired.scratch.push(result.clone());
                let make = if resource.kind == Kind::Script { script_content } else { template_content };
                resolved(entity, &desired.image, is_trusted, layout).and_then(|input| {
                    let content = make(entity, resource, &input, &result, layout, output)?;
                    Ok(laid_over(&input, content))
                })
            }
        };
        match image {
            Ok(image) => {
                if let Some(on_step) = &mut on_step {
                    on_step(resource, &image);
                }
                desired.image = image;
            }
            Err(error) => {
                desired.clean_up();
                return Err(error);
            }
        }
        index += run.len();
    }
    Ok(desired)
}

/// Returns the base with another content. Mode, owner and extended attributes stay.
pub(crate) fn laid_over(base: &Image, content: Content) -> Image {
    let becomes_file = base.is_symlink() && !matches!(content, Content::Symlink(_));
    let mode = if becomes_file { MODE_AFTER_SYMLINK } else { base.mode };
    Image { content, mode, uid: base.uid, gid: base.gid, attributes_of: base.attributes_of.clone() }
}

impl Desired {
    pub(crate) fn clean_up(&self) {
        for place in &self.scratch {
            // The cache directory is removed at the end of the run anyway.
            let _ = place.remove();
        }
    }
}

fn plain_image(resource: &Resource, layout: &Layout) -> Result<Image, EvaluationError> {
    let place = layout.resource(resource);
    Ok(Image::load(&place)?.ok_or_else(|| missing(&place))?)
}

fn missing(place: &PathHandle) -> PathError {
    PathError::missing("open", place.shown())
}

fn script_content(
    entity: &FileEntity,
    resource: &Resource,
    input: &Image,
    result: &PathHandle,
    layout: &Layout,
    output: &mut Output<'_>,
) -> Result<Content, EvaluationError> {
    let program = entity.shown_resource(resource);
    let input = open_input(input)?;
    let written = result.create()?;
    let timeout = entity.sidecar.as_ref().and_then(|sidecar| sidecar.timeout);
    process::filter(&program, input, written, timeout, output)
        .map_err(|reason| EvaluationError(format!("execution of {} failed: {reason}", program.display())))?;
    // The programs started by the script may have moved any directory.
    layout.forget();
    let image = Image::load(result)?.ok_or_else(|| missing(result))?;
    Ok(image.content)
}

/// The maximum size of a template, and of the content that it changes, in bytes.
const MAX_TEXT: u64 = 16 << 20;

/// Renders the template with the current content as its `input`.
fn template_content(
    entity: &FileEntity,
    resource: &Resource,
    input: &Image,
    result: &PathHandle,
    layout: &Layout,
    output: &mut Output<'_>,
) -> Result<Content, EvaluationError> {
    let place = layout.resource(resource).followed()?;
    let name = entity.shown_resource(resource).display().to_string();
    let failed = |reason: String| EvaluationError(format!("rendering of {name} failed: {reason}"));
    let text = |file: File, what: &str| {
        let mut text = String::new();
        let read = file.take(MAX_TEXT + 1).read_to_string(&mut text).map_err(|error| match error.kind() {
            ErrorKind::InvalidData => failed(format!("{what} is not UTF-8")),
            _ => failed(format!("read {what}: {error}")),
        });
        match read? as u64 {
            0..=MAX_TEXT => Ok(text),
            _ => Err(failed(format!("{what} is larger than {} MiB", MAX_TEXT >> 20))),
        }
    };
    let template = text(place.open_if_file()?.ok_or_else(|| missing(&place))?, "it")?;
    let input = text(open_input(input)?, "the content so far")?;
    let scope = serde_json::Map::from_iter([("input".to_owned(), input.into())]);
    let rendered = entity.knowledge().renderer().render(&name, &template, &scope);
    entity.knowledge().take_warnings().iter().for_each(|warning| output.warning(warning.to_string()));
    let rendered = rendered.map_err(|fault| EvaluationError(fault.to_string()))?;
    if rendered.is_sensitive() && !entity.is_sensitive() {
        let path = entity.path.display();
        let problem = format!("an encrypted value; set [[overlay]] path = \"{path}\", sensitive = true");
        return Err(EvaluationError(format!("{name}: the template contains {problem}")));
    }
    let written = result.create()?.write_all(rendered.text.as_bytes());
    written.map_err(|error| PathError::new("write", result.shown(), error))?;
    let image = Image::load(result)?.ok_or_else(|| missing(result))?;
    Ok(image.content)
}

/// Returns the file that a program or template reads: the target of the symlink, if it is one. The result gets its mode and owner.
fn resolved(entity: &FileEntity, so_far: &Image, is_trusted: bool, layout: &Layout) -> Result<Image, EvaluationError> {
    let Content::Symlink(target) = &so_far.content else { return Ok(so_far.clone()) };
    if !is_trusted {
        let shown = entity.shown_target().display().to_string();
        return Err(EvaluationError(format!(
            "skipping target: {shown} is a symlink of another user, which is not followed"
        )));
    }
    let target = bstr::ByteSlice::to_path_lossy(&target[..]).into_owned();
    let from_target =
        if target.is_absolute() { target } else { entity.path.parent().unwrap_or(Path::new("/")).join(target) };
    let linked = layout.images.target(&from_target);
    let image = Image::load(&linked.followed()?)?;
    // In the words of version 3.
    image.ok_or_else(|| EvaluationError(PathError::missing("stat", entity.shown_from_root(&from_target)).to_string()))
}

fn open_input(input: &Image) -> Result<File, EvaluationError> {
    match &input.content {
        Content::File { place, .. } => Ok(place.open()?),
        Content::Symlink(_) => Err(Unmanageable::WrongType.into()),
    }
}

/// Applies patches and writes the result to a temporary file.
fn content(
    entity: &FileEntity,
    patches: &[Resource],
    input: &Image,
    result: &PathHandle,
    layout: &Layout,
) -> Result<Content, EvaluationError> {
    let patched = apply(entity, patches, input, layout)?;
    let written = result.create()?.write_all(&patched);
    written.map_err(|error| PathError::new("write", result.shown(), error))?;
    let image = Image::load(result)?.ok_or_else(|| PathError::missing("open", result.shown()))?;
    Ok(image.content)
}

fn apply(
    entity: &FileEntity,
    patches: &[Resource],
    input: &Image,
    layout: &Layout,
) -> Result<Vec<u8>, EvaluationError> {
    let content = OnceCell::new();
    let mut patched: Option<PatchedText<'_>> = None;
    for resource in patches {
        let name = entity.shown_resource(resource).display().to_string();
        let Loaded { patch, is_private } = load(entity, resource, layout)?;
        let refused = |what: &str| failed(&format!("{name} cannot be applied: the content so far is {what}"));
        let text = match &mut patched {
            Some(text) => text,
            None => {
                let bytes = read(input)?.ok_or_else(|| refused("a symlink"))?;
                patched.insert(PatchedText::new(content.get_or_init(|| bytes)))
            }
        };
        if text.is_binary() {
            return Err(refused("not text"));
        }
        text.apply(&patch).map_err(|error @ HunkError { .. }| {
            // A hunk of a private file is not shown.
            let header = error.hunk.split(|&byte| byte == b'\n').next().unwrap_or_default();
            let hunk = if is_private { header } else { error.hunk.trim_ascii_end() };
            failed(&format!("{name}: {error}; the target is not changed:\n{}", String::from_utf8_lossy(hunk)))
        })?;
    }
    Ok(patched.map(PatchedText::into_bytes).unwrap_or_default())
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

/// Returns the original of a target that was never applied but already contains its first patches, because they were adopted from it.
pub(crate) fn unpatched(
    entity: &FileEntity,
    current: &Image,
    layout: &Layout,
) -> Result<Option<Unpatched>, EvaluationError> {
    let first = entity.resources.iter().take_while(|resource| resource.kind == Kind::Patch);
    if entity.is_orphan() || first.clone().next().is_none() {
        return Ok(None);
    }
    let Some(text) = read(current)?.filter(|text| !is_binary(text)) else { return Ok(None) };
    let patches = first.map(|resource| Ok(load(entity, resource, layout)?.patch));
    let patches: Vec<Patch> = patches.collect::<Result<_, EvaluationError>>()?;
    let reversed: Vec<Patch> = patches.iter().rev().map(Patch::reversed).collect();
    let apply = |patches: &[Patch], text: &[u8]| {
        let mut text = PatchedText::new(text);
        patches.iter().try_for_each(|patch| text.apply_exactly(patch)).ok()?;
        Some(text.into_bytes())
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
