//! Check: what an apply would do.

use crate::overlay::context::Context;
use crate::overlay::desired::{self};
use crate::overlay::entity::FileEntity;
use crate::overlay::layout::{EvaluationError, Layout};
use crate::overlay::preparation::{BufferedOutput, Indexed};
use crate::overlay::provision::{is_ours, validate};
use crate::overlay::stock::Distribution;
use crate::overlay::{scan, scrub};
use holo_change::{Image, Unmanageable};
use holo_plugin::{ForceTo, Host, Job, Mode, Output, Verdict, edited};

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
/// together.
pub(crate) fn check_many(host: &Host, set: &[Job<'_, FileEntity>]) -> Vec<Option<Checked>> {
    let Ok(context) = Context::open_to_look(host) else {
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
        let beside = (layout, &context.distribution);
        let check =
            |said: &mut BufferedOutput| check_in(entity, job.mode, beside, Target::Found, &mut Output::new(said));
        is_plain.then(|| check(&mut said)).map(|verdict| Checked { verdict, said })
    })
}

type FileJob<'a, 'e> = &'a Job<'e, FileEntity>;

/// The target at the time of the apply.
pub(crate) enum Target {
    /// It is as it is.
    Found,
    /// Another entity restores this image first, or removes the target.
    Restored(Option<Image>),
}

/// Checks one entity. Prints errors.
pub(crate) fn check(
    entity: &FileEntity,
    (host, mode): (&Host, Mode<'_>),
    target: Target,
    output: &mut Output<'_>,
) -> Verdict {
    let distribution = Distribution::of(host.system().os_release());
    match Layout::open(host) {
        Ok(layout) => check_in(entity, mode, (&layout, &distribution), target, output),
        Err(error) => failed(error.into(), output),
    }
}

fn check_in(
    entity: &FileEntity,
    mode: Mode<'_>,
    beside: (&Layout, &Distribution),
    target: Target,
    output: &mut Output<'_>,
) -> Verdict {
    try_check(entity, mode, beside, target, output).unwrap_or_else(|error| failed(error, output))
}

pub(crate) fn failed(EvaluationError(reason): EvaluationError, output: &mut Output<'_>) -> Verdict {
    output.error(reason);
    Verdict::Failed
}

fn try_check(
    entity: &FileEntity,
    mode: Mode<'_>,
    (layout, distribution): (&Layout, &Distribution),
    at_apply: Target,
    output: &mut Output<'_>,
) -> Result<Verdict, EvaluationError> {
    let target = layout.images.target(&entity.path);
    let shown = target.shown().display().to_string();
    if entity.is_orphan() {
        return Ok(scrub::check(entity, layout, distribution)?);
    }
    // For an unknown distribution, an apply prints a warning, and no files next to the target are considered.
    let is_restored = matches!(at_apply, Target::Restored(Some(_)));
    let waiting = distribution.peek(&target, entity.host(), is_restored)?;
    // The package manager has saved what was there, and the target itself is the new version.
    let is_swapped = waiting.as_ref().is_some_and(|(stock, _)| stock.path() == target.path());
    let mut restored_stock = None;
    let target = waiting.as_ref().map_or(&target, |(_, current)| current);
    let known_base = Image::load(&layout.images.base(&entity.path))?;
    let current = match at_apply {
        Target::Found => {
            if known_base.is_none() {
                layout.reject_edited(entity)?;
            }
            Image::load(target)?
        }
        Target::Restored(Some(restored)) if is_swapped => {
            restored_stock = Some(restored);
            Image::load(target)?
        }
        Target::Restored(image) => image,
    };
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
    let base = match (restored_stock, &waiting) {
        (Some(restored), _) => restored,
        (None, Some((stock, _))) => Image::load(stock)?.ok_or(Unmanageable::WrongType)?,
        (None, None) => base,
    };
    // An apply that was killed after writing the target left its intent, and the next apply records it.
    let provisioned = match Image::load(&layout.images.intent(&entity.path))? {
        Some(intent) if current.equals(&intent)? => Some(intent),
        _ => Image::load(&layout.images.provisioned(&entity.path))?,
    };
    let desired = desired::evaluate(entity, &base, layout, output)?;
    let is_desired = current.equals(&desired.image);
    let before = provisioned.as_ref().unwrap_or(&base);
    let keeps_changes = desired::keeps_changes(entity, before, &current, &desired.image);
    let is_adopted = unpatched.is_some() && provisioned.is_none();
    let validated = match (&is_desired, entity.validation()) {
        (Ok(false), Some(validation)) => validate(entity, validation, &desired.image, output),
        _ => Ok(()),
    };
    desired.clean_up();
    unpatched.into_iter().for_each(|before| drop(before.place.remove()));
    let is_desired = is_desired?;
    let mut changes = Vec::new();
    if waiting.is_some() {
        changes.push(format!("would use the new version next to {shown} as its base"));
    }
    if !is_desired {
        if !is_adopted && !is_ours(&current, provisioned.as_ref(), &base)? && !keeps_changes? {
            if !mode.overwrites() {
                return Ok(Verdict::NeedsForce(ForceTo::Overwrite));
            }
            changes.push(edited::would_keep(&entity.shown_target()));
        }
        validated?;
        let exposure = entity.exposure(desired.image.mode);
        exposure.into_iter().for_each(|warning| output.warning(warning));
        changes.push(format!("would write {shown}"));
    }
    Ok(if changes.is_empty() { Verdict::InDesiredState } else { Verdict::WouldChange(changes) })
}
