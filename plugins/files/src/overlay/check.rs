//! Checking: finding out what an apply would do, without changing anything.

use crate::overlay::desired::{self, EvaluationError};
use crate::overlay::distribution::Distribution;
use crate::overlay::entity::FileEntity;
use crate::overlay::hint;
use crate::overlay::layout::Layout;
use crate::overlay::provision::is_ours;
use crate::overlay::scrub;
use holo_change::{Image, Unmanageable};
use holo_plugin::{ForceTo, Host, Output, Verdict};

/// Returns the effect of applying the entity. Errors are said on `output`.
pub(crate) fn check(entity: &FileEntity, host: &Host, output: &mut Output<'_>) -> Verdict {
    try_check(entity, host, output).unwrap_or_else(|EvaluationError(reason)| {
        output.error(reason);
        Verdict::Failed
    })
}

fn try_check(entity: &FileEntity, host: &Host, output: &mut Output<'_>) -> Result<Verdict, EvaluationError> {
    let layout = Layout::open(host)?;
    let target = layout.images.target(&entity.path);
    let shown = target.shown().display().to_string();
    let would = |what: String| Ok(Verdict::WouldChange(vec![what]));
    // If the package manager is unknown, an apply says so; there is nothing to be found beside the target.
    let distribution = Distribution::of(host.system().os_release());
    if entity.is_orphan() {
        return Ok(scrub::check(entity, &layout, &distribution)?);
    }
    let waiting = distribution.peek(&target)?;
    let target = waiting.as_ref().map_or(&target, |(_, current)| current);
    let current = Image::load(target)?;
    let known_base = Image::load(&layout.images.base(&entity.path))?;
    let Some(base) = known_base.or_else(|| current.clone()) else {
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
    let desired = desired::evaluate(entity, &base, &layout, output)?;
    let is_desired = current.equals(&desired.image);
    desired.clean_up();
    let is_desired = is_desired?;
    let mut changes = Vec::new();
    if waiting.is_some() {
        changes.push(format!("would take the new version beside {shown} as its base"));
    }
    if !is_desired {
        if !is_ours(&current, provisioned.as_ref(), &base)? {
            return Ok(Verdict::NeedsForce(ForceTo::Overwrite));
        }
        changes.push(format!("would write {shown}"));
    }
    Ok(if changes.is_empty() { Verdict::InDesiredState } else { Verdict::WouldChange(changes) })
}
