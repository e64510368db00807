//! The system's own tools create, change and delete users and groups on a disposable copy of this machine.

use bstr::{BString, ByteSlice};
use holo_testing::overlay::NEEDS;
use holo_testing::random::{self, Random};
use holo_testing::{Need, Overlay, Run, trial_of};
use libtest_mimic::Trial;
use std::fmt::Write;
use std::fs;

const DEFINITIONS: &str = "/usr/share/holo/users-groups/01.toml";
/// Kills the plugin that called a tool, which is the grandparent: the parent is the process that enforces the timeout.
const KILL: &str = "kill -KILL \"$(sed -n 's/^PPid:[[:blank:]]*//p' \"/proc/$PPID/status\")\"";
const STATE: &str = "/var/lib/holo/users-groups";

/// The name service of systemd, which reads records of groups from files.
const DIRECTORY_SERVICE: Need = Need::Trial("libnss-systemd", || {
    let directories = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    { directories }.any(|directory| directory.path().join("libnss_systemd.so.2").exists())
});

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [(&str, fn()); 34] = [
        ("a hundred users are created in one run", hundred),
        ("check prints commands and runs none", check),
        ("all attributes of a definition are applied", everything),
        ("a changed definition of a provisioned account needs force", changed_definition),
        ("groups that are no longer defined are left", left_groups),
        ("a manual change needs force", changed_by_person),
        ("a deleted account is restored by force with the same number", deleted_by_person),
        ("orphans are restored or deleted, users before their groups", scrubbed),
        ("an orphan with a running process is neither deleted nor forgotten", running_process),
        ("a user who is logged in keeps the UID until the next apply", uid_in_use),
        ("an orphan that is a login group is neither deleted nor forgotten", group_in_use),
        ("a number that is taken is refused without leaving state", number_taken),
        ("a missing group is named in the error", missing_group),
        ("check fails where the tools would", foreseen),
        ("an apply killed after a command is completed by the next one", killed),
        ("a tool that succeeds without effect is an error", pretender),
        ("locked files delay an apply", locked),
        ("a group that is managed or older than its user's entity is not deleted with the user", group_of_the_name),
        ("scrubbing reverses the order of definitions", scrubbed_in_order),
        ("a user is created when its condition holds, and kept when it no longer does", condition),
        ("retries, timeouts and health checks can be defined", attempts),
        ("a renamed user keeps its identity", another_name),
        ("a renamed user from before the first apply gets its original name back", name_from_before),
        ("an original name that is in use is not restored", name_in_use),
        ("an original name that an orphan uses is restored after that orphan is scrubbed", name_of_an_orphan),
        ("a renamed group keeps its identity and its members", another_group_name),
        ("renaming a manually changed user needs force", changed_before_another_name),
        ("an apply killed during a rename is resumed by the next one", killed_at_another_name),
        ("an apply killed during a change is recorded by the next one", killed_at_a_change),
        ("random definitions are undone when all definitions are removed", random_definitions),
        ("changes are reported in JSON output", changes_in_json),
        ("a failure without changes triggers no refresh", failed_unchanged),
        ("a login group without a name is restored by its number", nameless_login_group),
        ("another home directory is made if that is declared", another_home),
    ];
    let needs = [
        NEEDS,
        &["useradd", "usermod", "userdel", "groupadd", "groupmod", "groupdel", "mkhomedir_helper"].map(Need::Program),
    ]
    .concat();
    let elsewhere = [&needs[..], &[DIRECTORY_SERVICE]].concat();
    let elsewhere = trial_of("a login group can come from a directory service", &elsewhere, login_group_elsewhere);
    cases.map(|(name, case)| trial_of(name, &needs, case)).into_iter().chain([elsewhere]).collect()
}

/// Returns a system with these definitions.
fn system(definitions: &str) -> Overlay {
    Overlay::new().plugin("users-groups").resource("users-groups/01.toml", definitions)
}

#[track_caller]
fn ok(run: &Run) {
    assert!(run.success() && run.stderr.is_empty(), "{run}");
}

/// Asserts that an apply fails or is refused with a message.
#[track_caller]
fn fails(system: &Overlay, arguments: &[&str], words: &str) {
    let run = system.holo(arguments);
    assert!(run.status == Some(1) && run.stderr_lossy().contains(words), "expected: {words}\n{run}");
}

/// Asserts that a check reports a pending change.
#[track_caller]
fn pending(system: &Overlay, words: &str) {
    let run = system.holo(&["check"]);
    let said = [run.stdout_lossy(), run.stderr_lossy()].concat();
    assert!(run.status == Some(3) && said.contains(words), "expected: {words}\n{run}");
}

/// Asserts that there is nothing to apply.
#[track_caller]
fn settled(system: &Overlay) {
    let run = system.holo(&["apply"]);
    assert!(run.success() && run.stdout.is_empty() && run.stderr.is_empty(), "{run}");
    ok(&system.holo(&["check"]));
}

/// Returns a line of passwd or group without the password field.
#[track_caller]
fn line(system: &Overlay, file: &str, name: &str) -> String {
    let text = system.read(format!("/etc/{file}"));
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with(format!("{name}:").as_bytes())).collect();
    assert!(lines.len() < 2, "{name} has more than one line");
    lines.first().map(|line| line.to_str_lossy().replace(":x:", ":")).unwrap_or_default()
}

fn provisioned(system: &Overlay, id: &str) -> BString {
    system.read(format!("{STATE}/provisioned/{id}.toml"))
}

fn left_groups() {
    let define = |rest: &str| format!("[[user]]\nname = \"adam\"\n{rest}\n");
    let mut system = system(&define("groups = [\"adm\", \"video\"]"));
    ok(&system.run("useradd", &["--groups", "games", "adam"]));
    ok(&system.holo(&["apply"]));
    let groups = |system: &Overlay| {
        let run = system.run("id", &["-nG", "adam"]);
        let mut groups: Vec<String> = run.stdout_lossy().split_whitespace().skip(1).map(str::to_owned).collect();
        groups.sort();
        groups.join(",")
    };
    assert_eq!(groups(&system), "adm,games,video");
    // The rule of version 3.
    system = system.resource("users-groups/01.toml", define("skipBaseGroups = true"));
    for command in ["check", "apply"] {
        let run = system.holo(&[command]);
        assert!(run.success() && run.stderr_lossy().contains(">> user:adam stays in adm,video, which"), "{run}");
    }
    system = system.resource("users-groups/01.toml", define("groups = [\"video\"]"));
    fails(&system, &["apply"], "stays in adm, which is not defined any more");
    // The rule of version 4, also with a person's group.
    ok(&system.run("usermod", &["--append", "--groups", "plugdev", "adam"]));
    system = system.resource("users-groups/01.toml", define("groups = [\"video\"]\nexact_groups = false"));
    pending(&system, "would run usermod --groups games,plugdev,video adam");
    ok(&system.holo(&["apply"]));
    assert_eq!(groups(&system), "games,plugdev,video");
    settled(&system);
    system = system.resource("users-groups/01.toml", define("retries = 1"));
    ok(&system.holo(&["apply"]));
    assert_eq!(groups(&system), "games,plugdev");
    // All others are left too.
    system = system.resource("users-groups/01.toml", define("groups = [\"games\"]\nexact_groups = true"));
    ok(&system.holo(&["apply"]));
    assert_eq!(groups(&system), "games");
    ok(&system.run("usermod", &["--append", "--groups", "audio", "adam"]));
    fails(&system, &["apply"], "has been modified by user");
    ok(&system.holo(&["apply", "--force"]));
    assert_eq!(groups(&system), "games");
    system = system.resource("users-groups/01.toml", define("exact_groups = true"));
    ok(&system.holo(&["apply"]));
    assert_eq!(groups(&system), "");
    settled(&system);
    ok(&system.run("rm", &[DEFINITIONS]));
    ok(&system.holo(&["apply"]));
    assert_eq!(groups(&system), "games");
}

fn hundred() {
    let mut definitions = String::from("[[group]]\nname = \"crowd\"\ngid = 7000\n");
    for number in 1..=100 {
        let user = format!(
            "[[user]]\nname = \"holo{number}\"\nuid = {}\ngroup = \"crowd\"\ngroups = [\"audio\"]\n",
            7000 + number
        );
        definitions.push_str(&user);
    }
    let system = system(&definitions);
    let run = system.holo(&["apply"]);
    ok(&run);
    assert_eq!(run.stdout_lossy().matches("Working on user:holo").count(), 100);
    for number in [1, 57, 100] {
        let (name, uid) = (format!("holo{number}"), 7000 + number);
        assert!(line(&system, "passwd", &name).starts_with(&format!("{name}:{uid}:7000:")));
    }
    let members = line(&system, "group", "audio");
    assert_eq!(members.matches("holo").count(), 100, "{members}");
    settled(&system);
    system.write(DEFINITIONS, "");
    ok(&system.holo(&["apply"]));
    assert_eq!(
        system.must("grep -c holo /etc/passwd /etc/group /etc/shadow || true"),
        "/etc/passwd:0\n/etc/group:0\n/etc/shadow:0\n"
    );
    assert_eq!(system.must(&format!("find {STATE} -type f")), "");
}

fn check() {
    let system = system(
        "[[user]]\nname = \"anne\"\ncomment = \"Anne B\"\ngroup = \"crew\"\n[[group]]\nname = \"crew\"\nsystem = true\n",
    );
    let before = system.must("cd /etc; sha256sum passwd group shadow gshadow");
    let run = system.holo(&["check"]);
    assert_eq!(run.status, Some(3), "{run}");
    let words = run.stdout_lossy();
    assert!(words.contains("\nwould run useradd --comment 'Anne B' --gid crew anne\n"), "{run}");
    assert!(words.contains("\nwould run groupadd --system crew\n"), "{run}");
    assert_eq!(system.must("cd /etc; sha256sum passwd group shadow gshadow"), before);
    assert!(!system.exists(format!("{STATE}/base")));
    ok(&system.holo(&["apply"]));
    settled(&system);
    system.must("usermod --shell /bin/false anne");
    pending(&system, "use --force to overwrite");
    system.must("userdel anne");
    pending(&system, "use --force to restore");
    system.write(DEFINITIONS, "");
    let run = system.holo(&["check"]);
    assert!(run.stdout_lossy().contains("\nwould run groupdel crew\n"), "{run}");
    assert!(run.stdout_lossy().contains("\nwould forget user:anne, which is gone\n"), "{run}");
}

fn everything() {
    let definitions = "[[group]]\nname = \"crew\"\ngid = 7001\n[[group]]\nname = \"own\"\nsystem = true\n[[user]]\nname = \"anne\"\nuid = 7002\n\
                       comment = \"Anne B\"\nhome = \"/srv/anne\"\ngroup = \"crew\"\ngroups = [\"video\", \"own\"]\nshell = \"/bin/dash\"\n\
                       [[user]]\nname = \"daemond\"\nsystem = true\n";
    let system = system(definitions);
    ok(&system.holo(&["apply"]));
    assert_eq!(line(&system, "passwd", "anne"), "anne:7002:7001:Anne B:/srv/anne:/bin/dash");
    let image = "[[user]]\nname = \"anne\"\ncomment = \"Anne B\"\nuid = 7002\nhome = \"/srv/anne\"\ngroup = \"crew\"\n\
                 groups = [\"own\", \"video\"]\nshell = \"/bin/dash\"\n";
    assert_eq!(provisioned(&system, "user:anne"), image);
    assert_eq!(system.read(format!("{STATE}/base/user:anne.toml")), "[[user]]\nname = \"anne\"\n");
    // A number that the system has chosen is recorded too.
    let daemon = line(&system, "passwd", "daemond");
    let uid: u32 = daemon.split(':').nth(1).unwrap().parse().unwrap();
    assert!(uid < 1000, "{daemon}");
    assert!(provisioned(&system, "user:daemond").contains_str(format!("uid = {uid}\n")));
    settled(&system);
}

fn changed_definition() {
    let definition = |shell: &str, more: &str| format!("[[user]]\nname = \"anne\"\nshell = \"{shell}\"\n{more}");
    let system = system(&definition("/bin/sh", "groups = [\"video\"]\n"));
    ok(&system.holo(&["apply"]));
    system.write(DEFINITIONS, definition("/bin/dash", "groups = [\"audio\"]\nuid = 7003\ncomment = \"A\"\n"));
    fails(&system, &["apply"], "use --force to overwrite");
    ok(&system.holo(&["apply", "--force"]));
    let now = line(&system, "passwd", "anne");
    assert!(now.starts_with("anne:7003:") && now.ends_with(":/bin/dash") && now.contains(":A:"), "{now}");
    assert!(line(&system, "group", "audio").contains("anne") && !line(&system, "group", "video").contains("anne"));
    settled(&system);
}

fn changed_by_person() {
    let system = system("[[user]]\nname = \"anne\"\nshell = \"/bin/dash\"\n[[group]]\nname = \"crew\"\ngid = 7001\n");
    ok(&system.holo(&["apply"]));
    system.must("usermod --shell /bin/false anne; groupmod --gid 7009 crew");
    let refused = system.holo(&["apply"]);
    assert_eq!(refused.stderr_lossy().matches("use --force to overwrite").count(), 2, "{refused}");
    assert!(
        refused.stdout_lossy().contains("\n    -shell = \"/bin/dash\"\n    +shell = \"/bin/false\"\n"),
        "{refused}"
    );
    assert!(line(&system, "passwd", "anne").ends_with(":/bin/false"));
    ok(&system.holo(&["apply", "--force"]));
    assert!(line(&system, "passwd", "anne").ends_with(":/bin/dash"));
    assert!(line(&system, "group", "crew").starts_with("crew:7001:"));
    settled(&system);
    // Attributes that were never provisioned may be changed freely.
    system.must("usermod --comment Person anne");
    settled(&system);
    system.must("usermod --groups crew anne");
    settled(&system);
    system.must("usermod --groups audio,crew --comment Other anne");
    pending(&system, "use --force to overwrite");
}

fn deleted_by_person() {
    let system = system("[[user]]\nname = \"anne\"\n");
    ok(&system.holo(&["apply"]));
    let before = line(&system, "passwd", "anne");
    system.must("userdel anne; useradd other");
    fails(&system, &["apply"], "use --force to restore");
    assert_eq!(line(&system, "passwd", "anne"), "");
    // The old number is taken now, which the tool reports in its own words.
    fails(&system, &["apply", "--force"], "is not unique");
    system.must("userdel other");
    ok(&system.holo(&["apply", "--force"]));
    assert_eq!(line(&system, "passwd", "anne").split(':').nth(1), before.split(':').nth(1));
    settled(&system);
}

fn scrubbed() {
    let system = Overlay::new().plugin("users-groups");
    system
        .must("groupadd --gid 7005 old; useradd --uid 7005 --gid old --comment Old --shell /bin/sh --groups audio old");
    let (user, group, audio) =
        (line(&system, "passwd", "old"), line(&system, "group", "old"), line(&system, "group", "audio"));
    let definitions = "[[user]]\nname = \"old\"\nuid = 5006\ncomment = \"New\"\nhome = \"/srv/old\"\ngroup = \"crew\"\ngroups = [\"video\"]\n\
                       shell = \"/bin/dash\"\nskipBaseGroups = true\n[[group]]\nname = \"old\"\ngid = 5006\n[[group]]\nname = \"crew\"\n\
                       [[user]]\nname = \"new\"\ngroup = \"crew\"\n";
    system.write(DEFINITIONS, definitions);
    ok(&system.holo(&["apply", "--force"]));
    let gid = line(&system, "group", "crew").split(':').nth(1).unwrap().to_owned();
    assert_eq!(line(&system, "passwd", "old"), format!("old:5006:{gid}:New:/srv/old:/bin/dash"));
    assert!(!line(&system, "group", "audio").contains("old") && line(&system, "group", "video").contains("old"));
    settled(&system);
    system.must(&format!("rm {DEFINITIONS}"));
    ok(&system.holo(&["apply"]));
    assert_eq!((line(&system, "passwd", "old"), line(&system, "group", "old")), (user, group));
    assert_eq!(line(&system, "group", "audio"), audio);
    // The login group can be deleted only after its last user.
    assert_eq!((line(&system, "passwd", "new"), line(&system, "group", "crew")), (String::new(), String::new()));
    assert_eq!(system.must(&format!("find {STATE} -type f")), "");
    settled(&system);
}

fn running_process() {
    let system = system("[[user]]\nname = \"anne\"\n");
    ok(&system.holo(&["apply"]));
    let busy =
        system.background("exec setpriv --reuid anne --regid anne --clear-groups sh -c 'echo ready; exec sleep 600'");
    system.write(DEFINITIONS, "");
    fails(&system, &["apply"], "userdel: user anne is currently used by process");
    fails(&system, &["apply"], "!! userdel anne failed: exit status 8");
    assert!(!line(&system, "passwd", "anne").is_empty());
    busy.end();
    ok(&system.holo(&["apply"]));
    assert_eq!(line(&system, "passwd", "anne"), "");
    settled(&system);
}

fn uid_in_use() {
    let system = system("[[user]]\nname = \"anne\"\nuid = 7007\n");
    ok(&system.holo(&["apply"]));
    let busy =
        system.background("exec setpriv --reuid anne --regid anne --clear-groups sh -c 'echo ready; exec sleep 600'");
    system.write(DEFINITIONS, "[[user]]\nname = \"anne\"\nuid = 7008\n");
    fails(&system, &["apply", "--force"], "!! usermod --uid 7008 anne failed: exit status 8");
    assert!(provisioned(&system, "user:anne").contains_str("uid = 7007\n"));
    busy.end();
    ok(&system.holo(&["apply", "--force"]));
    assert!(line(&system, "passwd", "anne").starts_with("anne:7008:"));
    settled(&system);
}

fn group_in_use() {
    let system = system("[[group]]\nname = \"crew\"\n");
    ok(&system.holo(&["apply"]));
    system.must("useradd --gid crew person");
    system.write(DEFINITIONS, "");
    fails(&system, &["apply"], "groupdel: cannot remove the primary group of user 'person'");
    assert!(!line(&system, "group", "crew").is_empty());
    system.must("userdel person");
    ok(&system.holo(&["apply"]));
    assert_eq!(line(&system, "group", "crew"), "");
}

fn number_taken() {
    let system = system("[[user]]\nname = \"anne\"\nuid = 7009\n[[group]]\nname = \"crew\"\ngid = 7009\n");
    system.must("useradd --uid 7009 person; groupmod --gid 7009 person");
    let run = system.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(
        run.stderr_lossy()
            .contains("useradd: UID 7009 is not unique\n!! useradd --uid 7009 anne failed: exit status 4\n"),
        "{run}"
    );
    assert!(
        run.stderr_lossy()
            .contains("groupadd: GID '7009' already exists\n!! groupadd --gid 7009 crew failed: exit status 4\n"),
        "{run}"
    );
    // An account of this name that is created now belongs to the person who created it.
    assert_eq!(system.must(&format!("find {STATE} -type f")), "");
    system.must("userdel person; useradd --uid 7009 --comment Person anne");
    let group = line(&system, "group", "anne");
    ok(&system.holo(&["apply", "user:anne"]));
    system.write(DEFINITIONS, "");
    ok(&system.holo(&["apply"]));
    assert!(line(&system, "passwd", "anne").starts_with("anne:7009:") && !group.is_empty());
}

fn missing_group() {
    let system = system("[[user]]\nname = \"anne\"\ngroups = [\"nowhere\"]\n[[user]]\nname = \"bert\"\n");
    fails(
        &system,
        &["apply"],
        "useradd: group 'nowhere' does not exist\n!! useradd --groups nowhere anne failed: exit status 6\n",
    );
    assert!(!line(&system, "passwd", "bert").is_empty(), "the others go on");
}

fn foreseen() {
    let mut system =
        system("[[user]]\nname = \"anne\"\nuid = 7009\n[[user]]\nname = \"bert\"\ngroups = [\"nowhere\"]\n");
    system.must("useradd --uid 7009 person; groupmod --gid 7008 person");
    fails(&system, &["check"], "!! useradd --uid 7009 anne would fail: UID 7009 belongs to user:person\n");
    fails(&system, &["check"], "!! useradd --groups nowhere bert would fail: there is no group:nowhere\n");
    // What another definition makes or frees is no obstacle.
    let group = "[[group]]\nname = \"nowhere\"\n[[user]]\nname = \"bert\"\ngroups = [\"nowhere\"]\n";
    system = system.resource("users-groups/01.toml", group);
    pending(&system, "would run useradd --groups nowhere bert");
    ok(&system.holo(&["apply"]));
    system = system.resource("users-groups/01.toml", "[[group]]\nname = \"new\"\n");
    system.must("mv /usr/sbin/groupadd /srv");
    fails(&system, &["check"], "!! groupadd new would fail: groupadd is not installed\n");
}

fn killed() {
    let mut definitions = String::from("[[group]]\nname = \"crew\"\n");
    for name in ["anne", "bert"] {
        let _ = write!(
            definitions,
            "[[user]]\nname = \"{name}\"\ngroup = \"crew\"\ngroups = [\"audio\"]\nshell = \"/bin/dash\"\n"
        );
    }
    let system = system(&definitions);
    system.must("mv /usr/sbin/useradd /usr/sbin/useradd.real");
    system.script("/usr/sbin/useradd", format!("#!/bin/sh\nuseradd.real \"$@\"\n{KILL}\n"));
    let run = system.holo(&["apply"]);
    assert!(run.status == Some(1), "{run}");
    assert!(!line(&system, "passwd", "anne").is_empty());
    assert!(system.exists(format!("{STATE}/base/user:anne.toml")));
    assert!(!system.exists(format!("{STATE}/provisioned/user:anne.toml")));
    system.must("mv /usr/sbin/useradd.real /usr/sbin/useradd");
    ok(&system.holo(&["apply"]));
    assert!(provisioned(&system, "user:anne").contains_str("shell = \"/bin/dash\"\n"));
    settled(&system);
    // The accounts are recorded as provisioned by holo.
    system.must("mv /usr/sbin/userdel /usr/sbin/userdel.real");
    system.script("/usr/sbin/userdel", format!("#!/bin/sh\nuserdel.real \"$@\"\n{KILL}\n"));
    system.write(DEFINITIONS, "");
    let run = system.holo(&["apply"]);
    assert!(run.status == Some(1) && line(&system, "passwd", "anne").is_empty(), "{run}");
    system.must("mv /usr/sbin/userdel.real /usr/sbin/userdel");
    ok(&system.holo(&["apply"]));
    assert_eq!((line(&system, "passwd", "bert"), line(&system, "group", "crew")), (String::new(), String::new()));
    assert_eq!(system.must(&format!("find {STATE} -type f")), "");
}

fn pretender() {
    let system = system("[[user]]\nname = \"anne\"\nshell = \"/bin/dash\"\n");
    system.must("mv /usr/sbin/useradd /usr/sbin/useradd.real");
    system.script("/usr/sbin/useradd", "#!/bin/sh\n");
    fails(&system, &["apply"], "!! user:anne does not exist after the command\n");
    system.script("/usr/sbin/useradd", "#!/bin/sh\nuseradd.real --uid 7010 anne\n");
    fails(
        &system,
        &["apply"],
        "!! user:anne is not in its desired state: login shell is /bin/sh instead of /bin/dash\n",
    );
    assert!(!system.exists(format!("{STATE}/provisioned/user:anne.toml")));
    system.write(DEFINITIONS, "");
    system.must("mv /usr/sbin/userdel /usr/sbin/userdel.real");
    system.script("/usr/sbin/userdel", "#!/bin/sh\n");
    fails(&system, &["apply"], "!! user:anne still exists after userdel anne\n");
    assert!(system.exists(format!("{STATE}/base/user:anne.toml")));
}

fn locked() {
    let system = system("[[user]]\nname = \"anne\"\n");
    // The owner of the lock is alive, so the tools respect the lock.
    let owner =
        system.background("printf %s $$ >/etc/passwd.lock; echo ready; sleep 4; rm /etc/passwd.lock; sleep 600");
    let run = system.holo(&["apply"]);
    ok(&run);
    assert!(!line(&system, "passwd", "anne").is_empty());
    owner.end();
}

fn condition() {
    let anne = |condition: &str| format!("[[user]]\nname = \"anne\"\nif = \"facts.site == '{condition}'\"\n");
    let system = system(&[&anne("north"), "[[user]]\nname = \"bert\"\n"].concat());
    system.write("/etc/holo/facts.d/site.toml", "site = \"south\"\n");
    ok(&system.holo(&["apply"]));
    assert_eq!(line(&system, "passwd", "anne"), "");
    assert!(!line(&system, "passwd", "bert").is_empty());
    settled(&system);
    system.write("/etc/holo/facts.d/site.toml", "site = \"north\"\n");
    pending(&system, "would run useradd anne");
    ok(&system.holo(&["apply"]));
    let made = line(&system, "passwd", "anne");
    assert!(!made.is_empty());
    // A further skipped definition makes no difference.
    system.write("/usr/share/holo/users-groups/02.toml", anne("west"));
    settled(&system);
    system.write("/etc/holo/facts.d/site.toml", "site = \"south\"\n");
    settled(&system);
    assert_eq!(line(&system, "passwd", "anne"), made);
    system.write(DEFINITIONS, "");
    system.must("rm /usr/share/holo/users-groups/02.toml");
    ok(&system.holo(&["apply"]));
    assert_eq!(line(&system, "passwd", "anne"), "");
}

fn attempts() {
    let definition = |more: &str| format!("[[user]]\nname = \"anne\"\n{more}");
    let system = system(&definition("retries = 1\nretry_delay = \"10ms\"\n"));
    system.must("mv /usr/sbin/useradd /usr/sbin/useradd.real");
    system.script(
        "/usr/sbin/useradd",
        "#!/bin/sh\n[ -e /srv/tried ] || { touch /srv/tried; exit 3; }\nexec useradd.real \"$@\"\n",
    );
    let run = system.holo(&["apply"]);
    assert!(run.success(), "{run}");
    let complaint = "!! useradd anne failed: exit status 3\n>> trying again in 10ms (1 of 1)\n";
    assert!(run.stderr_lossy().contains(complaint), "{run}");
    settled(&system);
    // Also if no change was needed.
    system.write(DEFINITIONS, definition("health_check = [{ command = \"test -d /srv/anne\" }]\n"));
    fails(&system, &["apply"], "!! health check `test -d /srv/anne`: warning: exit status 1\n");
    system.must("mkdir /srv/anne");
    settled(&system);
    system.must("mv /usr/sbin/usermod /usr/sbin/usermod.real");
    system.script("/usr/sbin/usermod", "#!/bin/sh\nexec sleep 600\n");
    system.write(DEFINITIONS, definition("comment = \"A\"\ntimeout = \"100ms\"\n"));
    fails(&system, &["apply", "--force"], "!! usermod --comment A anne failed: timed out");
}

fn group_of_the_name() {
    let group = "[[group]]\nname = \"anne\"\n[[group]]\nname = \"bert\"\n";
    let users = "[[user]]\nname = \"anne\"\ngroup = \"anne\"\n[[user]]\nname = \"bert\"\ngroup = \"bert\"\n[[user]]\nname = \"own\"\n";
    let system = system(&[group, users].concat());
    system.must("groupadd --gid 7077 bert");
    ok(&system.holo(&["apply"]));
    let anne = line(&system, "group", "anne");
    assert!(!anne.is_empty() && !line(&system, "group", "own").is_empty());
    system.write(DEFINITIONS, group);
    ok(&system.holo(&["apply"]));
    assert_eq!(line(&system, "passwd", "anne"), "");
    // The group keeps its GID, and so the ownership of its files.
    assert_eq!(line(&system, "group", "anne"), anne);
    settled(&system);
    // userdel deletes the group that useradd created.
    assert_eq!(line(&system, "group", "own"), "");
    system.write(DEFINITIONS, [group, users].concat());
    ok(&system.holo(&["apply"]));
    system.write(DEFINITIONS, "");
    ok(&system.holo(&["apply"]));
    assert_eq!((line(&system, "group", "anne"), line(&system, "group", "bert")), (String::new(), "bert:7077:".into()));
    assert_eq!(system.must(&format!("find {STATE} -type f")), "");
}

fn scrubbed_in_order() {
    let system = system(
        "[[user]]\nname = \"anne\"\nrequires = [\"user:zoe\"]\n[[user]]\nname = \"bert\"\n[[user]]\nname = \"zoe\"\nafter = [\"user:bert\"]\n",
    );
    let order = |run: &Run| -> Vec<String> {
        let lines = run.stdout_lossy();
        let names = lines.lines().filter_map(|line| line.split_once(" user:"));
        names.map(|(_, name)| name.split(' ').next().unwrap().to_owned()).collect()
    };
    let run = system.holo(&["apply"]);
    ok(&run);
    assert_eq!(order(&run), ["bert", "zoe", "anne"]);
    settled(&system);
    system.write(DEFINITIONS, "[[user]]\nname = \"bert\"\n");
    let run = system.holo(&["apply"]);
    ok(&run);
    assert_eq!(order(&run), ["anne", "zoe"]);
    system.write(DEFINITIONS, "[[user]]\nname = \"bert\"\nafter = [\"user:nobody\"]\n");
    let run = system.holo(&["apply"]);
    let words = "bert: comes after user:nobody, which does not exist\n";
    assert!(run.success() && run.stdout.trim().is_empty() && run.stderr_lossy().ends_with(words), "{run}");
    system.write(DEFINITIONS, "");
    ok(&system.holo(&["apply"]));
    assert_eq!(system.must(&format!("find {STATE} -type f")), "");
}

fn user(name: &str, more: &str) -> String {
    format!("[[user]]\nname = \"{name}\"\nuid = 7100\n{more}")
}

/// Returns the account files, without backups.
fn databases(system: &Overlay) -> BString {
    system.must("cd /etc; sort passwd; sort group; sort shadow | cut -d: -f1,2; sort gshadow")
}

/// Asserts that everything is restored when all definitions are removed.
#[track_caller]
fn all_gone(system: &Overlay, before: &BString) {
    system.write(DEFINITIONS, "");
    ok(&system.holo(&["apply"]));
    assert_eq!(databases(system), *before);
    assert_eq!(system.must(&format!("find {STATE} -type f")), "");
    settled(system);
}

#[track_caller]
fn takes_over(system: &Overlay, new: &str, old: &str) {
    let run = system.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert_eq!(run.stderr_lossy(), format!("\n>> {new} takes over from {old}\n").trim_start(), "{run}");
    assert!(!run.stdout_lossy().contains("Scrubbing"), "{run}");
}

fn another_name() {
    let system = system(&user("anne", "groups = [\"audio\"]\ncomment = \"Anne\"\n"));
    let before = databases(&system);
    ok(&system.holo(&["apply"]));
    let anne = line(&system, "passwd", "anne");
    let gid = line(&system, "group", "anne");
    for (old, new) in [("anne", "bert"), ("bert", "carl"), ("carl", "anne")] {
        system.write(DEFINITIONS, user(new, "groups = [\"audio\"]\ncomment = \"Anne\"\n"));
        pending(&system, &format!("would run usermod --login {new} {old}\n"));
        assert!(system.holo(&["diff"]).stdout_lossy().contains(&format!("\n-name = \"{new}\"\n+name = \"{old}\"\n")));
        takes_over(&system, &format!("user:{new}"), &format!("user:{old}"));
        assert_eq!(line(&system, "passwd", old), "");
        // This includes the home directory, which is not defined.
        assert_eq!(line(&system, "passwd", new), anne.replacen("anne:", &format!("{new}:"), 1));
        assert_eq!(line(&system, "group", new), gid.replacen("anne:", &format!("{new}:"), 1));
        assert!(line(&system, "group", "audio").ends_with(new));
        settled(&system);
    }
    all_gone(&system, &before);
}

fn name_from_before() {
    let system = Overlay::new().plugin("users-groups");
    system.must("useradd --uid 7100 --comment Old --home-dir /srv/old --shell /bin/sh --groups audio old");
    let before = databases(&system);
    system.write(DEFINITIONS, user("old", "shell = \"/bin/dash\"\n"));
    ok(&system.holo(&["apply", "--force"]));
    for (new, old) in [("newer", "old"), ("newest", "newer")] {
        system.write(DEFINITIONS, user(new, "shell = \"/bin/dash\"\n"));
        takes_over(&system, &format!("user:{new}"), &format!("user:{old}"));
        settled(&system);
    }
    // The user's group also existed before.
    assert!(
        line(&system, "passwd", "newest").ends_with(":Old:/srv/old:/bin/dash")
            && line(&system, "group", "newest").is_empty()
    );
    let (definition, names) = (system.read(DEFINITIONS), system.must(&format!("cat {STATE}/base/*")));
    assert_eq!(names.find_iter("name = \"newest\"").count(), 1, "version 3 can use it: {names}");
    system.write(DEFINITIONS, "");
    pending(&system, "would run usermod --login old --shell /bin/sh newest\n");
    all_gone(&system, &before);
    system.write(DEFINITIONS, definition);
    assert!(system.holo(&["apply"]).stderr_lossy().contains("useradd: UID 7100 is not unique"));
}

fn name_in_use() {
    let system = Overlay::new().plugin("users-groups");
    system.must("useradd --uid 7100 --shell /bin/sh old");
    system.write(DEFINITIONS, user("old", "shell = \"/bin/sh\"\n"));
    ok(&system.holo(&["apply"]));
    system.write(DEFINITIONS, user("newer", "shell = \"/bin/sh\"\n"));
    takes_over(&system, "user:newer", "user:old");
    // Another account has the name now, first by definition, then created by a person.
    system.write(DEFINITIONS, "[[user]]\nname = \"bert\"\nuid = 7101\n");
    system.must("useradd --uid 7105 --no-user-group old");
    ok(&system.holo(&["apply"]));
    assert!(line(&system, "passwd", "newer").starts_with("newer:7100:"));
    assert!(line(&system, "passwd", "old").starts_with("old:7105:"));
    settled(&system);
}

fn name_of_an_orphan() {
    let system = Overlay::new().plugin("users-groups");
    system.must("useradd --uid 7100 old");
    let before = databases(&system);
    system.write(DEFINITIONS, user("old", ""));
    ok(&system.holo(&["apply"]));
    system.write(DEFINITIONS, user("newer", ""));
    takes_over(&system, "user:newer", "user:old");
    // A new definition uses the original name, and is scrubbed first.
    system.write(DEFINITIONS, user("newer", "[[user]]\nname = \"old\"\nuid = 7101\ngroup = \"audio\"\n"));
    ok(&system.holo(&["apply"]));
    assert!(line(&system, "passwd", "old").starts_with("old:7101:"));
    settled(&system);
    system.write(DEFINITIONS, "");
    // userdel may print a message about a group of that name that is not the user's.
    assert!(system.holo(&["apply"]).success());
    assert_eq!(databases(&system), before);
}

fn another_group_name() {
    let system = Overlay::new().plugin("users-groups");
    system.must(
        "useradd --uid 7110 --groups audio member; groupadd --gid 7102 old; usermod --append --groups old member",
    );
    let before = databases(&system);
    let member = "[[user]]\nname = \"member\"\nshell = \"/bin/dash\"\n";
    let group = |name: &str, gid: u32| format!("[[group]]\nname = \"{name}\"\ngid = {gid}\n");
    system.write(DEFINITIONS, [member, &group("old", 7102), &group("ours", 7103)].concat());
    ok(&system.holo(&["apply", "--force"]));
    let renamed = [member, &group("newer", 7102), &group("theirs", 7103)].concat();
    system.write(DEFINITIONS, &renamed);
    let run = system.holo(&["apply"]);
    let said = run.stderr_lossy();
    assert!(run.success() && said.contains(">> group:newer takes over from group:old\n"), "{run}");
    assert!(said.contains(">> group:theirs takes over from group:ours\n"), "{run}");
    assert_eq!(line(&system, "group", "newer"), "newer:7102:member");
    assert_eq!(line(&system, "group", "theirs"), "theirs:7103:");
    settled(&system);
    // The group is renamed back when its definition is removed while the user stays.
    system.write(DEFINITIONS, member);
    ok(&system.holo(&["apply"]));
    assert_eq!(line(&system, "group", "old"), "old:7102:member");
    system.write(DEFINITIONS, [member, &group("old", 7102)].concat());
    assert!(system.holo(&["apply", "--force"]).success());
    system.write(DEFINITIONS, [member, &group("newer", 7102)].concat());
    takes_over(&system, "group:newer", "group:old");
    all_gone(&system, &before);
}

fn changed_before_another_name() {
    let system = system(&user("anne", "shell = \"/bin/dash\"\n"));
    ok(&system.holo(&["apply"]));
    system.must("usermod --shell /bin/false anne");
    system.write(DEFINITIONS, user("bert", "shell = \"/bin/dash\"\n"));
    fails(&system, &["apply"], "use --force to overwrite");
    assert!(line(&system, "passwd", "anne").ends_with(":/bin/false"));
    assert!(
        system.exists(format!("{STATE}/base/user:anne.toml")) && !system.exists(format!("{STATE}/base/user:bert.toml"))
    );
    assert!(system.holo(&["apply", "--force"]).success());
    assert!(line(&system, "passwd", "bert").ends_with(":/bin/dash"));
    settled(&system);
}

/// Replaces a tool with a script. The original gets the suffix `.real`.
fn wrap(system: &Overlay, tool: &str, script: &str) {
    system.must(&format!("mv /usr/sbin/{tool} /usr/sbin/{tool}.real"));
    system.script(format!("/usr/sbin/{tool}"), format!("#!/bin/sh\n{script}\n"));
}

fn unwrap(system: &Overlay, tool: &str) {
    system.must(&format!("mv /usr/sbin/{tool}.real /usr/sbin/{tool}"));
}

fn killed_at_another_name() {
    let kills = [
        ("usermod", KILL.to_owned()),
        ("usermod", format!("usermod.real \"$@\"\n{KILL}")),
        ("groupmod", KILL.to_owned()),
        ("groupmod", format!("groupmod.real \"$@\"\n{KILL}")),
    ];
    for (tool, script) in kills {
        let system = system(&user("anne", ""));
        let before = databases(&system);
        ok(&system.holo(&["apply"]));
        let anne = line(&system, "passwd", "anne");
        for next in ["bert", ""] {
            wrap(&system, tool, &script);
            system.write(DEFINITIONS, user("bert", ""));
            let run = system.holo(&["apply"]);
            assert!(run.status == Some(1) && run.stderr_lossy().contains("takes over from"), "{run}");
            unwrap(&system, tool);
            if next.is_empty() {
                break;
            }
            let run = system.holo(&["apply"]);
            assert!(run.success() && !run.stdout_lossy().contains("Scrubbing"), "{tool} {script}: {run}");
            assert_eq!(line(&system, "passwd", "bert"), anne.replacen("anne:", "bert:", 1));
            assert!(line(&system, "passwd", "anne").is_empty() && line(&system, "group", "anne").is_empty());
            settled(&system);
            system.write(DEFINITIONS, user("anne", ""));
            takes_over(&system, "user:anne", "user:bert");
        }
        system.write(DEFINITIONS, "");
        assert!(system.holo(&["apply"]).success());
        assert_eq!(databases(&system), before, "{tool} {script}");
        assert_eq!(system.must(&format!("find {STATE} -type f")), "");
    }
}

fn killed_at_a_change() {
    let system = Overlay::new().plugin("users-groups");
    system.must("useradd --uid 7100 --shell /bin/sh anne");
    let before = databases(&system);
    system.write(DEFINITIONS, user("anne", "shell = \"/bin/dash\"\n"));
    ok(&system.holo(&["apply", "--force"]));
    for script in [KILL.to_owned(), format!("usermod.real \"$@\"\n{KILL}")] {
        // The shell of the base is restored, which differs from the provisioned image.
        wrap(&system, "usermod", &script);
        system.write(DEFINITIONS, user("anne", ""));
        assert_eq!(system.holo(&["apply"]).status, Some(1));
        assert!(system.exists(format!("{STATE}/.intended/user:anne.toml")));
        unwrap(&system, "usermod");
        let run = system.holo(&["apply"]);
        assert!(run.success(), "{script}: {run}");
        assert!(line(&system, "passwd", "anne").ends_with(":/bin/sh"));
        assert!(!system.exists(format!("{STATE}/.intended")));
        settled(&system);
        system.write(DEFINITIONS, user("anne", "shell = \"/bin/dash\"\n"));
        ok(&system.holo(&["apply", "--force"]));
    }
    all_gone(&system, &before);
}

fn changes_in_json() {
    let system = system(&user("anne", "groups = [\"audio\"]\n[[group]]\nname = \"crew\"\ngid = 7200\n"));
    let says = |changes: &str| {
        let run = system.holo(&["apply", "--force", "--json"]);
        assert!(run.success() && run.stdout_lossy().contains(&format!("\"changed\":[{changes}]")), "{changes}\n{run}");
    };
    says("\"created group crew with GID 7200\"");
    settled(&system);
    system.write(DEFINITIONS, user("bert", "groups = [\"video\"]\nshell = \"/bin/dash\"\n"));
    says(
        "\"renamed user anne to bert\",\"changed the login group of user bert from anne to bert\",\
         \"changed the login shell of user bert from /bin/sh to /bin/dash\",\"added user bert to group video\",\
         \"removed user bert from group audio\"",
    );
    system.must("userdel bert");
    system.write(DEFINITIONS, "");
    says("\"forgot user:bert, which is gone\"");
    // Into a pipe, the output is that of version 3.
    system.write(DEFINITIONS, user("anne", ""));
    let run = system.holo(&["apply"]);
    let words = format!("\nWorking on user:anne\n  found in {DEFINITIONS}\n      with UID: 7100\n\n");
    assert_eq!((run.stdout_lossy().as_ref(), run.stderr_lossy().as_ref()), (words.as_str(), ""));
    system.write(DEFINITIONS, "");
    says("\"deleted user anne\"");
}

fn failed_unchanged() {
    let definition = "[[user]]\nname = \"anne\"\ngroups = [\"nowhere\"]\n";
    let system = Overlay::new().plugin("exec").plugin("users-groups");
    let exec = holo_testing::binaries::built("holo-exec");
    let holorc = system.read("/etc/holorc");
    system.write("/etc/holorc", format!("{holorc}plugin exec={}\n", exec.display()));
    system.write(DEFINITIONS, definition);
    let exec =
        "[[exec]]\nname = \"told\"\ncommand = \"touch /srv/told\"\nrefresh_only = true\nsubscribes = [\"user:anne\"]\n";
    system.write("/usr/share/holo/exec/01.toml", exec);
    for _ in 0..3 {
        fails(&system, &["apply"], "group 'nowhere' does not exist");
        assert!(!system.exists("/srv/told"));
    }
    system.must("groupadd nowhere");
    ok(&system.holo(&["apply"]));
    assert!(system.exists("/srv/told"));
}

fn nameless_login_group() {
    let system = Overlay::new().plugin("users-groups");
    system.must("groupadd --gid 7200 lost; useradd --gid lost joe; sed -i /^lost:/d /etc/group /etc/gshadow");
    let before = databases(&system);
    system.write(DEFINITIONS, "[[user]]\nname = \"joe\"\ngroup = \"users\"\n");
    ok(&system.holo(&["apply"]));
    assert!(system.read(format!("{STATE}/base/user:joe.toml")).contains_str("group = \"7200\"\n"));
    assert!(line(&system, "passwd", "joe").contains(":100:"));
    settled(&system);
    // The group exists again under another name.
    system.must("groupadd --gid 7200 found");
    system.write(DEFINITIONS, "");
    ok(&system.holo(&["apply"]));
    assert!(line(&system, "passwd", "joe").contains(":7200:"));
    system.must("groupdel --force found");
    assert_eq!(databases(&system), before);
    // If no group has the GID, the apply warns, and does not fail.
    system.write(DEFINITIONS, "[[user]]\nname = \"joe\"\ngroup = \"users\"\n");
    ok(&system.holo(&["apply"]));
    system.write(DEFINITIONS, "");
    let run = system.holo(&["apply"]);
    let words = ">> user:joe keeps its login group: no group exists any more with the GID 7200\n";
    assert!(run.success() && run.stderr_lossy().contains(words), "{run}");
}

/// The default number of cases.
const CASES: u64 = 4;

/// A user or group that keeps its identity by number through all renames.
struct Identity {
    kind: &'static str,
    number: usize,
    /// True if it existed before the first apply, with the first name.
    is_persons: bool,
    /// The index of its name, if it is managed.
    name: Option<usize>,
}

impl Identity {
    /// Returns the UID or GID. A group that useradd creates for a user has the user's number.
    fn id(&self) -> usize {
        if self.kind == "user" { 7000 + self.number } else { 7200 + self.number }
    }

    fn name(&self, index: usize) -> String {
        format!("{}{}{}", &self.kind[..1], self.number, ["a", "b"][index])
    }

    /// Decides whether it is defined, and under which name.
    fn choose(&mut self, random: &mut Random) {
        let index = match self.name {
            // Under another name, its definition would be a new account with a number that is taken.
            None if self.is_persons => 0,
            None => random.below(2),
            Some(index) if random.chance(60) => index,
            Some(index) => 1 - index,
        };
        self.name = random.chance(70).then_some(index);
    }
}

fn choices(random: &mut Random, groups: &[String]) -> String {
    let mut text = String::new();
    for (key, values) in
        [("comment", ["One", "Two words"]), ("home", ["/srv/a", "/srv/b"]), ("shell", ["/bin/sh", "/bin/dash"])]
    {
        if random.chance(40) {
            let _ = writeln!(text, "{key} = {:?}", random.pick(&values));
        }
    }
    let groups: Vec<&String> = groups.iter().filter(|_| random.chance(40)).collect();
    if !groups.is_empty() {
        let _ = writeln!(text, "groups = {groups:?}");
    }
    if random.chance(20) {
        text.push_str("skipBaseGroups = true\n");
    }
    text
}

/// Returns the databases with sorted members of groups: a user who leaves a group and returns becomes its last member.
fn sorted(databases: &BString) -> Vec<String> {
    let line = |line: &str| {
        let Some((rest, members)) = line.rsplit_once(':') else { return line.to_owned() };
        let mut members: Vec<&str> = members.split(',').collect();
        members.sort_unstable();
        format!("{rest}:{}", members.join(","))
    };
    databases.to_str_lossy().lines().map(line).collect()
}

/// Returns true if the only warnings are about groups that the rule of version 3 keeps.
fn says_nothing(run: &Run) -> bool {
    run.stderr_lossy().lines().all(|line| line.is_empty() || line.contains("which is not defined any more"))
}

fn random_definitions() {
    random::cases(CASES, |random| {
        let system = Overlay::new().plugin("users-groups");
        let mut identities: Vec<Identity> = Vec::new();
        for (number, kind, is_persons) in [
            (1, "group", false),
            (2, "group", true),
            (1, "user", false),
            (2, "user", false),
            (3, "user", true),
            (4, "user", true),
        ] {
            let identity = Identity { kind, number, is_persons, name: None };
            let (name, number) = (identity.name(0), identity.id());
            match (is_persons, kind) {
                (false, _) => {}
                (true, "group") => _ = system.must(&format!("groupadd --gid {number} {name}")),
                _ => _ = system.must(&format!("useradd --uid {number} --comment Person --groups audio,g2a {name}")),
            }
            identities.push(identity);
        }
        let before = databases(&system);
        let mut log = String::new();
        for _ in 0..3 + random.below(3) {
            let mut definitions = String::new();
            let mut groups = vec!["audio".to_owned(), "video".to_owned()];
            for identity in &mut identities {
                identity.choose(random);
                let Some(name) = identity.name.map(|index| identity.name(index)) else { continue };
                let (kind, number) = (identity.kind, identity.id());
                let _ = writeln!(definitions, "[[{kind}]]\nname = {name:?}\n{}id = {number}", &kind[..1]);
                if kind == "group" {
                    groups.push(name);
                } else {
                    definitions.push_str(&choices(random, &groups));
                }
            }
            let _ = writeln!(log, "---\n{definitions}");
            system.write(DEFINITIONS, definitions);
            let groups_before = system.must("getent group");
            let preview = system.holo(&["diff", "--pending"]);
            assert!(preview.success() && says_nothing(&preview), "{log}\n{preview}");
            let run = system.holo(&["apply", "--force"]);
            assert!(run.success(), "{log}\n{run}");
            as_previewed(&system, &groups_before, &preview.stdout_lossy(), &format!("{run}\n{log}"));
            let run = system.holo(&["apply", "--force"]);
            let changes = run.stdout_lossy().contains("usermod") || run.stdout_lossy().contains("groupmod");
            assert!(run.success() && !changes && says_nothing(&run), "not settled: {log}\n{run}");
        }
        system.write(DEFINITIONS, "");
        let groups_before = system.must("getent group");
        let preview = system.holo(&["diff", "--pending"]);
        let run = system.holo(&["apply"]);
        assert!(run.success(), "{log}\n{run}");
        as_previewed(&system, &groups_before, &preview.stdout_lossy(), &format!("{run}\n{log}"));
        assert_eq!(sorted(&databases(&system)), sorted(&before), "{log}\n{run}");
        assert_eq!(system.must(&format!("find {STATE} -type f")), "", "{log}");
    });
}

/// Asserts that the system has become what the preview showed.
fn as_previewed(system: &Overlay, before: &BString, preview: &str, log: &str) {
    let after = system.must("getent group");
    let number = |group: &str| {
        let lines = before.lines().chain(after.lines()).map(|line| line.to_str_lossy().into_owned());
        let fields = |line: String| line.split(':').map(str::to_owned).collect::<Vec<_>>();
        lines.map(fields).find(|fields| fields[0] == group).map(|fields| fields[2].clone())
    };
    for difference in preview.split("diff --holo ").skip(1) {
        let header = difference.lines().next().unwrap_or_default();
        let account = header.rsplit_once(" b/").unwrap().1.trim_end_matches(" (pending)");
        let (kind, name) = account.split_once(':').unwrap();
        // A scrubbed account may get its original name back.
        let named = difference.lines().filter_map(|line| line.strip_prefix("+name = \"")).next();
        let name = named.map_or(name, |name| name.trim_end_matches('"'));
        let database = if kind == "user" { "passwd" } else { "group" };
        let found = system.sh(&format!("getent {database} {name}"));
        let said = format!("{account}\n{preview}\n{log}");
        if difference.contains("\n+++ /dev/null") {
            assert!(!found.success(), "{said}");
            continue;
        }
        assert!(found.success(), "{said}");
        let line = found.stdout_lossy().trim_end().to_owned();
        let fields: Vec<&str> = line.split(':').collect();
        let groups = || {
            let groups = system.must(&format!("id --groups {name}")).to_str_lossy().into_owned();
            groups.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let lines = difference.lines().skip_while(|line| !line.starts_with("@@")).skip(1);
        for wanted in lines.filter_map(|line| line.strip_prefix(['+', ' '])) {
            let Some((key, value)) = wanted.split_once(" = ") else { continue };
            let text = value.trim_matches('"');
            match (kind, key) {
                (_, "name") => assert_eq!(fields[0], text, "{said}"),
                (_, "uid" | "gid") => assert_eq!(fields[2], text, "{said}"),
                (_, "comment") => assert_eq!(fields[4], text, "{said}"),
                (_, "home") => assert_eq!(fields[5], text, "{said}"),
                (_, "shell") => assert_eq!(fields[6], text, "{said}"),
                (_, "group") => {
                    assert_eq!(system.must(&format!("id --group --name {name}")).to_str_lossy().trim(), text, "{said}");
                }
                (_, "groups") => {
                    let groups = groups();
                    let wanted = value.trim_matches(['[', ']']).split(", ").map(|group| group.trim_matches('"'));
                    // A preview shows current names of groups. A group may be renamed or deleted in the same run.
                    let goes = |group: &&str| preview.contains(&format!("--- a/group:{group}\n+++ /dev/null"));
                    for group in wanted.filter(|group| !group.is_empty() && !goes(group)) {
                        assert!(number(group).is_some_and(|number| groups.contains(&number)), "{group} of {said}");
                    }
                }
                _ => {}
            }
        }
    }
}

fn login_group_elsewhere() {
    let user = "[[user]]\nname = \"adam\"\ngroup = \"remote\"\n";
    let system = system(user);
    system.must(
        "mkdir -p /etc/userdb && cd /etc/userdb && echo '{\"groupName\":\"remote\",\"gid\":7777}' >remote.group && \
         ln -s remote.group 7777.group && sed -i 's/^group:.*/group: files systemd/' /etc/nsswitch.conf && \
         getent group 7777 && ! grep remote /etc/group",
    );
    ok(&system.holo(&["apply"]));
    assert!(line(&system, "passwd", "adam").contains(":7777:"));
    settled(&system);
    system.write(DEFINITIONS, user.replace("remote", "games"));
    fails(&system, &["apply"], "use --force to overwrite");
    ok(&system.holo(&["apply", "--force"]));
    settled(&system);
    system.write(DEFINITIONS, "");
    ok(&system.holo(&["apply"]));
    assert_eq!(line(&system, "passwd", "adam"), "");
    // One that was there before gets the group back.
    ok(&system.run("useradd", &["--gid", "remote", "eve"]));
    let before = line(&system, "passwd", "eve");
    system.write(DEFINITIONS, "[[user]]\nname = \"eve\"\ngroup = \"games\"\n");
    ok(&system.holo(&["apply", "--force"]));
    settled(&system);
    system.write(DEFINITIONS, "");
    ok(&system.holo(&["apply"]));
    assert_eq!(line(&system, "passwd", "eve"), before);
    settled(&system);
}

fn another_home() {
    let user = |home: &str| format!("[[user]]\nname = \"adam\"\nhome = \"{home}\"\ncreate_home = true\n");
    let system = system(&user("/home/adam"));
    ok(&system.holo(&["apply"]));
    system.must("touch /home/adam/mine /etc/skel/new");
    system.write(DEFINITIONS, user("/srv/adam"));
    fails(&system, &["apply"], "use --force to overwrite");
    ok(&system.holo(&["apply", "--force"]));
    settled(&system);
    let found = system.must("stat -c %U /srv/adam /srv/adam/new; ls /home/adam/mine");
    assert_eq!(found, "adam\nadam\n/home/adam/mine\n");
    // What exists is left as it is.
    system.write(DEFINITIONS, user("/home/adam"));
    ok(&system.holo(&["apply", "--force"]));
    assert_eq!(system.must("ls /home/adam"), "mine\n");
    settled(&system);
}
