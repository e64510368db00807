//! The file in which the first versions stored the names of provisioned accounts.

use crate::account::{AccountId, Kind, NameError, check_name};
use holo_change::error::PathError;
use holo_plugin::Host;
use std::fs;
use std::io;
use std::path::PathBuf;
use toml::de::DeTable;

/// The lists in the file.
const LISTS: [(&str, Kind); 2] = [("provisionedGroups", Kind::Group), ("provisionedUsers", Kind::User)];

/// Returns the path of the file.
pub(crate) fn path(host: &Host) -> PathBuf {
    host.state_dir().join("state.toml")
}

/// A state file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateFileError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("cannot use {}: {mistake}", path.display())]
    Unusable { path: PathBuf, mistake: Mistake },
}

/// An error in the content of a state file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Mistake {
    #[error("{0}")]
    Syntax(String),
    #[error("{0} is not a list")]
    NotAList(&'static str),
    #[error("{0} is not a list of names")]
    NotNames(&'static str),
    #[error("{name:?} in {key}: {error}")]
    Name { key: &'static str, name: String, error: NameError },
}

/// Reads the accounts in the file, or returns `None` if it does not exist.
///
/// # Errors If the file cannot be read or parsed.
pub(crate) fn read(host: &Host) -> Result<Option<Vec<AccountId>>, StateFileError> {
    let path = path(host);
    match fs::read_to_string(&path) {
        Ok(text) => accounts(&text).map(Some).map_err(|mistake| StateFileError::Unusable { path, mistake }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PathError::new("open", path, error).into()),
    }
}

fn accounts(text: &str) -> Result<Vec<AccountId>, Mistake> {
    let table = DeTable::parse(text).map_err(|error| Mistake::Syntax(error.message().to_owned()))?;
    let mut ids = Vec::new();
    for (key, kind) in LISTS {
        let list = table.get_ref().iter().find(|(found, _)| found.get_ref().eq_ignore_ascii_case(key));
        let Some((_, list)) = list else { continue };
        let list = list.get_ref().as_array().ok_or(Mistake::NotAList(key))?;
        for name in list {
            let name = name.get_ref().as_str().ok_or(Mistake::NotNames(key))?;
            check_name(name).map_err(|error| Mistake::Name { key, name: name.to_owned(), error })?;
            ids.push(AccountId { kind, name: name.to_owned() });
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_file_lists_groups_and_users() {
        let ids = accounts("provisionedUsers = ['b', 'a']\nprovisionedGroups = [\"c\"]\nother = 1\n").unwrap();
        let words: Vec<String> = ids.iter().map(ToString::to_string).collect();
        assert_eq!(words, ["group:c", "user:b", "user:a"]);
        assert_eq!(accounts(""), Ok(vec![]));
        assert_eq!(accounts("provisionedUsers = 1"), Err(Mistake::NotAList("provisionedUsers")));
        assert!(accounts("provisionedUsers = ['../x']").is_err() && accounts("x").is_err());
    }
}
