//! Previews: a target before and after an apply.

use crate::overlay::desired::{self, Desired};
use crate::overlay::entity::FileEntity;
use crate::overlay::layout::{EvaluationError, Layout};
use crate::overlay::stock::Distribution;
use bstr::ByteSlice;
use holo_change::error::PathError;
use holo_change::{Content, Image, Unmanageable};
use holo_plugin::{FilePair, Host, MAX_REPLACED, Output, Preview, SENSITIVE, Shown, Silence};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns the two files if they differ.
pub(crate) fn preview(entity: &FileEntity, host: &Host) -> Result<Option<FilePair>, EvaluationError> {
    preview_after(entity, host, None, false)
}

/// Returns the two files if they differ. `before` is the image that the target will have when the entity is applied, if it is not the
/// current one. `of_others` means that other entities are shown to make it.
pub(crate) fn preview_after(
    entity: &FileEntity,
    host: &Host,
    before: Option<&Image>,
    of_others: bool,
) -> Result<Option<FilePair>, EvaluationError> {
    let layout = Layout::open(host)?;
    let target = layout.images.target(&entity.path);
    let distribution = Distribution::of(host.system().os_release());
    let waiting = distribution.peek(&target, host, before.is_some())?;
    let current = match before.filter(|_| of_others) {
        Some(before) => Some(before.clone()),
        None => Image::load(waiting.as_ref().map_or(&target, |(_, current)| current))?,
    };
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
        false => pair(entity, host, (current.as_ref(), waiting.is_some() || of_others), &desired.image).map(Some),
    });
    desired.clean_up();
    pair
}

/// Returns the target, or a copy of the file that will be there first, and a copy of the result.
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
        Content::File { .. } if entity.is_sensitive() => Ok(Shown::File { content: SENSITIVE.to_vec(), mode: 0o600 }),
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

pub(crate) fn shown(image: &Image) -> Result<Shown, EvaluationError> {
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
