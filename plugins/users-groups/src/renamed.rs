//! The former names of accounts that took over from others. The first one is the original name.
//!
//! An image has the current name of its account, as version 3 reads it too. Therefore former names are stored separately.

use crate::account::AccountId;
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::error::Result;
use holo_plugin::{EntityReport, Host, Output};
use std::collections::BTreeMap;

fn memory(host: &Host) -> BaseStore {
    BaseStore::open_kind(host.locations(), "renamed")
}

/// Stores the names of an account, the original one first. They may include its current name.
pub(crate) fn remember(host: &Host, id: &AccountId, names: &[String]) -> Result<()> {
    memory(host).keep(&Remembered::new(&EntityReport::new(id.to_string()), names.to_vec()))
}

/// Returns the former names of all renamed accounts. Prints warnings for unreadable files.
pub(crate) fn all(host: &Host, output: &mut Output<'_>) -> Result<BTreeMap<AccountId, Vec<String>>> {
    let all = memory(host).all::<Vec<String>>(output)?;
    Ok(all.into_iter().filter_map(|(id, remembered)| Some((AccountId::parse(&id)?, remembered.base))).collect())
}

/// Removes the names of an account.
pub(crate) fn forget(host: &Host, id: &AccountId) -> Result<()> {
    memory(host).forget(&id.to_string())
}
