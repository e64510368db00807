//! The file in which the first versions kept the names of what they had made.

use crate::account::{AccountId, Kind, check_name};
use holo_change::error::PathError;
use holo_plugin::Host;
use std::fs;
use std::io;
use std::path::PathBuf;
use toml::de::DeTable;

/// The lists in it.
const LISTS: [(&str, Kind); 2] = [("provisionedGroups", Kind::Group), ("provisionedUsers", Kind::User)];

/// The path of the file.
pub(crate) fn path(host: &Host) -> PathBuf {
    host.state_dir().join("state.toml")
}

/// The accounts that the file names; none if there is no such file.
///
/// # Errors
/// In words.
pub(crate) fn read(host: &Host) -> Result<Option<Vec<AccountId>>, String> {
    let path = path(host);
    match fs::read_to_string(&path) {
        Ok(text) => accounts(&text).map(Some).map_err(|reason| format!("cannot use {}: {reason}", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PathError::new("open", path, error).to_string()),
    }
}

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
