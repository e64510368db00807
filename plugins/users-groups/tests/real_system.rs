//! The system's own tools make, change and delete users and groups, on a copy of this machine's system that is thrown away.
#![expect(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use bstr::{BString, ByteSlice};
use holo_testing::overlay::NEEDS;
use holo_testing::{Need, Overlay, Run, trial};
use libtest_mimic::Arguments;
use std::fmt::Write;
use std::process::ExitCode;

const DEFINITIONS: &str = "/usr/share/holo/users-groups/01.toml";
const STATE: &str = "/var/lib/holo/users-groups";

fn main() -> ExitCode {
    let stories: [(&str, fn()); 19] = [
        ("a hundred users are made in one run, and nothing is left to do", hundred),
        ("check says what would be run, and runs nothing", check),
        ("everything that can be defined is given", everything),
        ("what changes in a definition is changed, without force", changed_definition),
        ("what a person has changed needs force", changed_by_person),
        ("whom a person has deleted comes back by force, with the same number", deleted_by_person),
        ("what was there before is restored, what was not is deleted, users before their groups", scrubbed),
        ("a user with a running process is not deleted, and not forgotten", running_process),
        ("a user who is logged in keeps the UID until the next apply", uid_in_use),
        ("a group that is somebody's login group is not deleted, and not forgotten", group_in_use),
        ("a number that is taken is refused, and nothing is left of the try", number_taken),
        ("a group that does not exist is named", missing_group),
        ("who is killed after the command finds its work done", killed),
        ("a tool that only says to have done its work is found out", pretender),
        ("locked files are waited for", locked),
        ("a group of its own definition, or from before us, does not go with the user of its name", group_of_the_name),
        ("who came after another goes before it", scrubbed_in_order),
        ("a user is made when its condition holds, and stays when that does so no more", condition),
        ("attempts, their time and what has to be well afterwards can be defined", attempts),
    ];
    let needs =
        [NEEDS, &["useradd", "usermod", "userdel", "groupadd", "groupmod", "groupdel"].map(Need::Program)].concat();
    let trials = stories.map(|(name, story)| {
        trial(name, &needs, move || {
            story();
            Ok(())
        })
    });
    holo_testing::require::run(&Arguments::from_args(), trials.into())
}

/// A system on which this is defined.
fn system(definitions: &str) -> Overlay {
    Overlay::new().plugin("users-groups").resource("users-groups/01.toml", definitions)
}

#[track_caller]
fn ok(run: &Run) {
    assert!(run.success() && run.stderr.is_empty(), "{run}");
}

/// An apply that fails or is refused, and says this.
#[track_caller]
fn fails(system: &Overlay, arguments: &[&str], words: &str) {
    let run = system.holo(arguments);
    assert!(run.status == Some(1) && run.stderr_lossy().contains(words), "expected: {words}\n{run}");
}

/// A check that finds something to do, and says this.
#[track_caller]
fn pending(system: &Overlay, words: &str) {
    let run = system.holo(&["check"]);
    let said = [run.stdout_lossy(), run.stderr_lossy()].concat();
    assert!(run.status == Some(3) && said.contains(words), "expected: {words}\n{run}");
}

/// An apply that has nothing to do.
#[track_caller]
fn settled(system: &Overlay) {
    let run = system.holo(&["apply"]);
    assert!(run.success() && run.stdout.is_empty() && run.stderr.is_empty(), "{run}");
    ok(&system.holo(&["check"]));
}

/// A line of passwd or group, without the password.
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
    // What the system has chosen is recorded too.
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
    ok(&system.holo(&["apply"]));
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
    // What is nobody's alone is put right without a question.
    system.must("usermod --comment Person anne");
    settled(&system);
}

fn deleted_by_person() {
    let system = system("[[user]]\nname = \"anne\"\n");
    ok(&system.holo(&["apply"]));
    let before = line(&system, "passwd", "anne");
    system.must("userdel anne; useradd other");
    fails(&system, &["apply"], "use --force to restore");
    assert_eq!(line(&system, "passwd", "anne"), "");
    // The number that it had is taken now; that is the tools' matter, and said in their words.
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
    // The login group could only be deleted after the last of its users had left it.
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
    fails(&system, &["apply"], "!! usermod --uid 7008 anne failed: exit status 8");
    assert!(provisioned(&system, "user:anne").contains_str("uid = 7007\n"));
    busy.end();
    ok(&system.holo(&["apply"]));
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
    // Whoever makes these now is a person, and their owner.
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
    system.script("/usr/sbin/useradd", "#!/bin/sh\nuseradd.real \"$@\"\nkill -KILL $PPID\n");
    let run = system.holo(&["apply"]);
    assert!(run.status == Some(1), "{run}");
    assert!(!line(&system, "passwd", "anne").is_empty());
    assert!(system.exists(format!("{STATE}/base/user:anne.toml")));
    assert!(!system.exists(format!("{STATE}/provisioned/user:anne.toml")));
    system.must("mv /usr/sbin/useradd.real /usr/sbin/useradd");
    ok(&system.holo(&["apply"]));
    assert!(provisioned(&system, "user:anne").contains_str("shell = \"/bin/dash\"\n"));
    settled(&system);
    // And it is known to be ours.
    system.must("mv /usr/sbin/userdel /usr/sbin/userdel.real");
    system.script("/usr/sbin/userdel", "#!/bin/sh\nuserdel.real \"$@\"\nkill -KILL $PPID\n");
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
    fails(&system, &["apply"], "!! user:anne does not exist after all\n");
    system.script("/usr/sbin/useradd", "#!/bin/sh\nuseradd.real --uid 7010 anne\n");
    fails(&system, &["apply"], "!! user:anne is not as it should be: login shell is /bin/sh instead of /bin/dash\n");
    assert!(!system.exists(format!("{STATE}/provisioned/user:anne.toml")));
    system.write(DEFINITIONS, "");
    system.must("mv /usr/sbin/userdel /usr/sbin/userdel.real");
    system.script("/usr/sbin/userdel", "#!/bin/sh\n");
    fails(&system, &["apply"], "!! user:anne is still there after userdel anne\n");
    assert!(system.exists(format!("{STATE}/base/user:anne.toml")));
}

fn locked() {
    let system = system("[[user]]\nname = \"anne\"\n");
    // The owner of the lock lives on, so that the tools respect it.
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
    // Even with a file more that does not count.
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
    // Also if there was nothing to do.
    system.write(DEFINITIONS, definition("health_check = [{ command = \"test -d /srv/anne\" }]\n"));
    fails(&system, &["apply"], "!! health check `test -d /srv/anne`: warning: exit status 1\n");
    system.must("mkdir /srv/anne");
    settled(&system);
    system.must("mv /usr/sbin/usermod /usr/sbin/usermod.real");
    system.script("/usr/sbin/usermod", "#!/bin/sh\nexec sleep 600\n");
    system.write(DEFINITIONS, definition("comment = \"A\"\ntimeout = \"100ms\"\n"));
    fails(&system, &["apply"], "!! usermod --comment A anne failed: timed out");
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
    // With its number, so that its files stay its own.
    assert_eq!(line(&system, "group", "anne"), anne);
    settled(&system);
    // What useradd has made, userdel takes away.
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
    settled(&system);
    system.write(DEFINITIONS, "");
    ok(&system.holo(&["apply"]));
    assert_eq!(system.must(&format!("find {STATE} -type f")), "");
}
