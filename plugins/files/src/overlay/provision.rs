//! Provisions the target of an entity with resource files.

use crate::overlay::change::{Change, FAILED, FAILED_UNCHANGED, force_to};
use crate::overlay::entity::{FileEntity, Kind};
use crate::overlay::layout::{EvaluationError, Layout, read};
use crate::overlay::stock::{Distribution, Stock};
use crate::overlay::{desired, scan};
use holo_change::tracked::Unmanaged;
use holo_change::{Image, PathHandle, Stamp, Unmanageable};
use holo_plugin::{Applied, ForceTo, Mode, Output, Silence, Validation, ValidationError, edited};

/// Returns true if the entity certainly needs no change. Neither changes nor prints anything. All other cases, including errors, are left to
/// [`prepare`].
pub(crate) fn is_unchanged(entity: &FileEntity, layout: &Layout, distribution: &Distribution) -> bool {
    find_unchanged(entity, layout, distribution).unwrap_or(false)
}

fn find_unchanged(entity: &FileEntity, layout: &Layout, distribution: &Distribution) -> Option<bool> {
    // The output of a program is unknown until it has run.
    let deciding = entity.deciding_resources()?;
    let target = layout.images.target(&entity.path);
    // An entity that was never applied has no base, which is cheap to detect.
    let base = layout.images.base(&entity.path);
    let base_stamp = Stamp::of(&base).ok()??;
    if !distribution.leaves_alone(&target).ok()? {
        return None;
    }
    let provisioned = layout.images.provisioned(&entity.path);
    let wanted: Vec<PathHandle> = deciding.iter().map(|resource| layout.resource(resource)).collect();
    let stamp = |place: &PathHandle| Stamp::of(place).ok()?;
    let mut stamps = vec![stamp(&target)?, base_stamp, stamp(&provisioned)?];
    for place in &wanted {
        stamps.push(stamp(place)?);
    }
    let places = [&target, &base, &provisioned].into_iter().chain(&wanted);
    let images = stamps.iter().zip(places).map(|(stamp, place)| stamp.image(place).ok()).collect::<Option<Vec<_>>>()?;
    let (first, wanted) = images.split_first_chunk::<3>()?;
    let [current, base, provisioned] = first;
    Some(match wanted {
        [wanted] if deciding.first()?.kind == Kind::Plain => {
            desired::laid_over(base, wanted.content.clone()).equals_all(&[current, provisioned]).ok()?
        }
        // A patch that is a symlink is followed.
        patched if patched.iter().any(Image::is_symlink) => return None,
        _ => {
            let desired = desired::evaluate(entity, base, layout, &mut Output::new(&mut Silence)).ok()?;
            let is_unchanged = desired.image.equals_all(&[current, provisioned]);
            desired.clean_up();
            is_unchanged.ok()?
        }
    })
}

/// Prepares the change of an entity. Prints errors; even after an error, the base is kept.
pub(crate) fn prepare(
    entity: &FileEntity,
    mode: Mode<'_>,
    (layout, distribution): (&Layout, &Distribution),
    output: &mut Output<'_>,
    change: &mut Change,
) {
    let mut prepared = try_prepare(entity, mode, (layout, distribution), output, change);
    if prepared.is_err() {
        change.files.abandon_target(&layout.images);
    }
    if let Err(error) = change.files.copy_shared_base(&layout.images) {
        prepared = Err(error.into());
    }
    match prepared {
        Ok(outcome) => change.outcome(outcome),
        Err(EvaluationError(reason)) => {
            output.error(reason);
            change.outcome(if change.consequences.may_have_moved_stock { FAILED } else { FAILED_UNCHANGED });
        }
    }
}

fn try_prepare(
    entity: &FileEntity,
    mode: Mode<'_>,
    (layout, distribution): (&Layout, &Distribution),
    output: &mut Output<'_>,
    change: &mut Change,
) -> Result<Applied, EvaluationError> {
    let target = layout.images.target(&entity.path);
    change.consequences.may_have_moved_stock = true;
    let stock = distribution.find_stock(&target, entity.host(), output)?;
    change.consequences.may_have_moved_stock = stock.is_some();
    let stamp = Stamp::of(&target)?;
    let current = stamp.map(|stamp| stamp.image(&target)).transpose()?;
    let known_base = match Image::load(&layout.images.base(&entity.path))? {
        // A crash may have left the target as a hard link of its base, in which case the base has not been stored yet.
        Some(_) if target.is_same_file(&layout.images.base(&entity.path))? => None,
        base => base,
    };
    let provisioned = Image::load(&layout.images.provisioned(&entity.path))?;
    if known_base.is_none() {
        layout.reject_edited(entity)?;
    }

    // What a person has changed is in the patches that were adopted from it.
    let mut is_adopted = false;
    let found_base = match (known_base, current.as_ref().zip(stamp)) {
        (Some(base), _) => base,
        (None, Some((current, stamp))) => match desired::unpatched(entity, current, layout)? {
            Some(before) => {
                is_adopted = provisioned.is_none();
                change.consequences.scratch.push(before.place);
                change.files.stage_base(&before.image, &layout.images)?;
                before.image
            }
            None => {
                change.files.stage_found_base(current, &stamp, &layout.images)?;
                current.clone()
            }
        },
        (None, None) => {
            output.error(EvaluationError::from(Unmanageable::WrongType).0);
            scan::missing_target(entity, output);
            return Ok(FAILED_UNCHANGED);
        }
    };
    if !mode.force {
        change.files.replaces_only(stamp);
    }
    if current.is_none() && !mode.force {
        return Ok(Applied::NeedsForce(ForceTo::Restore));
    }
    let mut changes = Vec::new();
    let base = match stock {
        Some(stock) => {
            changes.push(format!("used the new version next to {} as its base", entity.shown_target().display()));
            take_stock(stock, entity, layout, output, change)?
        }
        None => found_base,
    };

    let desired = desired::evaluate(entity, &base, layout, output)?;
    change.consequences.scratch.extend(desired.scratch);
    let desired = desired.image;
    if let Some(validation) = entity.validation().filter(|_| !equals(current.as_ref(), &desired).unwrap_or(false)) {
        validate(entity, validation, &desired, output)?;
    }
    let current = if entity.runs_programs() {
        // Programs can take any time, and the target may have been saved meanwhile.
        if let Some(meanwhile) = change.files.meanwhile(&target)? {
            return Ok(Applied::NeedsForce(force_to(meanwhile)));
        }
        Image::load(&target)?
    } else {
        current
    };
    let is_recorded = equals(provisioned.as_ref(), &desired)?;
    let is_desired = equals(current.as_ref(), &desired)?;
    if let Some(current) = &current
        && !is_desired
        && !is_adopted
        && !is_ours(current, provisioned.as_ref(), &base)?
        && !desired::keeps_changes(entity, provisioned.as_ref().unwrap_or(&base), current, &desired)?
    {
        if !mode.overwrites() {
            return Ok(Applied::NeedsForce(ForceTo::Overwrite));
        }
        // If the target is saved again from now on, it differs from the stamp, and is not replaced.
        match entity.host().keep_edited(entity.id(), &entity.path, &target, entity.is_sensitive()) {
            Err(Unmanaged::Meanwhile(_)) => return Ok(Applied::NeedsForce(ForceTo::Overwrite)),
            kept => kept.map_err(|error| EvaluationError(format!("skipping target: {error}")))?,
        };
        changes.push(edited::kept(&entity.shown_target()));
    }
    let unchanged = |changes: Vec<String>| match changes.is_empty() {
        true => Applied::Unchanged,
        false => Applied::ChangedQuietly(changes),
    };
    if is_desired && is_recorded {
        return Ok(unchanged(changes));
    }
    let desired = match &current {
        Some(current) => desired.in_place_of(current)?,
        None => desired,
    };
    if is_desired {
        change.files.stage_provisioned(&desired, &layout.images)?;
        return Ok(unchanged(changes));
    }
    let exposure = entity.exposure(desired.mode);
    exposure.into_iter().for_each(|warning| output.warning(warning));
    change.files.stage_target(&desired, &layout.images)?;
    if !entity.is_sensitive() {
        entity.host().keep_replaced(
            &entity.path,
            || current.as_ref().map(crate::overlay::preview::shown_if_small).transpose(),
            output,
        );
    }
    changes.push(format!("wrote {}", entity.shown_target().display()));
    Ok(Applied::ChangedQuietly(changes))
}

/// Runs the validation program on the desired content.
pub(super) fn validate(
    entity: &FileEntity,
    validation: Validation<'_>,
    desired: &Image,
    output: &mut Output<'_>,
) -> Result<(), EvaluationError> {
    let skipping = |reason: String| EvaluationError(format!("skipping target: {reason}"));
    let Some(content) = read(desired)? else {
        return Err(skipping("it would be a symlink, which cannot be validated".to_owned()));
    };
    validation.run(&entity.path, &content, entity.host(), output).map_err(|ValidationError(reason)| skipping(reason))
}

/// Makes a new stock file the base.
fn take_stock(
    stock: Stock,
    entity: &FileEntity,
    layout: &Layout,
    output: &mut Output<'_>,
    change: &mut Change,
) -> Result<Image, EvaluationError> {
    let image = Image::load(&stock.place)?.ok_or(Unmanageable::WrongType)?;
    change.files.stage_base(&image, &layout.images)?;
    let base = entity.shown_base();
    output.print(format!(">> found updated target base: {} -> {}\n", stock.reported, base.display()));
    change.files.removes(stock.place);
    Ok(image)
}

/// Returns true if the target equals the provisioned image or, if it was never provisioned, its base. Then it has no manual changes.
pub(crate) fn is_ours(current: &Image, provisioned: Option<&Image>, base: &Image) -> Result<bool, EvaluationError> {
    Ok(current.equals(provisioned.unwrap_or(base))?)
}

fn equals(image: Option<&Image>, other: &Image) -> Result<bool, EvaluationError> {
    image.map_or(Ok(false), |image| Ok(image.equals(other)?))
}
