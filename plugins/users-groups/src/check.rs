//! Check: what an apply would do.

use crate::account::Account;
use crate::entity::AccountEntity;
use crate::error::AccountError;
use crate::images::Images;
use crate::plan::{self, Scrubbing, Step};
use holo_plugin::{Host, Output, Verdict};

/// Returns the changes that an apply of the entity would make. Prints errors.
pub(crate) fn check(entity: &AccountEntity, host: &Host, output: &mut Output<'_>) -> Verdict {
    try_check(entity, host).unwrap_or_else(|AccountError(reason)| {
        output.error(reason);
        Verdict::Failed
    })
}

fn try_check(entity: &AccountEntity, host: &Host) -> Result<Verdict, AccountError> {
    let id = &entity.id;
    let images = Images::open(host)?;
    let would = |what: String| Ok(Verdict::WouldChange(vec![what]));
    let Some(definition) = &entity.definition else {
        let (base, actual) = (entity.base_of_orphan(host, &images)?, entity.actual(host)?);
        let base = base.unwrap_or_else(|| Account::bare(id.clone()));
        return match plan::scrubbing(entity.shared.provider, &base, actual.as_ref()) {
            Scrubbing::Run(command, _) => would(format!("would run {command}")),
            Scrubbing::Refuse(reason) => Err(format!("will not delete {id}: {reason}").into()),
            Scrubbing::Forget if actual.is_none() => would(format!("would forget {id}, which is gone")),
            Scrubbing::Forget => would(format!("would forget {id}, which is in its original state")),
        };
    };
    let found = entity.state(host, &images)?;
    match plan::step(entity.shared.provider, definition, found.plan_input(), false) {
        Step::Refuse(to) => Ok(Verdict::NeedsForce(to)),
        Step::Keep(_) => Ok(Verdict::InDesiredState),
        Step::Run(command, _) => {
            let renames = match &found.predecessor {
                Some(predecessor) => entity.own_group_renamed(host, &images, predecessor, &found.base)?,
                None => None,
            };
            let commands = [command].into_iter().chain(renames);
            Ok(Verdict::WouldChange(commands.map(|command| format!("would run {command}")).collect()))
        }
    }
}
