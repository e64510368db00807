//! What an apply would do, as a verdict, and as files before and after it.

use crate::overlay::desired::{self, Desired, EvaluationError};
use crate::overlay::entity::FileEntity;
use crate::overlay::layout::{Context, Layout};
use crate::overlay::preparation::{BufferedOutput, Indexed};
use crate::overlay::provision::is_ours;
use crate::overlay::stock::Distribution;
use crate::overlay::{scan, scrub};
use bstr::ByteSlice;
use holo_change::error::PathError;
use holo_change::{Content, Image, Unmanageable};
use holo_plugin::{FilePair, ForceTo, Host, Job, MAX_REPLACED, Output, Preview, SENSITIVE, Shown, Silence, Verdict};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The result for an entity that was checked together with others, and its output.
pub(crate) struct Checked {
    verdict: Verdict,
    said: BufferedOutput,
}

impl Checked {
    /// Prints the output and returns the verdict.
    pub(crate) fn tell(self, output: &mut Output<'_>) -> Verdict {
        self.said.repeat(output);
        self.verdict
    }
}

/// Checks many entities. The result is `None` for an entity that involves a program or template, and for all if they cannot be checked
/// together. With `records`, entities that are recorded as unchanged are not read again.
pub(crate) fn check_many(host: &Host, set: &[Job<'_, FileEntity>], records: bool) -> Vec<Option<Checked>> {
    let Ok(mut context) = Context::open_to_look(host, records) else {
        return set.iter().map(|_| None).collect();
    };
    let jobs: Vec<Indexed<'_, '_>> = set.iter().enumerate().collect();
    let seen: Vec<(FileJob<'_, '_>, bool)> = set.iter().zip(context.find_unchanged(&jobs)).collect();
    context.in_shares(&seen, |&(job, is_unchanged), layout| {
        let entity = job.entity;
        if is_unchanged {
            return Some(Checked { verdict: Verdict::InDesiredState, said: BufferedOutput::default() });
        }
        let mut said = BufferedOutput::default();
        let is_plain = entity.is_orphan() || entity.deciding_resources().is_some();
        let check =
            |said: &mut BufferedOutput| check_in(entity, (layout, &context.distribution), &mut Output::new(said));
        is_plain.then(|| check(&mut said)).map(|verdict| Checked { verdict, said })
    })
}

type FileJob<'a, 'e> = &'a Job<'e, FileEntity>;

/// Checks one entity. Prints errors.
pub(crate) fn check(entity: &FileEntity, host: &Host, output: &mut Output<'_>) -> Verdict {
    let distribution = Distribution::of(host.system().os_release());
    match Layout::open(host) {
        Ok(layout) => check_in(entity, (&layout, &distribution), output),
        Err(error) => failed(error.into(), output),
    }
}

fn check_in(entity: &FileEntity, beside: (&Layout, &Distribution), output: &mut Output<'_>) -> Verdict {
    try_check(entity, beside, output).unwrap_or_else(|error| failed(error, output))
}

fn failed(EvaluationError(reason): EvaluationError, output: &mut Output<'_>) -> Verdict {
    output.error(reason);
    Verdict::Failed
}

fn try_check(
    entity: &FileEntity,
    (layout, distribution): (&Layout, &Distribution),
    output: &mut Output<'_>,
) -> Result<Verdict, EvaluationError> {
    let target = layout.images.target(&entity.path);
    let shown = target.shown().display().to_string();
    let would = |what: String| Ok(Verdict::WouldChange(vec![what]));
    if entity.is_orphan() {
        return Ok(scrub::check(entity, layout, distribution)?);
    }
    // For an unknown distribution, an apply prints a warning, and no files next to the target are considered.
    let waiting = distribution.peek(&target)?;
    let target = waiting.as_ref().map_or(&target, |(_, current)| current);
    let current = Image::load(target)?;
    let known_base = Image::load(&layout.images.base(&entity.path))?;
    let unpatched = match (&known_base, &current) {
        (None, Some(current)) => desired::unpatched(entity, current, layout)?,
        _ => None,
    };
    let before = unpatched.as_ref().map(|before| before.image.clone());
    let Some(base) = known_base.or(before).or_else(|| current.clone()) else {
        output.error(EvaluationError::from(Unmanageable::WrongType).0);
        scan::missing_target(entity, output);
        return Ok(Verdict::Failed);
    };
    let Some(current) = current else { return Ok(Verdict::NeedsForce(ForceTo::Restore)) };
    let base = match &waiting {
        Some((stock, _)) => Image::load(stock)?.ok_or(Unmanageable::WrongType)?,
        None => base,
    };
    // An apply that was killed after writing the target left its intent, and the next apply completes it.
    let intent = Image::load(&layout.images.intent(&entity.path))?;
    if intent.map_or(Ok(false), |intent| current.equals(&intent))? {
        return would(format!("would record what an interrupted apply has made of {shown}"));
    }
    let provisioned = Image::load(&layout.images.provisioned(&entity.path))?;
    let desired = desired::evaluate(entity, &base, layout, output)?;
    let is_desired = current.equals(&desired.image);
    let before = provisioned.as_ref().unwrap_or(&base);
    let keeps_changes = desired::keeps_changes(entity, before, &current, &desired.image);
    desired.clean_up();
    unpatched.into_iter().for_each(|before| drop(before.place.remove()));
    let is_desired = is_desired?;
    let mut changes = Vec::new();
    if waiting.is_some() {
        changes.push(format!("would use the new version next to {shown} as its base"));
    }
    if !is_desired {
        if !is_ours(&current, provisioned.as_ref(), &base)? && !keeps_changes? {
            return Ok(Verdict::NeedsForce(ForceTo::Overwrite));
        }
        changes.push(format!("would write {shown}"));
    }
    Ok(if changes.is_empty() { Verdict::InDesiredState } else { Verdict::WouldChange(changes) })
}

/// Returns the two files if they differ.
pub(crate) fn preview(entity: &FileEntity, host: &Host) -> Result<Option<FilePair>, EvaluationError> {
    preview_after(entity, host, None)
}

/// Returns the two files if they differ. `before` is the image that the target will have when the entity is applied, if it is not the
/// current one.
pub(crate) fn preview_after(
    entity: &FileEntity,
    host: &Host,
    before: Option<&Image>,
) -> Result<Option<FilePair>, EvaluationError> {
    let layout = Layout::open(host)?;
    let target = layout.images.target(&entity.path);
    let distribution = Distribution::of(host.system().os_release());
    let waiting = distribution.peek(&target)?;
    let current = Image::load(waiting.as_ref().map_or(&target, |(_, current)| current))?;
    let base = match &waiting {
        Some((stock, _)) => Image::load(stock)?,
        None => match (Image::load(&layout.images.base(&entity.path))?, &current) {
            (Some(base), _) => Some(base),
            (None, current) => {
                let found = before.or(current.as_ref());
                let unpatched = found.map(|found| desired::unpatched(entity, found, &layout)).transpose()?.flatten();
                unpatched.map(|before| before.image).or_else(|| found.cloned())
            }
        },
    };
    let Some(base) = base.filter(|_| current.is_some() || !entity.is_orphan()) else { return Ok(None) };
    let desired = if entity.is_orphan() {
        Desired { image: base, scratch: Vec::new() }
    } else {
        desired::evaluate(entity, &base, &layout, &mut Output::new(&mut Silence))?
    };
    let is_desired = current.as_ref().map_or(Ok(false), |current| current.equals(&desired.image));
    let pair = is_desired.map_err(EvaluationError::from).and_then(|is_desired| match is_desired {
        true => Ok(None),
        false => pair(entity, host, (current.as_ref(), waiting.is_some()), &desired.image).map(Some),
    });
    desired.clean_up();
    pair
}

/// Returns the target, or a copy of the file that will be moved there first, and a copy of the result.
fn pair(
    entity: &FileEntity,
    host: &Host,
    (current, is_moved): (Option<&Image>, bool),
    desired: &Image,
) -> Result<FilePair, EvaluationError> {
    let failed = |error| PathError::new("write", host.cache_dir(), error);
    let preview = Preview::new(host, &entity.id()).map_err(failed)?;
    let below = Path::new("file");
    let shown = |image: &Image| match &image.content {
        Content::File { .. } if entity.is_sensitive() => Ok(Shown::File { content: SENSITIVE.to_vec(), mode: 0 }),
        _ => shown(image),
    };
    shown(desired)?.write(&preview.to(below)).map_err(failed)?;
    let target = entity.shown_target();
    let copied = if entity.is_sensitive() { current } else { current.filter(|_| is_moved) };
    let from = match copied {
        Some(current) => {
            shown(current)?.write(&preview.from(below)).map_err(failed)?;
            preview.from(below)
        }
        None => target.clone(),
    };
    Ok(FilePair::new(from, preview.to(below)).with_from_label(target.as_os_str().as_bytes()))
}

/// Returns the content of an image, unless it is too large for the history of a run.
pub(crate) fn shown_if_small(image: &Image) -> Result<Shown, EvaluationError> {
    match &image.content {
        Content::File { size, .. } if *size > MAX_REPLACED => Err(Unmanageable::WrongType.into()),
        _ => shown(image),
    }
}

fn shown(image: &Image) -> Result<Shown, EvaluationError> {
    Ok(match &image.content {
        Content::Symlink(target) => Shown::Symlink(target.to_path_lossy().into_owned()),
        Content::File { place, .. } => {
            let mut content = Vec::new();
            let read = place.open()?.read_to_end(&mut content);
            read.map_err(|error| PathError::new("read", place.shown(), error))?;
            Shown::File { content, mode: image.mode }
        }
    })
}
