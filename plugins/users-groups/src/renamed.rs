//! The names under which accounts were known before they took over from others: the first one is that from before us.
//!
//! An image has the name that its account has now, as version 3 reads it too; so what it was called is kept beside.

use crate::account::AccountId;
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::error::Result;
use holo_plugin::{EntityReport, Host, Output};
use std::collections::BTreeMap;
use std::path::Path;

/// In the state directory, of which version 3 knows the rest.
const FOLDER: &str = ".renamed";

fn memory(host: &Host) -> Result<BaseStore> {
    BaseStore::open_in(host.locations(), Path::new(FOLDER))
}

/// Remembers the names of an account, the first one first; its own may be among them.
pub(crate) fn remember(host: &Host, id: &AccountId, names: &[String]) -> Result<()> {
    memory(host)?.keep(&Remembered::new(&EntityReport::new(id.to_string()), names.to_vec()))
}

/// All accounts that were known by other names, with these. What cannot be read is said.
pub(crate) fn all(host: &Host, output: &mut Output<'_>) -> Result<BTreeMap<AccountId, Vec<String>>> {
    let all = memory(host)?.all::<Vec<String>>(output)?;
    Ok(all.into_iter().filter_map(|(id, remembered)| Some((AccountId::parse(&id)?, remembered.base))).collect())
}

/// Forgets the names of an account.
pub(crate) fn forget(host: &Host, id: &AccountId) -> Result<()> {
    memory(host)?.forget(&id.to_string())
}
