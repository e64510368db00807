//! The difference between the desired and the actual account, as two files.

use crate::account::Account;
use crate::entity::AccountEntity;
use crate::error::AccountError;
use crate::images::{Images, to_text};
use crate::state::Current;
use holo_change::error::PathError;
use holo_plugin::{FilePair, Host};
use std::fs;

/// Writes both files. The file of an account that does not exist is missing.
pub(crate) fn diff(entity: &AccountEntity, host: &Host) -> Result<FilePair, AccountError> {
    let folder = host.cache_dir().join(entity.id.to_string());
    fs::create_dir_all(&folder).map_err(|error| PathError::new("mkdir", &folder, error))?;
    let Current { actual, provisioned, .. } = entity.current(host, &Images::open(host)?)?;
    let bare = || Account::bare(entity.id.clone());
    let mut desired = entity.definition.as_ref().map_or_else(bare, |definition| definition.account.clone());
    if let Some(known) = provisioned.as_ref().or(actual.as_ref()) {
        desired.unite_with(known);
    }
    desired.sort_groups();
    let pair = FilePair::new(folder.join("desired.toml"), folder.join("actual.toml"));
    for (path, account) in [(&pair.from, Some(&desired)), (&pair.to, actual.as_ref())] {
        // The file may be left from an earlier diff of this run.
        let written = match account {
            Some(account) => fs::write(path, to_text(account)),
            None if path.exists() => fs::remove_file(path),
            None => Ok(()),
        };
        written.map_err(|error| PathError::new("write", path, error))?;
    }
    Ok(pair)
}
