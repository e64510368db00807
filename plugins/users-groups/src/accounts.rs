//! The existing users and groups: `/etc/passwd` and `/etc/group` below the root.

use crate::account::{Account, AccountError, AccountId, Kind};
use crate::images::ImageError;
use bstr::{BStr, ByteSlice};
use holo_change::error::PathError;
use holo_change::{PathHandle, Stamp, Tree};
use holo_plugin::{Host, Witness, leads_through_symlink};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// The account files, in the order in which they are read.
pub(crate) const FILES: [&str; 2] = ["/etc/passwd", "/etc/group"];
/// The kind of accounts in each file.
const KINDS: [Kind; 2] = [Kind::User, Kind::Group];

type Result<T> = std::result::Result<T, AccountError>;

/// A cache of the account files, which are read on demand, and again after they have changed.
#[derive(Debug, Default)]
pub(crate) struct Accounts(Mutex<Option<Known>>);

/// The account files when they were last read.
#[derive(Debug)]
struct Known {
    /// Their stamps; `None` if a file was changed just before, as another change with the same time would be invisible.
    stamps: Option<Vec<u8>>,
    contents: Vec<Vec<u8>>,
    database: Arc<Database>,
}

impl Accounts {
    /// Returns an account, or `None` if it does not exist.
    pub(crate) fn find(&self, host: &Host, id: &AccountId) -> Result<Option<Account>> {
        let database = self.database(host)?;
        let mut found = database.find(id)?;
        if let Some(user) = found.as_mut().filter(|found| found.id.kind == Kind::User && found.group.is_none()) {
            user.group = database.users()?.login_groups.get(&id.name).and_then(|number| name_elsewhere(host, *number));
        }
        Ok(found)
    }

    /// Returns all existing accounts in no particular order.
    pub(crate) fn all(&self, host: &Host) -> Result<Vec<Account>> {
        let database = self.database(host)?;
        Ok(database.users()?.accounts.values().chain(database.groups()?.accounts.values()).cloned().collect())
    }

    /// Returns the GID of a user's login group.
    pub(crate) fn login_group(&self, host: &Host, user: &str) -> Result<Option<u32>> {
        Ok(self.database(host)?.users()?.login_groups.get(user).copied())
    }

    /// Returns the name of the group with this GID.
    pub(crate) fn group_name(&self, host: &Host, number: u32) -> Result<Option<String>> {
        let local = self.database(host)?.groups()?.names.get(&number).cloned();
        Ok(local.or_else(|| name_elsewhere(host, number)))
    }

    /// Returns true if there is a local group of this name.
    pub(crate) fn has_group(&self, host: &Host, name: &str) -> bool {
        self.database(host)
            .is_ok_and(|database| database.groups().is_ok_and(|groups| groups.accounts.contains_key(name)))
    }

    /// Returns true if a group is the login group of exactly one user and has no members.
    pub(crate) fn is_alone(&self, host: &Host, group: &str) -> Result<bool> {
        let database = self.database(host)?;
        let has_it_for_login = |user: &&Account| user.group.as_deref() == Some(group);
        let is_login_group_of_one = database.users()?.accounts.values().filter(has_it_for_login).count() == 1;
        Ok(is_login_group_of_one && !database.groups()?.with_members.contains(group))
    }

    /// Returns the witnesses of the account files; `None` if one is elsewhere.
    pub(crate) fn witnesses(host: &Host) -> Option<[Witness; 2]> {
        let files = FILES.map(Path::new);
        let is_elsewhere = |file: &&Path| leads_through_symlink(host.root(), file);
        (!files.iter().any(is_elsewhere)).then(|| files.map(|file| Witness::file(&host.below_root(file))))
    }

    /// Returns true if both files can be read.
    pub(crate) fn are_readable(&self, host: &Host) -> bool {
        // Reading users requires the groups.
        self.database(host).is_ok_and(|database| database.users().is_ok())
    }

    /// Clears the cache after a program may have changed the files.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn database(&self, host: &Host) -> Result<Arc<Database>> {
        let root = Tree::open(host.root())?;
        let now = SystemTime::now();
        let (mut stamps, mut are_settled) = (Vec::new(), true);
        let mut places = Vec::new();
        for (file, kind) in FILES.into_iter().zip(KINDS) {
            let place = root.place(Path::new(file)).followed().map_err(|error| unreadable(kind, error))?;
            let stamp = Stamp::of(&place).map_err(|error| unreadable(kind, error))?;
            are_settled &= stamp.is_none_or(|stamp| stamp.is_settled(now));
            stamps.extend(stamp.map(|stamp| stamp.to_bytes()).unwrap_or_default());
            places.push((place, kind));
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known
            && known.stamps.as_ref() == Some(&stamps)
        {
            return Ok(Arc::clone(&known.database));
        }
        let read = |(place, kind): &(PathHandle, Kind)| read(place).map_err(|error| unreadable(*kind, error));
        let contents = places.iter().map(read).collect::<Result<Vec<_>>>()?;
        let stamps = are_settled.then_some(stamps);
        // Files that were changed just before are read each time. To parse them each time would take much longer.
        let database = match known.take().filter(|known| known.contents == contents) {
            Some(known) => known.database,
            None => {
                let files: Vec<String> = places.iter().map(|(place, _)| place.shown().display().to_string()).collect();
                let mut files = files.iter().map(String::as_str).zip(contents.iter().map(Vec::as_slice));
                Database::parse(files.next().unwrap_or_default(), files.next().unwrap_or_default()).into()
            }
        };
        *known = Some(Known { stamps, contents, database: Arc::clone(&database) });
        Ok(database)
    }
}

/// Returns the name of a group that only the name service knows, such as one of a directory.
fn name_elsewhere(host: &Host, number: u32) -> Option<String> {
    host.accounts().group_name(number)
}

/// Reads a file. A missing file is empty.
fn read(place: &PathHandle) -> holo_change::error::Result<Vec<u8>> {
    let mut content = Vec::new();
    if let Some(mut file) = place.open_if_file()? {
        file.read_to_end(&mut content).map_err(|error| PathError::new("read", place.shown(), error))?;
    }
    Ok(content)
}

/// Returns the error for a file that cannot be read or has a malformed entry.
fn unreadable(kind: Kind, reason: impl fmt::Display) -> AccountError {
    format!("cannot read {} database: {reason}", kind.word()).into()
}

/// All users and groups, or the error for each file that has a malformed entry. Users require the groups.
#[derive(Debug)]
struct Database {
    groups: Result<Groups>,
    users: Result<Users>,
}

#[derive(Debug, Default)]
struct Groups {
    accounts: HashMap<String, Account>,
    /// Group names by GID.
    names: HashMap<u32, String>,
    /// Groups that have members.
    with_members: HashSet<String>,
    /// The groups of each member.
    memberships: HashMap<String, Vec<String>>,
}

#[derive(Debug, Default)]
struct Users {
    accounts: HashMap<String, Account>,
    /// The GIDs of login groups, whether or not such groups exist.
    login_groups: HashMap<String, u32>,
}

impl Database {
    /// Parses both files, given as pairs of the path for error messages and the content.
    fn parse((passwd_path, passwd): (&str, &[u8]), (group_path, group): (&str, &[u8])) -> Database {
        let malformed = |kind, path: &str, Malformed { line, reason }| {
            let editor = if kind == Kind::User { "vipw" } else { "vigr" };
            unreadable(kind, format!("{path}:{line}: {reason}; correct the line with {editor}"))
        };
        let groups = Groups::parse(group).map_err(|error| malformed(Kind::Group, group_path, error));
        let users = groups
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|groups| Users::parse(passwd, groups).map_err(|error| malformed(Kind::User, passwd_path, error)));
        Database { groups, users }
    }

    fn groups(&self) -> Result<&Groups> {
        self.groups.as_ref().map_err(Clone::clone)
    }

    fn users(&self) -> Result<&Users> {
        self.users.as_ref().map_err(Clone::clone)
    }

    fn find(&self, id: &AccountId) -> Result<Option<Account>> {
        let accounts = match id.kind {
            Kind::Group => &self.groups()?.accounts,
            Kind::User => &self.users()?.accounts,
        };
        Ok(accounts.get(&id.name).cloned())
    }
}

impl Groups {
    fn parse(text: &[u8]) -> std::result::Result<Groups, Malformed> {
        let mut groups = Groups::default();
        for (line, fields) in entries(text) {
            let [name, _, number, members, ..] = &fields[..] else {
                return Err(Malformed::too_short(line, &fields, 4));
            };
            let number = parse_number("GID", number, line)?;
            let Some(name) = parse_name(name) else { continue };
            for member in members.split_str(",").filter_map(|name| name.to_str().ok()) {
                let member = member.trim();
                if !member.is_empty() {
                    groups.with_members.insert(name.clone());
                }
                groups.memberships.entry(member.to_owned()).or_default().push(name.clone());
            }
            groups.names.entry(number).or_insert_with(|| name.clone());
            let id = AccountId { kind: Kind::Group, name: name.clone() };
            let account = Account { number: Some(number), ..Account::bare(id) };
            groups.accounts.entry(name).or_insert(account);
        }
        Ok(groups)
    }
}

impl Users {
    fn parse(text: &[u8], groups: &Groups) -> std::result::Result<Users, Malformed> {
        let mut users = Users::default();
        for (line, fields) in entries(text) {
            // The C library accepts an entry without a shell.
            let [name, _, number, group, comment, home, rest @ ..] = &fields[..] else {
                return Err(Malformed::too_short(line, &fields, 7));
            };
            let (number, group) = (parse_number("UID", number, line)?, parse_number("GID", group, line)?);
            let Some(name) = parse_name(name) else { continue };
            let mut account = Account {
                id: AccountId { kind: Kind::User, name: name.clone() },
                number: Some(number),
                comment: parse_text(comment),
                home: parse_text(home),
                group: groups.names.get(&group).cloned(),
                groups: groups.memberships.get(&name).cloned().unwrap_or_default(),
                shell: rest.first().and_then(|shell| parse_text(shell)),
            };
            account.sort_groups();
            if let Entry::Vacant(vacant) = users.accounts.entry(name.clone()) {
                vacant.insert(account);
                users.login_groups.insert(name, group);
            }
        }
        Ok(users)
    }
}

/// An entry that cannot be parsed.
#[derive(Debug)]
struct Malformed {
    line: usize,
    reason: String,
}

impl Malformed {
    fn too_short(line: usize, fields: &[&[u8]], wanted: usize) -> Malformed {
        Malformed { line, reason: format!("expected {wanted} fields, found {}", fields.len()) }
    }
}

/// Returns the fields of each entry with its line number. Skips blank lines, comments, and NIS entries.
fn entries(text: &[u8]) -> impl Iterator<Item = (usize, Vec<&[u8]>)> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with_str("#"));
    let lines = lines.filter(|(_, line)| !line.starts_with_str("+") && !line.starts_with_str("-"));
    lines.map(|(index, line)| (index + 1, line.split_str(":").collect()))
}

fn parse_number(what: &str, field: &[u8], line: usize) -> std::result::Result<u32, Malformed> {
    let number = field.to_str().ok().and_then(|field| field.parse().ok());
    number.ok_or_else(|| Malformed { line, reason: format!("the {what} {:?} is not a number", BStr::new(field)) })
}

/// Returns a name, or `None` if it cannot be managed.
fn parse_name(field: &[u8]) -> Option<String> {
    field.to_str().ok().filter(|name| !name.is_empty()).map(str::to_owned)
}

fn parse_text(field: &[u8]) -> Option<String> {
    (!field.is_empty()).then(|| field.to_str_lossy().into_owned())
}

impl From<String> for AccountError {
    fn from(reason: String) -> Self {
        AccountError(reason)
    }
}

impl From<PathError> for AccountError {
    fn from(error: PathError) -> Self {
        AccountError(error.to_string())
    }
}

impl From<ImageError> for AccountError {
    fn from(error: ImageError) -> Self {
        AccountError(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(passwd: &[u8], group: &[u8], id: &str) -> Option<Account> {
        Database::parse(("passwd", passwd), ("group", group)).find(&AccountId::parse(id).unwrap()).unwrap()
    }

    #[test]
    fn users_list_their_groups_by_name() {
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
    fn lines_without_entries_are_skipped() {
        let passwd = b"# joe:x:1:1::/:\n\n+joe:x:2:2::/:\n+\n-@x\n \t\n:x:3:3::/:\n\xff:x:4:4::/:\n\
                       joe:x:5:5:\xffcomment:/h:/s\njoe:x:6:6::/:\nkim:x:7:7::/\n";
        let group = b"joe:x:5:\n+:::\n+\nlist:x:8:, joe ,\xff\n";
        let joe = find(passwd, group, "user:joe").unwrap();
        assert_eq!(joe.number, Some(5));
        assert_eq!(joe.comment.as_deref(), Some("\u{fffd}comment"));
        assert_eq!((joe.group.as_deref(), joe.groups), (Some("joe"), vec!["list".to_owned()]));
        assert_eq!(find(passwd, group, "user:kim").unwrap().shell, None);
    }

    #[test]
    fn malformed_entry_makes_its_file_unreadable() {
        let (good_passwd, good_group) = (&b"joe:x:5:5::/:/s\n"[..], &b"crew:x:5:\n"[..]);
        let outcome = |passwd: &[u8], group: &[u8], id: &str| {
            let database = Database::parse(("passwd", passwd), ("group", group));
            database.find(&AccountId::parse(id).unwrap()).map(|account| account.is_some()).map_err(|error| error.0)
        };
        for (entry, reason) in [
            ("kim:x:6", "expected 7 fields, found 3"),
            ("kim", "expected 7 fields, found 1"),
            ("kim:x:6:6:", "expected 7 fields, found 5"),
            ("kim:x:many:6::/:/s", "the UID \"many\" is not a number"),
            ("kim:x::6::/:/s", "the UID \"\" is not a number"),
            ("kim:x:6:-1::/:/s", "the GID \"-1\" is not a number"),
        ] {
            let passwd = format!("# users\njoe:x:5:5::/:/s\n{entry}\n");
            let error = format!("cannot read user database: passwd:3: {reason}; correct the line with vipw");
            assert_eq!(outcome(passwd.as_bytes(), good_group, "user:joe"), Err(error));
            assert_eq!(outcome(passwd.as_bytes(), good_group, "group:crew"), Ok(true));
        }
        for (entry, reason) in [
            ("team:x:6", "expected 4 fields, found 3"),
            ("team", "expected 4 fields, found 1"),
            ("team:::", "the GID \"\" is not a number"),
            ("team:x:4294967296:", "the GID \"4294967296\" is not a number"),
        ] {
            let group = format!("crew:x:5:\n{entry}\n");
            let error = format!("cannot read group database: group:2: {reason}; correct the line with vigr");
            // A user's groups are unknown as well.
            for id in ["group:crew", "user:joe"] {
                assert_eq!(outcome(good_passwd, group.as_bytes(), id), Err(error.clone()));
            }
        }
    }
}
