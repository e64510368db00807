//! The user, groups and umask of a program.

use crate::error::IdentityError;
use nix::errno::Errno;
use nix::unistd::{Gid, Group, Uid, User, geteuid, getgrouplist};
use std::ffi::{CString, OsString};

/// The default umask for programs of other users.
const UMASK_OF_USERS: u32 = 0o022;

/// The user, groups and umask of a program. Fields that are `None` are inherited from this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user, by name or ID. It also determines the groups.
    pub user: Option<String>,
    /// The primary group, by name or ID, instead of the user's.
    pub group: Option<String>,
    /// The umask. By default, it is 022 for programs of another user, and is inherited otherwise.
    pub umask: Option<u32>,
    /// True if programs of another user may gain privileges by running set-user-ID and set-group-ID programs.
    pub may_gain_privileges: bool,
}

/// The numeric credentials of an [`Identity`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    /// All groups; empty if no user is given.
    pub(crate) groups: Vec<u32>,
    pub(crate) umask: Option<u32>,
    pub(crate) may_gain_privileges: bool,
    /// The environment variables that describe the user.
    pub(crate) environment: Vec<(&'static str, OsString)>,
}

impl Credentials {
    /// Returns true if the user is not that of this process.
    pub(crate) fn is_other_user(&self) -> bool {
        self.uid.is_some_and(|uid| uid != geteuid().as_raw())
    }
}

impl Identity {
    /// Returns true if it is the identity of this process.
    pub(crate) fn is_ours(&self) -> bool {
        *self == Identity::default()
    }

    /// Looks up the user and groups.
    pub(crate) fn resolve(&self) -> Result<Credentials, IdentityError> {
        let group = self.group.as_deref().map(gid).transpose()?;
        let user = self.user.as_deref().map(user).transpose()?;
        let mut credentials = Credentials {
            gid: group.map(Gid::as_raw),
            umask: self.umask,
            may_gain_privileges: self.may_gain_privileges,
            ..Credentials::default()
        };
        match user {
            None => {}
            Some(Found::Account(account)) => {
                let gid = group.unwrap_or(account.gid);
                let name = CString::new(account.name.clone())?;
                let groups =
                    getgrouplist(&name, gid).map_err(failed(|| format!("list the groups of {}", account.name)))?;
                credentials.uid = Some(account.uid.as_raw());
                credentials.gid = Some(gid.as_raw());
                credentials.groups = groups.into_iter().map(Gid::as_raw).collect();
                let name = OsString::from(account.name);
                credentials.environment = vec![
                    ("HOME", account.dir.into()),
                    ("SHELL", account.shell.into()),
                    ("USER", name.clone()),
                    ("LOGNAME", name),
                ];
            }
            Some(Found::Number(uid)) => {
                let gid = group.ok_or(IdentityError::NeedsGroup { uid: uid.as_raw() })?;
                credentials.uid = Some(uid.as_raw());
                credentials.groups = vec![gid.as_raw()];
                let name = OsString::from(uid.to_string());
                credentials.environment =
                    vec![("HOME", "/".into()), ("SHELL", "/bin/sh".into()), ("USER", name.clone()), ("LOGNAME", name)];
            }
        }
        if credentials.is_other_user() {
            credentials.umask.get_or_insert(UMASK_OF_USERS);
            credentials.environment.push(("TERM", "dumb".into()));
        }
        Ok(credentials)
    }
}

enum Found {
    Account(User),
    Number(Uid),
}

fn user(name: &str) -> Result<Found, IdentityError> {
    let action = || format!("look up user {name}");
    if let Some(user) = User::from_name(name).map_err(failed(action))? {
        return Ok(Found::Account(user));
    }
    let uid = number(name).map(Uid::from_raw).ok_or_else(|| IdentityError::NoUser { name: name.to_owned() })?;
    Ok(User::from_uid(uid).map_err(failed(action))?.map_or(Found::Number(uid), Found::Account))
}

fn gid(name: &str) -> Result<Gid, IdentityError> {
    let group = Group::from_name(name).map_err(failed(|| format!("look up group {name}")))?;
    let gid = group.map(|group| group.gid).or_else(|| number(name).map(Gid::from_raw));
    gid.ok_or_else(|| IdentityError::NoGroup { name: name.to_owned() })
}

/// Returns the error for a failed lookup.
fn failed(action: impl FnOnce() -> String) -> impl FnOnce(Errno) -> IdentityError {
    |errno| IdentityError::System { action: action(), source: errno.into() }
}

/// Parses a user or group ID. The maximum value is invalid, because it means "unchanged".
fn number(name: &str) -> Option<u32> {
    let is_number = !name.is_empty() && name.bytes().all(|letter| letter.is_ascii_digit());
    name.parse().ok().filter(|&number| is_number && number != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(user: Option<&str>, group: Option<&str>) -> Result<Credentials, String> {
        let (user, group) = (user.map(str::to_owned), group.map(str::to_owned));
        Identity { user, group, ..Identity::default() }.resolve().map_err(|error| error.to_string())
    }

    #[test]
    fn users_come_with_their_groups_and_home() {
        let root = resolve(Some("root"), None).unwrap();
        assert_eq!((root.uid, root.gid), (Some(0), Some(0)));
        assert!(root.groups.contains(&0));
        assert!(
            root.environment.contains(&("HOME", "/root".into())) && root.environment.contains(&("USER", "root".into()))
        );
        assert_eq!(resolve(Some("0"), None).unwrap(), root);
        let other_group = resolve(Some("root"), Some("54321")).unwrap();
        assert_eq!((other_group.uid, other_group.gid), (Some(0), Some(54321)));
        assert!(other_group.groups.contains(&54321));
    }

    #[test]
    fn numbers_need_no_account_but_a_group() {
        let nobody = resolve(Some("54321"), Some("0")).unwrap();
        assert_eq!((nobody.uid, nobody.gid, nobody.groups), (Some(54321), Some(0), vec![0]));
        assert!(resolve(Some("54321"), None).unwrap_err().contains("needs a group"));
    }

    #[test]
    fn names_without_an_account_are_refused() {
        assert_eq!(resolve(Some("no such"), None).unwrap_err(), "there is no user \"no such\"");
        assert_eq!(resolve(None, Some("no-such")).unwrap_err(), "there is no group \"no-such\"");
        for odd in ["", "-1", "+1", "4294967295", "4294967296"] {
            assert!(resolve(Some(odd), None).is_err(), "{odd:?}");
        }
    }
}
