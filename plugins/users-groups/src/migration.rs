//! The migration of the state file of the first versions to images.

use crate::account::{Account, AccountId};
use crate::images::{Images, Moment};
use crate::state_file;
use holo_change::error::PathError;
use holo_plugin::{Host, Output};
use std::fs;

/// Migrates the state file, if it exists. After an error, which is printed, the file stays for the next run.
///
/// A read-only run keeps the file as well, and [`Images`] behave as if it had been migrated.
pub(crate) fn migrate(host: &Host, output: &mut Output<'_>) {
    let Some(ids) = state_file::read(host).transpose() else { return };
    let path = state_file::path(host);
    let shown = path.display();
    if host.only_reads() {
        match ids {
            Ok(_) => output.warning(format!("{shown} is migrated by the next apply")),
            Err(error) => output.error(error.to_string()),
        }
        return;
    }
    output.warning(format!("Migrating {shown}..."));
    output.error("This might require manual intervention! Please find instructions at:");
    output.error("  <https://github.com/holocm/holo-users-groups/wiki/Migrating-to-v2.0>");
    if let Err(error) = ids.and_then(|ids| Ok(write_bases(host, ids, output)?)) {
        output.error(error.to_string());
        return;
    }
    output.warning(format!("All entities migrated. Removing {shown}..."));
    if let Err(error) = fs::remove_file(&path) {
        output.error(PathError::new("remove", path, error).to_string());
    }
}

fn write_bases(host: &Host, ids: Vec<AccountId>, output: &mut Output<'_>) -> holo_change::error::Result<()> {
    let images = Images::open(host)?;
    let _held = images.hold()?;
    let known = images.all(Moment::Base)?;
    for id in ids {
        if known.contains(&id) {
            output.warning(format!("Skipping {id} (found existing base image)"));
        } else {
            output.warning(format!("Writing empty base image for {id}"));
            images.save(Moment::Base, &Account::bare(id))?;
        }
    }
    Ok(())
}
