//! Scrubs orphans by restoring their targets.

use crate::overlay::change::{Change, FAILED};
use crate::overlay::entity::FileEntity;
use crate::overlay::layout::Layout;
use crate::overlay::stock::Distribution;
use holo_change::claims::Leaving;
use holo_change::error::{PathError, Result as PathResult};
use holo_change::tracked::Unmanaged;
use holo_change::{Image, PathHandle, Stamp, Tree, Unmanageable};
use holo_plugin::{Applied, Host, Output, Verdict, edited};
use std::io;
use std::path::Path;

/// Prepares the change of an orphan. Prints errors.
pub(crate) fn prepare(
    entity: &FileEntity,
    (layout, distribution): (&Layout, &Distribution),
    output: &mut Output<'_>,
    change: &mut Change,
) {
    let prepared = match layout.images.target(&entity.path).is_file_or_symlink() {
        Ok(true) => restore(entity, (layout, distribution), output, change),
        Ok(false) => delete(entity, (layout, distribution), output, change),
        Err(error) => Err(error.into()),
    };
    match prepared {
        Ok(done) => change.outcome(Applied::ChangedQuietly(vec![done.words(entity, "restored", "forgot")])),
        Err(error) => {
            output.error(format!("skipping target: {error}"));
            change.files.abandon_target(&layout.images);
            change.files.keep_leftovers();
            change.outcome(FAILED);
        }
    }
}

/// Returns the effect of scrubbing an orphan.
pub(crate) fn check(
    entity: &FileEntity,
    layout: &Layout,
    distribution: &Distribution,
) -> Result<Verdict, Unmanageable> {
    let target = layout.images.target(&entity.path);
    let done = if target.is_file_or_symlink()? {
        let (original, current) = match distribution.peek(&target, entity.host(), false)? {
            Some((stock, current)) => (stock, current),
            None => (layout.images.base(&entity.path), target),
        };
        match Image::load(&original)? {
            Some(original) => Scrubbed::by(to_be_restored(original, Image::load(&current)?)?.as_ref()),
            None => Scrubbed::AsItWas,
        }
    } else {
        Scrubbed::Gone
    };
    Ok(Verdict::WouldChange(vec![format!("would {}", done.words(entity, "restore", "forget"))]))
}

/// Returns the targets of orphans with the files that they get, for the checks of other entities.
pub(crate) fn all_restored<'e>(orphans: impl Iterator<Item = &'e FileEntity>, host: &Host) -> PathResult<Leaving> {
    let distribution = Distribution::of(host.system().os_release());
    let root = Tree::open(host.root())?;
    let restored = |entity: &FileEntity| {
        let target = root.place(&entity.path);
        let path = |place: &PathHandle| Path::new("/").join(place.path());
        let file = match entity.target_exists {
            true => distribution.peek(&target, host, false)?.map(|(stock, _)| path(&stock)),
            false => Some(path(&target)),
        };
        Ok((entity.path.clone(), file))
    };
    orphans.map(restored).collect()
}

/// The result of scrubbing.
#[derive(Clone, Copy)]
enum Scrubbed {
    Restored,
    AsItWas,
    Gone,
}

impl Scrubbed {
    fn by(restored: Option<&Image>) -> Scrubbed {
        if restored.is_some() { Scrubbed::Restored } else { Scrubbed::AsItWas }
    }

    fn words(self, entity: &FileEntity, restore: &str, forget: &str) -> String {
        match self {
            Scrubbed::Restored => format!("{restore} {}", entity.shown_target().display()),
            Scrubbed::AsItWas => format!("{forget} file:{}, which is in its original state", entity.path.display()),
            Scrubbed::Gone => format!("{forget} file:{}, which is gone", entity.path.display()),
        }
    }
}

/// Restores an existing target to its base, or to the new stock file next to it.
fn restore(
    entity: &FileEntity,
    (layout, distribution): (&Layout, &Distribution),
    output: &mut Output<'_>,
    change: &mut Change,
) -> Result<Scrubbed, Unmanageable> {
    let target = layout.images.target(&entity.path);
    let base = layout.images.base(&entity.path);
    let mut base_stamp = None;
    let original = match distribution.find_stock(&target, entity.host(), output)? {
        Some(stock) => {
            let shown = entity.shown_target();
            output.print(format!(">> found updated target base: {} -> {}\n", stock.reported, shown.display()));
            let image = Image::load(&stock.place)?.ok_or(Unmanageable::WrongType)?;
            // The stock file is also the base until both are removed: a crash must not leave only the old one.
            change.files.stage_base(&image, &layout.images)?;
            change.files.removes(stock.place);
            image
        }
        None => {
            let Some(stamp) = Stamp::of(&base)? else {
                // A killed apply has already restored it.
                change.files.forget_target();
                return Ok(Scrubbed::AsItWas);
            };
            base_stamp = Some(stamp);
            stamp.image(&base)?
        }
    };
    let stamp = Stamp::of(&target)?;
    let current = stamp.map(|stamp| stamp.image(&target)).transpose()?;
    let before = current.clone();
    let restored = to_be_restored(original, current)?;
    if let Some(restored) = &restored {
        if !entity.is_sensitive() {
            let before = || before.as_ref().map(crate::overlay::preview::shown_if_small).transpose();
            entity.host().keep_replaced(&entity.path, before, output);
        }
        let provisioned = Image::load(&layout.images.provisioned(&entity.path))?;
        let is_made = |before: &Image| provisioned.map_or(Ok(false), |provisioned| before.equals(&provisioned));
        // As in version 3, no force is needed to overwrite what a person has changed. The history of the run is written too late for a kill.
        if let Some(before) = &before
            && !is_made(before)?
        {
            let kept = entity.host().keep_edited(entity.id(), &entity.path, &target, entity.is_sensitive());
            let failed = |error: Unmanaged| PathError::new("keep", target.shown(), io::Error::other(error));
            kept.map_err(failed)?;
            if entity.is_sensitive() {
                output.print(format!(">> {}\n", edited::kept(&entity.shown_target())));
            }
        }
        let stamps = base_stamp.as_ref().zip(stamp.as_ref());
        let can_move = |(base, target)| change.files.restore_base(base, target, &layout.images);
        if !stamps.map_or(Ok(false), can_move)? {
            change.files.stage_target(restored, &layout.images)?;
        }
    }
    change.files.forget_target();
    Ok(Scrubbed::by(restored.as_ref()))
}

/// Returns the image that has to replace the target, or `None` if they are equal.
fn to_be_restored(original: Image, current: Option<Image>) -> Result<Option<Image>, Unmanageable> {
    let Some(current) = current else { return Ok(Some(original)) };
    // Attributes that could not be stored with the base are not changed.
    let original = if original.may_lack_acl() { original.in_place_of(&current)? } else { original };
    let is_restored = current.equals(&original)? && (current.is_symlink() || current.has_attributes_of(&original)?);
    Ok((!is_restored).then_some(original))
}

/// Removes the images of a missing target, and the copies that the removal of its package has left.
fn delete(
    entity: &FileEntity,
    (layout, distribution): (&Layout, &Distribution),
    output: &mut Output<'_>,
    change: &mut Change,
) -> Result<Scrubbed, Unmanageable> {
    let provisioned = Image::load(&layout.images.provisioned(&entity.path))?;
    for copy in distribution.saved_copies(&layout.images.target(&entity.path), provisioned.as_ref())? {
        output.print(format!(">> also deleting {}\n", copy.shown().display()));
        change.files.removes(copy);
    }
    change.files.forget_target();
    Ok(Scrubbed::Gone)
}
