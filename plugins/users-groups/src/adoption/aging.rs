//! The aging of passwords and the expiry of accounts, which no definition describes: those that differ from the defaults are listed, with the
//! command that sets them.

use super::{LOGIN_DEFS, Numbers, SHADOW, setting};
use crate::account::{Account, AccountId, Kind};
use holo_plugin::system::Root;
use holo_plugin::{Candidate, quoted};

/// The file with the defaults of `useradd` that are not in `login.defs`.
const USERADD: &str = "etc/default/useradd";
/// The options of `chage`, in the order of the fields in `shadow`.
const OPTIONS: [&str; 5] = ["--mindays", "--maxdays", "--warndays", "--inactive", "--expiredate"];
/// The values that distributions give to the system accounts of their base.
const OF_BASE: Aging = [Some(0), Some(99_999), Some(7), None, None];

/// The number of days for each of the options; `None` if the field is empty.
type Aging = [Option<u32>; 5];

/// Lists the users whose values differ from those that another system would set. `is_ours` returns true for users that are defined
/// or adopted.
pub(super) fn candidates(root: &Root, accounts: &[Account], is_ours: impl Fn(&AccountId) -> bool) -> Vec<Candidate> {
    let shadow = root.text(SHADOW).unwrap_or_default();
    let regular = defaults(&root.text(LOGIN_DEFS).unwrap_or_default(), &root.text(USERADD).unwrap_or_default());
    let numbers = Numbers::read(root, Kind::User);
    let candidate = |user: &Account| {
        let name = &*user.id.name;
        let (has_to_change, actual) =
            shadow.lines().find_map(|line| parse(line.strip_prefix(name)?.strip_prefix(':')?))?;
        let is_system = user.number.is_some_and(|number| numbers.is_system(number));
        // `useradd --system` sets no limits. How a package or the base has created a user is unknown.
        let usual: &[Aging] = match (is_ours(&user.id), is_system) {
            (true, true) => &[[None; 5]],
            (true, false) => &[regular],
            (false, _) => &[[None; 5], regular, OF_BASE],
        };
        let mut options = Vec::from_iter(has_to_change.then(|| "--lastday 0".to_owned()));
        options.extend((0..OPTIONS.len()).filter_map(|at| {
            let (option, value) = (OPTIONS.get(at)?, *actual.get(at)?);
            let is_usual = usual.iter().any(|usual| usual.get(at) == Some(&value));
            (!is_usual).then(|| format!("{option} {}", value.map_or("-1".to_owned(), |days| days.to_string())))
        }));
        (!options.is_empty()).then(|| {
            let reason = "its password aging or expiry is not the default, and no definition describes it";
            let command = format!("chage {} {}", options.join(" "), quoted(name));
            Candidate::excluded(format!("aging:{name}"), reason).with_command(command)
        })
    };
    accounts.iter().filter(|account| account.id.kind == Kind::User).filter_map(candidate).collect()
}

/// Parses a line of `shadow` without its first field. Also returns whether the user has to change the password at the next login. Returns
/// `None` for a line that the system's tools ignore as well.
fn parse(line: &str) -> Option<(bool, Aging)> {
    let fields: Vec<&str> = line.split(':').collect();
    let [_, last, min, max, warn, inactive, expire, _] = fields[..] else { return None };
    let mut aging = [None; 5];
    for (days, field) in aging.iter_mut().zip([min, max, warn, inactive, expire]) {
        *days = if field.is_empty() || field == "-1" { None } else { Some(field.parse().ok()?) };
    }
    Some((last == "0", aging))
}

/// Returns the values that `useradd` gives to regular users.
fn defaults(login_defs: &str, useradd: &str) -> Aging {
    let [min, max, warn] = ["PASS_MIN_DAYS", "PASS_MAX_DAYS", "PASS_WARN_AGE"].map(|key| setting(login_defs, key));
    let value = |key: &str| {
        let value = useradd.lines().rev().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        value.map(|value| value.trim_matches('"')).unwrap_or_default()
    };
    let expire = match value("EXPIRE") {
        "" => None,
        // A date is not converted, but replaced with a value that no user has: an entry too many is better than one too few.
        days => Some(days.parse().unwrap_or(u32::MAX)),
    };
    [min, max, warn, value("INACTIVE").parse().ok(), expire]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn lines_are_parsed_as_by_the_tools() {
        assert_eq!(parse("!:20228:0:99999:7:::"), Some((false, OF_BASE)));
        assert_eq!(parse("$y$x::::::20819:"), Some((false, [None, None, None, None, Some(20_819)])));
        assert_eq!(parse("x:0:-1:90:14:30:-1:"), Some((true, [None, Some(90), Some(14), Some(30), None])));
        for line in ["", "x", "x:1", "x:1:0:99999:7::", "x:1:0:99999:7::::", "x:1:a:99999:7:::", "x:1:-2:99999:7:::"] {
            assert_eq!(parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn defaults_are_those_of_useradd() {
        let login_defs =
            "# PASS_MIN_DAYS 5\nPASS_MIN_DAYS\t2\nPASS_MAX_DAYS 99999\nPASS_MAX_DAYS 90\nPASS_WARN_AGE -1\n";
        let [min, max] = [Some(2), Some(90)];
        assert_eq!(defaults(login_defs, ""), [min, max, None, None, None]);
        assert_eq!(defaults(login_defs, "INACTIVE=-1\nEXPIRE=\n"), [min, max, None, None, None]);
        assert_eq!(defaults("", "# INACTIVE=5\nINACTIVE=30\nEXPIRE=9\n"), [None, None, None, Some(30), Some(9)]);
        assert_ne!(defaults("", "EXPIRE=2030-01-01\n")[4], None);
    }

    #[test]
    fn unusual_values_are_listed_without_hashes() {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            (LOGIN_DEFS, "PASS_MIN_DAYS 0\nPASS_MAX_DAYS 99999\nPASS_WARN_AGE 7\n"),
            (
                SHADOW,
                "root:*:1:0:99999:7:::\nold:*:1::::::\nwww-data:*:1:0:365:7::9:\nusual:$y$hash:1:0:99999:7:::\n\
                 jane:$y$hash:0:0:90:14:30::\nempty:!:1::::::\napp:!:1::::::\ndeploy:!:1:0:99999:7:::\nodd:x:1:a:::::\n",
            ),
        ] {
            fs::create_dir_all(folder.path().join("etc")).unwrap();
            fs::write(folder.path().join(path), text).unwrap();
        }
        let user = |name: &str, number| Account {
            number: Some(number),
            ..Account::bare(AccountId { kind: Kind::User, name: name.to_owned() })
        };
        let users = [
            user("root", 0),
            user("old", 8),
            user("www-data", 33),
            user("usual", 1000),
            user("jane", 1001),
            user("empty", 1002),
            user("app", 998),
            user("deploy", 997),
            user("odd", 1003),
            user("nowhere", 1004),
        ];
        let is_ours = |id: &AccountId| !["root", "old", "www-data"].contains(&&*id.name);
        let found = candidates(&Root::new(folder.path()), &users, is_ours);
        let lines: Vec<String> = found.iter().map(|candidate| candidate.to_line().to_string()).collect();
        let line = |name: &str, options: &str| {
            let reason = "its password aging or expiry is not the default, and no definition describes it";
            format!("aging:{name}\t{reason}\t\texcluded\tchage {options} {name}")
        };
        assert_eq!(
            lines,
            [
                line("www-data", "--maxdays 365 --expiredate 9"),
                line("jane", "--lastday 0 --maxdays 90 --warndays 14 --inactive 30"),
                line("empty", "--mindays -1 --maxdays -1 --warndays -1"),
                line("deploy", "--mindays 0 --maxdays 99999 --warndays 7"),
            ]
        );
    }
}
