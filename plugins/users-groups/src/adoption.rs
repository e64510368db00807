//! Generates definitions of existing users and groups: those created manually, or any that is named.

mod aging;

use crate::account::{Account, AccountError, AccountId, Kind, check_name};
use crate::accounts::Accounts;
use crate::document::is_one_field;
use crate::images::to_text;
use crate::origin::Packages;
use holo_plugin::system::Root;
use holo_plugin::{Adopted, Candidate, Host, Output};
use std::collections::BTreeSet;
use std::path::Path;
use std::str::FromStr;

/// The file with the ranges of regular UIDs and GIDs.
const LOGIN_DEFS: &str = "etc/login.defs";

/// The file with the password hashes, which only root can read.
const SHADOW: &str = "etc/shadow";
/// The comment in the definition of a user who has a password.
const NO_PASSWORD: &str =
    "# The password of this user is secret and is not adopted: other systems create the user without one.\n";

/// The range of numbers for regular users or groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers {
    first: u32,
    last: u32,
}

impl Numbers {
    fn read(root: &Root, kind: Kind) -> Numbers {
        Numbers::parse(&root.text(LOGIN_DEFS).unwrap_or_default(), kind)
    }

    fn parse(text: &str, kind: Kind) -> Numbers {
        let word = kind.number_word();
        let (first, last) = (setting(text, &format!("{word}_MIN")), setting(text, &format!("{word}_MAX")));
        Numbers { first: first.unwrap_or(1000), last: last.unwrap_or(60_000) }
    }

    fn include(self, number: u32) -> bool {
        (self.first..=self.last).contains(&number)
    }

    fn is_system(self, number: u32) -> bool {
        number > 0 && number < self.first
    }
}

/// Returns a value in the text of `login.defs`.
fn setting<T: FromStr>(text: &str, key: &str) -> Option<T> {
    text.lines().rev().find_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|word| *word == key).and_then(|_| words.next())?.parse().ok()
    })
}

/// Lists manually created accounts that are not defined.
pub(crate) fn candidates(host: &Host, defined: &BTreeSet<AccountId>) -> Result<Vec<Candidate>, AccountError> {
    let accounts = Accounts::default().all(host)?;
    let root = Root::new(host.root());
    let made = made_by_hand(&root, &accounts);
    let mut found = memberships(&root, &accounts, &made, defined);
    let is_ours = |id: &AccountId| defined.contains(id) || made.iter().any(|(other, _)| other == id);
    found.extend(aging::candidates(&root, &accounts, is_ours));
    let undefined = made.into_iter().filter(|(id, _)| !defined.contains(id));
    found.extend(undefined.map(|(id, reason)| Candidate::new(id.to_string(), reason)));
    Ok(found)
}

/// Lists the users of packages that are in a group by hand. They are not adopted, as their packages create them.
fn memberships(
    root: &Root,
    accounts: &[Account],
    made: &[(AccountId, String)],
    defined: &BTreeSet<AccountId>,
) -> Vec<Candidate> {
    let is_made = |id: &AccountId| made.iter().any(|(other, _)| other == id) || defined.contains(id);
    let packages = Packages::read(root);
    let candidate = |user: &Account| {
        let mut groups = user.groups.clone();
        groups.retain(|group| !packages.connect(&user.id.name, group));
        groups.sort();
        (!groups.is_empty()).then(|| {
            let (name, groups) = (&user.id.name, groups.join(","));
            let reason = format!("a package creates it, but it was added to {groups} by hand");
            Candidate::excluded(user.id.to_string(), reason)
                .with_command(format!("usermod --append --groups {groups} {name}"))
        })
    };
    let of_packages = accounts.iter().filter(|account| account.id.kind == Kind::User && !is_made(&account.id));
    of_packages.filter_map(candidate).collect()
}

/// Writes a definition of an existing account.
pub(crate) fn adopt(host: &Host, id: &str, output: &mut Output<'_>) -> Adopted {
    let is_ours = Kind::ALL.iter().any(|kind| id.strip_prefix(kind.word()).is_some_and(|rest| rest.starts_with(':')));
    let account = match AccountId::parse(id).map(|id| Accounts::default().find(host, &id)).transpose() {
        Ok(account) => account.flatten(),
        Err(error) => {
            output.error(error.to_string());
            return Adopted::Failed;
        }
    };
    match account {
        Some(account) => match definable(account, output) {
            Some(account) => {
                let root = Root::new(host.root());
                if has_password(&root, &account) {
                    output.warning(format!("{} is adopted without its password, which is secret", account.id));
                }
                Adopted::Done { definition: definition(&root, &account) }
            }
            None => Adopted::Failed,
        },
        None if is_ours => {
            output.error(format!("{} does not exist", id.replacen(':', " ", 1)));
            Adopted::Failed
        }
        None => Adopted::Unknown,
    }
}

/// Removes a comment that a definition cannot contain, with a warning. Returns `None`, after an error, if another field is affected.
fn definable(account: Account, output: &mut Output<'_>) -> Option<Account> {
    // Invalid UTF-8 was replaced when the file was read.
    let is_odd = |text: &String| !is_one_field(text) || text.contains(char::REPLACEMENT_CHARACTER);
    let of = account.id.to_string();
    for (what, text) in [("home directory", &account.home), ("shell", &account.shell), ("group", &account.group)] {
        if text.as_ref().is_some_and(is_odd) {
            output.error(format!("cannot adopt {of}: its {what} contains control characters or is not UTF-8"));
            return None;
        }
    }
    if !account.comment.as_ref().is_some_and(is_odd) {
        return Some(account);
    }
    output.warning(format!("{of} is adopted without its comment, which contains control characters or is not UTF-8"));
    Some(Account { comment: None, ..account })
}

/// Lists those accounts that were created manually, each with a reason, ordered by ID.
fn made_by_hand(root: &Root, accounts: &[Account]) -> Vec<(AccountId, String)> {
    let [groups, users] = [Kind::Group, Kind::User].map(|kind| Numbers::read(root, kind));
    let numbers = |kind| if kind == Kind::User { users } else { groups };
    let is_system =
        |account: &&Account| account.number.is_some_and(|number| numbers(account.id.kind).is_system(number));
    let system: BTreeSet<&str> = accounts.iter().filter(is_system).map(|account| &*account.id.name).collect();
    let made_by_packages = Packages::read(root).accounts_among(&system);
    let reason = |account: &Account| {
        let (number, name) = (account.number?, &*account.id.name);
        check_name(name).ok()?;
        if numbers(account.id.kind).include(number) {
            return Some(match (account.id.kind, login_user(accounts, name)) {
                (Kind::User, _) => format!("a user with the {} {number}", account.id.kind.number_word()),
                (Kind::Group, Some(user)) => format!("the login group of {user}"),
                (Kind::Group, None) => format!("a group with the {} {number}", account.id.kind.number_word()),
            });
        }
        let is_by_hand = numbers(account.id.kind).is_system(number) && made_by_packages.as_ref()?.is_unknown(name);
        is_by_hand.then(|| format!("a system {} that no package creates", account.id.kind.word()))
    };
    let mut found: Vec<(AccountId, String)> =
        accounts.iter().filter_map(|account| Some((account.id.clone(), reason(account)?))).collect();
    found.sort();
    found
}

/// Returns the user whose login group has this name.
fn login_user<'a>(accounts: &'a [Account], group: &str) -> Option<&'a str> {
    accounts.iter().find(|account| account.group.as_deref() == Some(group)).map(|account| &*account.id.name)
}

/// Returns the definition of an account. It requests a home directory on other machines if the account has one here.
fn definition(root: &Root, account: &Account) -> String {
    let mut text = to_text(account);
    if account.number.is_some_and(|number| Numbers::read(root, account.id.kind).is_system(number)) {
        text += "system = true\n";
    }
    let is_home = |home: &String| {
        let home = Path::new(home);
        home.is_absolute() && home != Path::new("/") && root.names(home).is_ok_and(|_| root.has(home))
    };
    if account.home.as_ref().is_some_and(is_home) {
        text += "create_home = true\n";
    }
    if has_password(root, account) {
        text += NO_PASSWORD;
    }
    text
}

/// Returns true if a user has a password, even a locked one.
fn has_password(root: &Root, account: &Account) -> bool {
    if account.id.kind != Kind::User {
        return false;
    }
    let user = &*account.id.name;
    let shadow = root.text(SHADOW).unwrap_or_default();
    let password = shadow.lines().find_map(|line| line.strip_prefix(user)?.strip_prefix(':')?.split(':').next());
    password.is_some_and(|password| !password.trim_start_matches(['!', '*']).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn adopted_user_with_password_gets_a_comment_without_the_hash() {
        let shadow = "jane:$y$hash:1::\nlocked:!$y$hash:1::\nnone:!:1::\nstar:*:1::\nempty::1::\njanet:!:1::\n";
        let (_folder, root) = root(&[("etc/shadow", shadow)]);
        let says = |id: &str| {
            let text = definition(&root, &account(id, 1000));
            assert!(!text.contains("hash"), "{text}");
            text.ends_with(NO_PASSWORD)
        };
        assert!(says("user:jane") && says("user:locked"));
        for id in ["user:none", "user:star", "user:empty", "user:janet", "user:gone", "group:jane"] {
            assert!(!says(id), "{id}");
        }
    }

    fn account(id: &str, number: u32) -> Account {
        Account { number: Some(number), ..Account::bare(AccountId::parse(id).unwrap()) }
    }

    fn root(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let root = Root::new(folder.path());
        (folder, root)
    }

    #[test]
    fn number_ranges_are_read_from_login_defs() {
        let text = "# UID_MIN 5\nUID_MIN\t\t\t 500\nUID_MAX 600 # x\nGID_MIN odd\nSYS_UID_MIN 100\n";
        assert_eq!(Numbers::parse(text, Kind::User), Numbers { first: 500, last: 600 });
        assert_eq!(Numbers::parse(text, Kind::Group), Numbers { first: 1000, last: 60_000 });
    }

    #[test]
    fn candidates_are_regular_accounts_and_those_of_no_package() {
        let accounts = [
            account("user:root", 0),
            Account { group: Some("jane".into()), ..account("user:jane", 1000) },
            account("user:nobody", 65_534),
            account("user:www-data", 33),
            account("user:nginx", 101),
            account("user:app", 997),
            account("group:jane", 1000),
            account("group:crew", 1001),
            account("group:app", 997),
            account("group:root", 0),
        ];
        let (_folder, debian) = root(&[
            ("usr/share/base-passwd/passwd.master", "root:*:0:\nwww-data:*:33:\n"),
            ("var/lib/dpkg/info/nginx.postinst", "adduser --system --group nginx\n"),
            ("var/lib/dpkg/info/other.postinst", "chown app /x\n"),
        ]);
        let found: Vec<String> =
            made_by_hand(&debian, &accounts).into_iter().map(|(id, reason)| format!("{id}: {reason}")).collect();
        assert_eq!(
            found,
            [
                "group:app: a system group that no package creates",
                "group:crew: a group with the GID 1001",
                "group:jane: the login group of jane",
                "user:app: a system user that no package creates",
                "user:jane: a user with the UID 1000",
            ]
        );
        // Without knowledge of the accounts that packages create, system accounts are not candidates.
        let (_folder, other) = root(&[]);
        let found: Vec<String> = made_by_hand(&other, &accounts).into_iter().map(|(id, _)| id.to_string()).collect();
        assert_eq!(found, ["group:crew", "group:jane", "user:jane"]);
    }

    #[test]
    fn memberships_that_no_package_makes_are_listed() {
        let user = |id: &str, number, groups: &[&str]| Account {
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..account(id, number)
        };
        let accounts = [
            user("user:nginx", 101, &["ssl-cert", "crew"]),
            user("user:list", 38, &["mail"]),
            user("user:jane", 1000, &["crew"]),
        ];
        let (_folder, root) = root(&[
            ("var/lib/dpkg/info/nginx.postinst", "adduser nginx ssl-cert\n"),
            ("usr/lib/sysusers.d/list.conf", "m list mail\n"),
        ]);
        let made = [(AccountId::parse("user:jane").unwrap(), String::new())];
        let lines: Vec<String> = memberships(&root, &accounts, &made, &BTreeSet::new())
            .iter()
            .map(|candidate| candidate.to_line().to_string())
            .collect();
        let expected = "user:nginx\ta package creates it, but it was added to crew by hand\t\texcluded\t\
                        usermod --append --groups crew nginx";
        assert_eq!(lines, [expected]);
    }

    #[test]
    fn adopted_definition_has_all_attributes_except_secrets() {
        let (_folder, root) = root(&[("srv/app/x", ""), ("etc/shadow", "app:$6$secret:1::::::\n")]);
        let app = Account {
            home: Some("/srv/app".into()),
            group: Some("app".into()),
            groups: vec!["crew".into()],
            shell: Some("/usr/sbin/nologin".into()),
            ..account("user:app", 997)
        };
        let expected = "[[user]]\nname = \"app\"\nuid = 997\nhome = \"/srv/app\"\ngroup = \"app\"\ngroups = [\"crew\"]\n\
                        shell = \"/usr/sbin/nologin\"\nsystem = true\ncreate_home = true\n";
        assert_eq!(definition(&root, &app), expected.to_owned() + NO_PASSWORD);
        let jane = Account { home: Some("/home/jane".into()), ..account("user:jane", 1000) };
        assert_eq!(definition(&root, &jane), "[[user]]\nname = \"jane\"\nuid = 1000\nhome = \"/home/jane\"\n");
        assert_eq!(definition(&root, &account("group:crew", 1001)), "[[group]]\nname = \"crew\"\ngid = 1001\n");
    }
}
