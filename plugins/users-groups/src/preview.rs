//! Previews: the account before and after an apply.

use crate::account::Account;
use crate::entity::AccountEntity;
use crate::error::AccountError;
use crate::images::{Images, to_text};
use crate::plan::{self, Scrubbing, Step};
use holo_change::error::PathError;
use holo_plugin::{FilePair, Host, Preview, Shown};
use std::path::Path;

/// Returns the two files if they differ. The file of an account that does not exist is missing.
pub(crate) fn preview(entity: &AccountEntity, host: &Host) -> Result<Option<FilePair>, AccountError> {
    let images = Images::open(host)?;
    let actual = entity.actual(host)?;
    let Some(wanted) = wanted(entity, host, &images, actual.as_ref())? else { return Ok(None) };
    let id = entity.id.to_string();
    let failed = |error| PathError::new("write", host.cache_dir(), error);
    let preview = Preview::new(host, id.as_bytes()).map_err(failed)?;
    let below = Path::new("account.toml");
    for (path, account) in [(preview.from(below), actual), (preview.to(below), wanted)] {
        if let Some(account) = account {
            let content = to_text(&account).into();
            Shown::File { content, mode: 0 }.write(&path).map_err(failed)?;
        }
    }
    Ok(Some(preview.pair(below, Path::new(&id))))
}

/// Returns the account after an apply, which may be missing, or `None` if nothing would change.
fn wanted(
    entity: &AccountEntity,
    host: &Host,
    images: &Images,
    actual: Option<&Account>,
) -> Result<Option<Option<Account>>, AccountError> {
    let provider = entity.shared.provider;
    let Some(definition) = &entity.definition else {
        let base = entity.base_of_orphan(host, images)?.unwrap_or_else(|| Account::bare(entity.id.clone()));
        return Ok(match plan::scrubbing(provider, &base, actual) {
            Scrubbing::Run(_, wanted) => Some(wanted),
            Scrubbing::Forget | Scrubbing::Refuse(_) => None,
        });
    };
    let state = entity.state(host, images)?;
    Ok(match plan::step(provider, definition, state.plan_input(), true) {
        Step::Run(_, mut wanted) => {
            if let Some(predecessor) = &state.predecessor
                && entity.own_group_renamed(host, images, predecessor, &state.base)?.is_some()
            {
                wanted.group = Some(wanted.id.name.clone());
            }
            Some(Some(wanted))
        }
        Step::Keep(_) | Step::Refuse(_) => None,
    })
}
