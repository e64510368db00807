//! A machine after a year of life, and its clone: what `holo adopt --all` writes makes a fresh machine the same, file by file, except
//! for what it lists as not adopted. Without these resource files, the clone becomes a fresh machine again.

use super::configure;
use bstr::ByteSlice;
use glob::Pattern;
use holo_testing::{Overlay, Run};
use std::collections::{BTreeMap, BTreeSet};

/// Makes the distribution of both machines.
const DISTRIBUTION: &str = include_str!("distribution.sh");
/// Builds the repository that they share.
const REPOSITORY: &str = include_str!("repository.sh");
/// The administrator's work.
const YEAR: &str = include_str!("year.sh");
const INVENTORY: &str = include_str!("inventory.py");

/// What an administrator includes after reading what is not adopted.
const ADOPT: [&str; 6] = ["adopt", "--all", "--include", "/opt", "--include", "/srv"];
const CHOICES: &str = "include = [\"/root\", \"/root/.bashrc\", \"/home/jane/\", \"/srv/gone\"]\n";

/// What is different on the clone because it is not adopted, and what the output of `adopt` says about it.
const NOT_ADOPTED: &[(&str, &str)] = &[
    ("/etc/alternatives/edit-it", "update-alternatives --set edit-it /usr/bin/edit-beta"),
    ("alternative edit-it", "update-alternatives --set edit-it /usr/bin/edit-beta"),
    ("/etc/backup", "holo adopt /etc/backup\n"),
    ("/etc/backup.conf", "holo adopt /etc/backup.conf\n"),
    ("/etc/metrics*", "entity package:metrics\n"),
    ("/etc/metrics.conf", "holo adopt /etc/metrics.conf\n"),
    ("/etc/metrics/extra.conf", "holo adopt /etc/metrics/extra.conf\n"),
    ("/etc/systemd/system/*metrics.service", "entity package:metrics\n"),
    ("enabled metrics.service", "entity package:metrics\n"),
    ("package metrics", "entity package:metrics\n"),
    ("/etc/oldmail.conf", "holo adopt /etc/oldmail.conf\n"),
    ("package oldmail", "entity package:oldmail\n"),
    ("/etc/sniffer.conf", "holo adopt /etc/sniffer.conf\n"),
    ("package sniffer", "entity package:sniffer\n"),
    ("/etc/odd/caf\\xe9", "entity file:/etc/odd/caf\\xe9\n"),
    ("/etc/odd/new\\x0aline", "entity file:/etc/odd/new\\nline\n"),
    ("/etc/odd/to-latin", "entity file:/etc/odd/to-latin\n"),
    ("/srv/disk.img", "holo adopt /srv/disk.img\n"),
    ("/srv/www/queue", "entity file:/srv/www/queue\n"),
    ("/srv/share/file", "file:/srv/share/file is adopted without what no definition can declare: user.origin\n"),
    (
        "/usr/local/bin/listen",
        "file:/usr/local/bin/listen is adopted without what no definition can declare: security.capability\n",
    ),
    ("group crew", "usermod --append --groups crew webd\n"),
    ("group crew", "usermod --append --groups crew,tls www-data\n"),
    ("group tls", "usermod --append --groups crew,tls www-data\n"),
    ("dpkg root adm 750 /usr/bin/edit-alpha", OVERRIDE),
    (
        "dpkg local diversion of /usr/bin/toolbox *",
        "dpkg-divert --local --rename --divert /usr/bin/toolbox.real --add /usr/bin/toolbox\n",
    ),
    ("aging jane", "chage --maxdays 90 --warndays 14 --inactive 30 --expiredate 21915 jane\n"),
    ("aging deploy", "chage --expiredate 22644 deploy\n"),
    ("aging webd", "chage --mindays 1 webd\n"),
    ("password jane", "user:jane is adopted without its password, which is secret\n"),
];

/// The command for an override of an owner and mode.
const OVERRIDE: &str = "dpkg-statoverride --update --add root adm 0750 /usr/bin/edit-alpha\n";
/// The command for a diversion that the clone gets before the first apply, while the package is missing.
const DIVERSION: &str = "dpkg-divert --local --rename --divert /etc/rotate.d/base.distrib --add /etc/rotate.d/base\n";

/// What else is different, with the reason.
const BOOKKEEPING: &[(&str, &str)] = &[
    ("/etc/{passwd,group,shadow,gshadow,subuid,subgid}", "accounts are compared one by one; their order is different"),
    ("/etc/{passwd,group,shadow,gshadow,subuid,subgid}-", "these are backups of the files of accounts"),
    ("{/home/jane,/root}/.ssh/authorized_keys", "comments mark the keys of a key set"),
];

/// What is left on the clone after its resource files are gone and the configuration of removed packages is purged.
const LEFT: &[(&str, &str)] = &[
    ("/etc/{passwd,group,shadow,gshadow,subuid,subgid}", "accounts are compared one by one"),
    ("/etc/{passwd,group,shadow,gshadow,subuid,subgid}-", "these are backups of the files of accounts"),
    ("{user,group,password} {webd,database,crontab,tls}", "scripts of packages made them"),
    ("/etc/webd{,/generated.conf}", "a script of a package made it"),
    ("/var/spool/cron/crontabs", "a script of a package made it"),
    ("/home/jane{,/*,/.ssh/*}", "home directories are kept"),
    ("/srv/home{,/*,/bob/*}", "home directories are kept"),
    ("/root/.ssh{,/*}", "the file of a login is kept"),
    ("dpkg {root adm 750 /usr/bin/edit-alpha,local diversion of /etc/rotate.d/base *}", "commands made them"),
    ("aging {webd,database}", "scripts of packages made the accounts"),
    ("/etc/rotate.d{,/base.distrib}", "dpkg does not purge a configuration file that is diverted"),
    ("locale de_DE*", "a command generated it"),
];

pub(super) fn case_of_a_year() {
    let machine = Overlay::booted();
    machine.must(DISTRIBUTION);
    machine.must(REPOSITORY);
    let fresh = Overlay::booted();
    fresh.must(DISTRIBUTION);
    carry(&machine, &fresh, "/var/lib/vendor");
    for machine in [&machine, &fresh] {
        configure(machine);
        machine.write("/etc/holo/adopt.toml", CHOICES);
        machine.write("/var/tmp/inventory.py", INVENTORY);
    }

    machine.must(YEAR);
    let lived = inventory(&machine);
    let run = machine.holo(&ADOPT);
    assert!(run.success(), "{run}");
    let said = format!("{}{}", run.stdout_lossy(), run.stderr_lossy());
    assert!(said.contains("/etc/holo/adopt.toml includes /srv/gone, which does not exist\n"), "{run}");
    is_in_order(&machine, &run);
    let unchanged = inventory(&machine);
    assert_eq!(differences(&lived, &unchanged), BTreeMap::new(), "{run}");

    let before = inventory(&fresh);
    carry(&machine, &fresh, "/etc/holo/resources");
    assert!(said.contains(DIVERSION), "{run}");
    fresh.must(DIVERSION);
    let first = fresh.holo(&["apply"]);
    let clone = inventory(&fresh);
    let expected: Vec<(&str, &str)> = [NOT_ADOPTED, BOOKKEEPING].concat();
    let clone = unexplained(&differences(&lived, &clone), &expected);
    let silent: Vec<_> = NOT_ADOPTED.iter().filter(|(_, words)| !said.contains(words)).collect();
    assert!(first.success() && silent.is_empty() && clone.is_empty(), "{run}\n{first}\n{clone}\nsilent: {silent:#?}");
    is_in_order(&fresh, &first);
    // The listed commands do what they are listed for.
    let is_for_command = |key: &&(&str, &str)| key.1 == OVERRIDE || key.1.starts_with("chage ");
    let commands: Vec<_> = NOT_ADOPTED.iter().filter(is_for_command).collect();
    fresh.must(&commands.iter().map(|(_, command)| *command).collect::<String>());
    let different = differences(&lived, &inventory(&fresh));
    let ineffective: Vec<_> = commands.iter().filter(|(key, _)| different.contains_key(*key)).collect();
    assert!(ineffective.is_empty(), "{ineffective:#?}\n{different:#?}");

    fresh.must("rm -r /etc/holo/resources");
    let shown = fresh.holo(&["apply"]);
    assert!(shown.success(), "{shown}");
    fresh.must(
        "dpkg --purge $(dpkg-query -W -f '${Package} ${db:Status-Status}\\n' | sed -n 's/ config-files//p') 2>&1",
    );
    let left = unexplained(&differences(&before, &inventory(&fresh)), LEFT);
    assert!(left.is_empty(), "{shown}\n{left}");
}

/// Checks that no entity would be changed, and that nothing is left to adopt.
#[track_caller]
fn is_in_order(machine: &Overlay, run: &Run) {
    let check = machine.holo(&["check"]);
    let said = (check.status, check.stdout_lossy(), check.stderr_lossy());
    assert_eq!(said, (Some(0), "".into(), "".into()), "{run}\n{check}");
    let again = machine.holo(&ADOPT);
    assert_eq!((again.status, again.stdout_lossy().contains("wrote")), (Some(0), false), "{again}");
}

/// Describes the differences that match no pattern, and the patterns without a difference.
fn unexplained(found: &BTreeMap<String, [String; 2]>, expected: &[(&str, &str)]) -> String {
    let patterns: Vec<(&str, Vec<Pattern>)> = expected.iter().map(|(text, _)| (*text, patterns(text))).collect();
    let is_met = |patterns: &[Pattern], key: &str| patterns.iter().any(|pattern| pattern.matches(key));
    let unexplained: Vec<_> =
        found.iter().filter(|(key, _)| !patterns.iter().any(|(_, patterns)| is_met(patterns, key))).collect();
    let unused: BTreeSet<&str> = patterns
        .iter()
        .filter(|(_, patterns)| !found.keys().any(|key| is_met(patterns, key)))
        .map(|(text, _)| *text)
        .collect();
    let is_fine = unexplained.is_empty() && unused.is_empty();
    if is_fine { String::new() } else { format!("{unexplained:#?}\nequal after all: {unused:#?}") }
}

/// Returns the patterns for a text with alternatives in braces.
fn patterns(text: &str) -> Vec<Pattern> {
    let Some((before, rest)) = text.split_once('{') else { return vec![Pattern::new(text).unwrap()] };
    let (choices, after) = rest.split_once('}').unwrap();
    choices.split(',').flat_map(|choice| patterns(&format!("{before}{choice}{after}"))).collect()
}

/// What characterises a machine, by keys such as a path or `package webd`.
type Inventory = BTreeMap<String, String>;

fn inventory(machine: &Overlay) -> Inventory {
    let text = machine.must("python3 /var/tmp/inventory.py").to_str_lossy().into_owned();
    let line = |line: &str| line.split_once('\t').map(|(key, value)| (key.to_owned(), value.to_owned()));
    text.lines().filter_map(line).collect()
}

/// Copies a directory to another machine.
fn carry(from: &Overlay, to: &Overlay, directory: &str) {
    let archive = from.must(&format!("tar -C {directory} -cf - ."));
    to.write("/var/tmp/carried.tar", archive.as_slice());
    to.must(&format!("mkdir -p {directory}; tar -C {directory} -xf /var/tmp/carried.tar; rm /var/tmp/carried.tar"));
}

/// Returns the keys with different values, and both values.
fn differences(one: &Inventory, other: &Inventory) -> BTreeMap<String, [String; 2]> {
    let value = |inventory: &Inventory, key: &String| inventory.get(key).map_or("missing", String::as_str).to_owned();
    let keys = one.keys().chain(other.keys());
    let both = keys.map(|key| (key.clone(), [value(one, key), value(other, key)]));
    both.filter(|(_, [one, other])| one != other).collect()
}
