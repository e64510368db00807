//! The users and groups that there are: `/etc/passwd` and `/etc/group` below the root.

use crate::account::{Account, AccountId, Kind};
use bstr::ByteSlice;
use holo_change::error::{PathError, Result};
use holo_change::{Stamp, Tree};
use holo_plugin::Host;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// The files, in the order in which they are read.
pub(crate) const FILES: [&str; 2] = ["/etc/passwd", "/etc/group"];

/// The content of the files, read when it is needed, and not again while they are unchanged.
#[derive(Debug, Default)]
pub(crate) struct Accounts(Mutex<Option<(Vec<u8>, Arc<Database>)>>);

impl Accounts {
    /// The account as it is now; none if there is no such account.
    pub(crate) fn find(&self, host: &Host, id: &AccountId) -> Result<Option<Account>> {
        Ok(self.database(host)?.find(id))
    }

    /// Returns all accounts that there are, in no order.
    pub(crate) fn all(&self, host: &Host) -> Result<Vec<Account>> {
        let database = self.database(host)?;
        Ok(database.users.values().chain(database.groups.values()).cloned().collect())
    }

    /// The login group of a user by its number.
    pub(crate) fn login_group(&self, host: &Host, user: &str) -> Result<Option<u32>> {
        Ok(self.database(host)?.login_groups.get(user).copied())
    }

    /// The name of the group with this number.
    pub(crate) fn group_name(&self, host: &Host, number: u32) -> Result<Option<String>> {
        Ok(self.database(host)?.names.get(&number).cloned())
    }

    /// Returns whether a group is the login group of one user, and nobody else is in it.
    pub(crate) fn is_alone(&self, host: &Host, group: &str) -> Result<bool> {
        let database = self.database(host)?;
        let has_it_for_login = |user: &&Account| user.group.as_deref() == Some(group);
        Ok(database.users.values().filter(has_it_for_login).count() == 1 && !database.members.contains(group))
    }

    /// Forgets what was read: a program has been run.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn database(&self, host: &Host) -> Result<Arc<Database>> {
        let root = Tree::open(host.root())?;
        let places = FILES.map(|file| root.place(Path::new(file)).followed());
        let now = SystemTime::now();
        let (mut stamps, mut are_settled) = (Vec::new(), true);
        let mut texts = Vec::new();
        for place in places {
            let place = place?;
            let stamp = Stamp::of(&place)?;
            are_settled &= stamp.is_none_or(|stamp| stamp.is_settled(now));
            stamps.extend(stamp.map(|stamp| stamp.to_bytes()).unwrap_or_default());
            texts.push(place);
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known_stamps, database)) = &*known
            && *known_stamps == stamps
        {
            return Ok(Arc::clone(database));
        }
        let mut contents = Vec::new();
        for place in texts {
            let mut content = Vec::new();
            if let Some(mut file) = place.open_if_file()? {
                file.read_to_end(&mut content).map_err(|error| PathError::new("read", place.shown(), error))?;
            }
            contents.push(content);
        }
        let mut contents = contents.into_iter();
        let database = Database::parse(&contents.next().unwrap_or_default(), &contents.next().unwrap_or_default());
        let database = Arc::new(database);
        // A file that was changed a moment ago may be changed again without looking different.
        *known = are_settled.then(|| (stamps, Arc::clone(&database)));
        Ok(database)
    }
}

/// All users and groups.
#[derive(Debug, Default)]
struct Database {
    users: HashMap<String, Account>,
    groups: HashMap<String, Account>,
    /// The names of groups, by their numbers.
    names: HashMap<u32, String>,
    /// The groups that have members.
    members: HashSet<String>,
    /// The numbers of login groups, whether or not they have names.
    login_groups: HashMap<String, u32>,
}

impl Database {
    fn parse(passwd: &[u8], group: &[u8]) -> Database {
        let mut database = Database::default();
        let mut memberships: HashMap<String, Vec<String>> = HashMap::new();
        for fields in records(group) {
            let [name, _, number, members @ ..] = &fields[..] else { continue };
            let Some((name, number)) = named(name, number) else { continue };
            for member in
                members.iter().flat_map(|members| members.split_str(",")).filter_map(|name| name.to_str().ok())
            {
                let member = member.trim();
                if !member.is_empty() {
                    database.members.insert(name.clone());
                }
                memberships.entry(member.to_owned()).or_default().push(name.clone());
            }
            database.names.entry(number).or_insert_with(|| name.clone());
            let id = AccountId { kind: Kind::Group, name: name.clone() };
            let account = Account { number: Some(number), ..Account::bare(id) };
            database.groups.entry(name).or_insert(account);
        }
        for fields in records(passwd) {
            let [name, _, number, group, comment, home, rest @ ..] = &fields[..] else { continue };
            let Some((name, number)) = named(name, number) else { continue };
            let group = group.to_str().ok().and_then(|number| number.parse().ok());
            let mut account = Account {
                id: AccountId { kind: Kind::User, name: name.clone() },
                number: Some(number),
                comment: text(comment),
                home: text(home),
                group: group.and_then(|number: u32| database.names.get(&number).cloned()),
                groups: memberships.get(&name).cloned().unwrap_or_default(),
                shell: rest.first().and_then(|shell| text(shell)),
            };
            account.sort_groups();
            if let Entry::Vacant(vacant) = database.users.entry(name.clone()) {
                vacant.insert(account);
                group.and_then(|number| database.login_groups.insert(name, number));
            }
        }
        database
    }

    fn find(&self, id: &AccountId) -> Option<Account> {
        let accounts = match id.kind {
            Kind::Group => &self.groups,
            Kind::User => &self.users,
        };
        accounts.get(&id.name).cloned()
    }
}

/// The lines that stand for something, without comments and what network services add.
fn records(text: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    let lines = text.lines().filter(|line| !matches!(line.first(), None | Some(b'#' | b'+' | b'-')));
    lines.map(|line| line.split_str(":").collect())
}

fn named(name: &[u8], number: &[u8]) -> Option<(String, u32)> {
    let name = name.to_str().ok().filter(|name| !name.is_empty())?;
    Some((name.to_owned(), number.to_str().ok()?.parse().ok()?))
}

fn text(field: &[u8]) -> Option<String> {
    (!field.is_empty()).then(|| field.to_str_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(passwd: &[u8], group: &[u8], id: &str) -> Option<Account> {
        Database::parse(passwd, group).find(&AccountId::parse(id).unwrap())
    }

    #[test]
    fn users_know_their_groups_by_name() {
        let passwd = b"joe:x:7:100:Joe,,,:/home/joe:/bin/sh\nanne:x:8:4711::/:\n";
        let group = b"users:x:100:\nwheel:x:10:anne,joe\naudio:x:9:joe\nagain:x:100:joe\n";
        let joe = find(passwd, group, "user:joe").unwrap();
        assert_eq!(joe.group.as_deref(), Some("users"));
        assert_eq!(joe.groups, ["again", "audio", "wheel"]);
        assert_eq!((joe.comment.as_deref(), joe.shell.as_deref()), (Some("Joe,,,"), Some("/bin/sh")));
        let anne = find(passwd, group, "user:anne").unwrap();
        assert_eq!((anne.group, anne.comment, anne.shell, anne.number), (None, None, None, Some(8)));
        assert_eq!(find(passwd, group, "group:wheel").unwrap().number, Some(10));
        assert_eq!(find(passwd, group, "user:users"), None);
    }

    #[test]
    fn odd_lines_are_passed_over() {
        let passwd =
            b"# joe:x:1:1::/:\n\n+joe:x:2:2::/:\n+\n-@x\nshort:x:1\njoe:x:many:1::/:\n:x:3:3::/:\n\xff:x:4:4::/:\n\
                       joe:x:5:5:\xffcomment:/h:/s\njoe:x:6:6::/:\n";
        let joe = find(passwd, b"joe:x:5:\nempty::7\nbad:x\n+:::\nlist:x:8:, joe ,\xff\n", "user:joe").unwrap();
        assert_eq!(joe.number, Some(5));
        assert_eq!(joe.comment.as_deref(), Some("\u{fffd}comment"));
        assert_eq!((joe.group.as_deref(), joe.groups), (Some("joe"), vec!["list".to_owned()]));
        assert_eq!(find(b"", b"empty::7", "group:empty").unwrap().number, Some(7));
    }
}
