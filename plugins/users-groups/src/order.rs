//! The entities that precede an account by its definitions, stored for its scrubbing, which has to come before them.

use crate::account::AccountId;
use bstr::BString;
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::error::Result;
use holo_plugin::{EntityReport, Host};

fn memory(host: &Host) -> BaseStore {
    BaseStore::open_kind(host.locations(), "order")
}

/// Stores the entities that precede the account.
pub(crate) fn remember(host: &Host, id: &AccountId, after: &[BString]) -> Result<()> {
    if after.is_empty() {
        return forget(host, id);
    }
    let mut report = EntityReport::new(id.to_string());
    report.edges.after = after.into();
    let (memory, remembered) = (memory(host), Remembered::new(&report, ()));
    let known = memory.recall(&remembered.id)?;
    if known.as_ref() == Some(&remembered) { Ok(()) } else { memory.keep(&remembered) }
}

/// Returns the stored entities that preceded the account.
pub(crate) fn recall(host: &Host, id: &AccountId) -> Result<Vec<BString>> {
    let remembered = memory(host).recall::<()>(&id.to_string())?;
    Ok(remembered.map(|remembered| remembered.orphan_report().edges.after.into()).unwrap_or_default())
}

/// Removes the stored entities.
pub(crate) fn forget(host: &Host, id: &AccountId) -> Result<()> {
    memory(host).forget(&id.to_string())
}
