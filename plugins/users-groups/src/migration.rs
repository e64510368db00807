//! What the first versions kept in one file becomes images.

use crate::account::{Account, AccountId, Kind, check_name};
use crate::images::{Images, Moment};
use holo_plugin::error::PathError;
use holo_plugin::{Host, Output};
use std::fs;
use std::io;
use toml::de::DeTable;

const STATE_FILE: &str = "state.toml";
/// The lists in it.
const LISTS: [(&str, Kind); 2] = [("provisionedGroups", Kind::Group), ("provisionedUsers", Kind::User)];

/// Migrates the state file, if there is one. If that fails it is said, and it stays for the next time.
pub(crate) fn migrate(host: &Host, output: &mut Output<'_>) {
    let path = host.state_dir().join(STATE_FILE);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        text => text.map_err(|error| PathError::new("open", &path, error).to_string()),
    };
    let shown = path.display();
    output.warning(format!("Migrating {shown}..."));
    output.error("This might require manual intervention! Please find instructions at:");
    output.error("  <https://github.com/holocm/holo-users-groups/wiki/Migrating-to-v2.0>");
    let migrated = text
        .and_then(|text| accounts(&text).map_err(|reason| format!("cannot use {shown}: {reason}")))
        .and_then(|ids| write_bases(host, ids, output).map_err(|error| error.to_string()));
    if let Err(reason) = migrated {
        output.error(reason);
        return;
    }
    output.warning(format!("All entities migrated. Removing {shown}..."));
    if let Err(error) = fs::remove_file(&path) {
        output.error(PathError::new("remove", path, error).to_string());
    }
}

fn write_bases(host: &Host, ids: Vec<AccountId>, output: &mut Output<'_>) -> holo_plugin::error::Result<()> {
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

/// The accounts that the file names.
fn accounts(text: &str) -> Result<Vec<AccountId>, String> {
    let table = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    let mut ids = Vec::new();
    for (key, kind) in LISTS {
        let list = table.get_ref().iter().find(|(found, _)| found.get_ref().eq_ignore_ascii_case(key));
        let Some((_, list)) = list else { continue };
        let list = list.get_ref().as_array().ok_or_else(|| format!("{key} is not a list"))?;
        for name in list {
            let name = name.get_ref().as_str().ok_or_else(|| format!("{key} is not a list of names"))?;
            check_name(name).map_err(|reason| format!("{name:?} in {key}: {reason}"))?;
            ids.push(AccountId { kind, name: name.to_owned() });
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_users_are_found() {
        let ids = accounts("provisionedUsers = ['b', 'a']\nprovisionedGroups = [\"c\"]\nother = 1\n").unwrap();
        let words: Vec<String> = ids.iter().map(ToString::to_string).collect();
        assert_eq!(words, ["group:c", "user:b", "user:a"]);
        assert_eq!(accounts(""), Ok(vec![]));
        assert_eq!(accounts("provisionedUsers = 1"), Err("provisionedUsers is not a list".into()));
        assert!(accounts("provisionedUsers = ['../x']").is_err() && accounts("x").is_err());
    }
}
