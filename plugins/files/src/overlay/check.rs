//! Checking: finding out what an apply would do, without changing anything.

use crate::overlay::context::Context;
use crate::overlay::desired;
use crate::overlay::distribution::Distribution;
use crate::overlay::entity::FileEntity;
use crate::overlay::evaluation::EvaluationError;
use crate::overlay::hint;
use crate::overlay::layout::Layout;
use crate::overlay::patch;
use crate::overlay::preparation::{Indexed, Said};
use crate::overlay::provision::is_ours;
use crate::overlay::scrub;
use holo_change::{Image, Unmanageable};
use holo_plugin::{ForceTo, Host, Job, Output, Verdict};

/// The effect of applying an entity that was looked at with others, and the output about it.
pub(crate) struct Checked {
    verdict: Verdict,
    said: Said,
}

impl Checked {
    /// Says what there was to say, and returns the effect.
    pub(crate) fn tell(self, output: &mut Output<'_>) -> Verdict {
        self.said.repeat(output);
        self.verdict
    }
}

/// Returns the effect of applying each of many entities; `None` where a program or template has a part in it, or for all if they cannot be
/// looked at together. With records, what is known from earlier applies to be unchanged is not read again.
pub(crate) fn check_many(host: &Host, set: &[Job<'_, FileEntity>], records: bool) -> Vec<Option<Checked>> {
    let Ok(mut context) = Context::open_to_look(host, records) else {
        return set.iter().map(|_| None).collect();
    };
    let jobs: Vec<Indexed<'_, '_>> = set.iter().enumerate().collect();
    let seen: Vec<(FileJob<'_, '_>, bool)> = set.iter().zip(context.find_unchanged(&jobs)).collect();
    context.in_shares(&seen, |&(job, is_unchanged), layout| {
        let entity = job.entity;
        if is_unchanged {
            return Some(Checked { verdict: Verdict::InDesiredState, said: Said::default() });
        }
        let mut said = Said::default();
        let is_plain = entity.is_orphan() || entity.deciding_resources().is_some();
        let check = |said: &mut Said| check_in(entity, (layout, &context.distribution), &mut Output::new(said));
        is_plain.then(|| check(&mut said)).map(|verdict| Checked { verdict, said })
    })
}

type FileJob<'a, 'e> = &'a Job<'e, FileEntity>;

/// Returns the effect of applying the entity. Errors are said on `output`.
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
    // If the package manager is unknown, an apply says so; there is nothing to be found beside the target.
    let waiting = distribution.peek(&target)?;
    let target = waiting.as_ref().map_or(&target, |(_, current)| current);
    let current = Image::load(target)?;
    let known_base = Image::load(&layout.images.base(&entity.path))?;
    let unpatched = match (&known_base, &current) {
        (None, Some(current)) => patch::unpatched(entity, current, layout)?,
        _ => None,
    };
    let before = unpatched.as_ref().map(|before| before.image.clone());
    let Some(base) = known_base.or(before).or_else(|| current.clone()) else {
        output.error(EvaluationError::from(Unmanageable::WrongType).0);
        hint::missing_target(entity, output);
        return Ok(Verdict::Failed);
    };
    let Some(current) = current else { return Ok(Verdict::NeedsForce(ForceTo::Restore)) };
    let base = match &waiting {
        Some((stock, _)) => Image::load(stock)?.ok_or(Unmanageable::WrongType)?,
        None => base,
    };
    // An apply that was killed may have come as far as its intent; the next one takes it from there.
    let intent = Image::load(&layout.images.intent(&entity.path))?;
    if intent.map_or(Ok(false), |intent| current.equals(&intent))? {
        return would(format!("would record what an interrupted apply has made of {shown}"));
    }
    let provisioned = Image::load(&layout.images.provisioned(&entity.path))?;
    let desired = desired::evaluate(entity, &base, layout, output)?;
    let is_desired = current.equals(&desired.image);
    let before = provisioned.as_ref().unwrap_or(&base);
    let keeps_changes = patch::keeps_changes(entity, before, &current, &desired.image);
    desired.clean_up();
    unpatched.into_iter().for_each(|before| drop(before.place.remove()));
    let is_desired = is_desired?;
    let mut changes = Vec::new();
    if waiting.is_some() {
        changes.push(format!("would take the new version beside {shown} as its base"));
    }
    if !is_desired {
        if !is_ours(&current, provisioned.as_ref(), &base)? && !keeps_changes? {
            return Ok(Verdict::NeedsForce(ForceTo::Overwrite));
        }
        changes.push(format!("would write {shown}"));
    }
    Ok(if changes.is_empty() { Verdict::InDesiredState } else { Verdict::WouldChange(changes) })
}
