//! As whom a program runs.

use crate::words;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::ffi::{CString, OsString};
use std::io;

/// As whom a program runs; what is not given stays as it is for us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user, by name or number. Its groups come with it.
    pub user: Option<String>,
    /// The primary group, by name or number, instead of the user's.
    pub group: Option<String>,
    /// The permissions that what it makes shall not have.
    pub umask: Option<u32>,
}

/// An [`Identity`] in the terms of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    /// All groups, if a user is given.
    pub(crate) groups: Vec<u32>,
    pub(crate) umask: Option<u32>,
    /// The variables that describe the user.
    pub(crate) environment: Vec<(&'static str, OsString)>,
}

impl Identity {
    /// Returns true if nothing is to be changed.
    pub(crate) fn is_ours(&self) -> bool {
        *self == Identity::default()
    }

    /// Looks up what the names stand for.
    pub(crate) fn resolve(&self) -> Result<Credentials, String> {
        let group = self.group.as_deref().map(gid).transpose()?;
        let user = self.user.as_deref().map(user).transpose()?;
        let mut credentials = Credentials { gid: group.map(Gid::as_raw), umask: self.umask, ..Credentials::default() };
        match user {
            None => {}
            Some(Found::Account(account)) => {
                let gid = group.unwrap_or(account.gid);
                let name = CString::new(account.name.clone()).map_err(|error| error.to_string())?;
                let groups = getgrouplist(&name, gid)
                    .map_err(|errno| format!("cannot list the groups of {}: {}", account.name, reason(errno)))?;
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
                let gid = group.ok_or_else(|| format!("user {uid} has no account, so it needs a group"))?;
                credentials.uid = Some(uid.as_raw());
                credentials.groups = vec![gid.as_raw()];
            }
        }
        Ok(credentials)
    }
}

enum Found {
    Account(User),
    Number(Uid),
}

fn user(name: &str) -> Result<Found, String> {
    let failed = |errno| format!("cannot look up user {name}: {}", reason(errno));
    if let Some(user) = User::from_name(name).map_err(failed)? {
        return Ok(Found::Account(user));
    }
    let Some(uid) = number(name).map(Uid::from_raw) else { return Err(format!("there is no user {name:?}")) };
    Ok(User::from_uid(uid).map_err(failed)?.map_or(Found::Number(uid), Found::Account))
}

fn gid(name: &str) -> Result<Gid, String> {
    let group = Group::from_name(name).map_err(|errno| format!("cannot look up group {name}: {}", reason(errno)))?;
    let gid = group.map(|group| group.gid).or_else(|| number(name).map(Gid::from_raw));
    gid.ok_or_else(|| format!("there is no group {name:?}"))
}

/// A number that stands for a user or group; the greatest stands for none.
fn number(name: &str) -> Option<u32> {
    let is_number = !name.is_empty() && name.bytes().all(|letter| letter.is_ascii_digit());
    name.parse().ok().filter(|&number| is_number && number != u32::MAX)
}

fn reason(errno: nix::errno::Errno) -> String {
    words::reason(&io::Error::from(errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(user: Option<&str>, group: Option<&str>) -> Result<Credentials, String> {
        let (user, group) = (user.map(str::to_owned), group.map(str::to_owned));
        Identity { user, group, umask: None }.resolve()
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
