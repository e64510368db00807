//! Users send their number and home directory, and accounts receive values.

use bstr::ByteSlice;
use holo_testing::overlay::NEEDS;
use holo_testing::{Need, Overlay, binaries::built, trial_of};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [(&str, fn()); 3] = [
        ("users send their number and home directory", sends),
        ("a user is created with received values", receives),
        ("a user with an unsuitable received value is not changed", unfit),
    ];
    let needs = [NEEDS, &["useradd", "usermod"].map(Need::Program)].concat();
    cases.map(|(name, case)| trial_of(name, &needs, case)).into()
}

/// Returns a system with these plugins and definition files.
fn system(plugins: &[&str], files: &[(&str, &str)]) -> Overlay {
    let system = Overlay::new();
    let line = |id: &&str| format!("plugin {id}={}\n", built(&format!("holo-{id}")).display());
    system.write("/etc/holorc", plugins.iter().map(line).collect::<String>());
    system.must("rm -rf /etc/holorc.d");
    for (path, text) in files {
        system.write(format!("/usr/share/holo/{path}"), text);
    }
    system
}

fn field(system: &Overlay, user: &str, number: usize) -> String {
    system.must(&format!("getent passwd {user} | cut -d: -f{number}")).to_str_lossy().trim().to_owned()
}

fn sends() {
    let receivers = "[[file]]\npath = '/etc/uid'\nreceive = { content = 'user:joe#uid' }\n\
                     [[file]]\npath = '/etc/home'\nreceive = { content = 'user:joe#home' }\n";
    let system = system(
        &["users-groups", "files"],
        &[("users-groups/01.toml", "[[user]]\nname = 'joe'\n"), ("files/01.toml", receivers)],
    );
    let check = system.holo(&["check"]);
    assert!(check.stderr_lossy().contains("receives content from user:joe, which has not sent uid yet"), "{check}");
    let apply = |arguments: &[&str]| {
        let run = system.holo(arguments);
        assert!(run.success() && run.stderr.is_empty(), "{run}");
        run.stdout
    };
    apply(&["apply"]);
    let read = || (system.read("/etc/uid").to_string(), system.read("/etc/home").to_string());
    assert_eq!(read(), (field(&system, "joe", 3), "/home/joe".to_owned()));
    assert_eq!(apply(&["apply"]), "");
    // Values that the definition contains are known before the user exists.
    system.write("/usr/share/holo/users-groups/01.toml", "[[user]]\nname = 'joe'\nuid = 4321\nhome = '/srv/joe'\n");
    let check = system.holo(&["check", "--diff"]);
    assert!(check.status == Some(3) || check.status == Some(1), "{check}");
    apply(&["apply", "--force"]);
    assert_eq!((read(), field(&system, "joe", 3)), (("4321".to_owned(), "/srv/joe".to_owned()), "4321".to_owned()));
}

/// Returns a system with a user who receives a key from a command that prints a file.
fn receiver(key: &str) -> Overlay {
    let user = format!("[[user]]\nname = 'joe'\nreceive = {{ {key} = 'exec:value#stdout' }}\n");
    let sender = "[[exec]]\nname = 'value'\ncommand = ['cat', '/etc/value']\n";
    system(&["users-groups", "exec"], &[("users-groups/01.toml", &user), ("exec/01.toml", sender)])
}

fn receives() {
    let system = receiver("uid");
    system.write("/etc/value", "4321\n");
    let check = system.holo(&["check"]);
    assert!(check.stderr_lossy().contains("receives uid from exec:value, which has not sent stdout yet"), "{check}");
    let apply = |arguments: &[&str]| {
        let run = system.holo(arguments);
        assert!(run.success() && run.stderr.is_empty(), "{run}");
    };
    apply(&["apply"]);
    assert_eq!(field(&system, "joe", 3), "4321");
    // Sent values are known in later runs, even without the sender.
    apply(&["apply", "user:joe"]);
    // Another value changes the definition, which needs force as usual.
    system.write("/etc/value", "4322\n");
    let run = system.holo(&["apply"]);
    assert!(run.status == Some(1) && run.stderr_lossy().contains("--force"), "{run}");
    apply(&["apply", "--force"]);
    assert_eq!(field(&system, "joe", 3), "4322");
    // The definition may contain the value instead.
    system.write("/usr/share/holo/users-groups/01.toml", "[[user]]\nname = 'joe'\nuid = 4322\n");
    apply(&["apply"]);
    system.must("rm /usr/share/holo/users-groups/01.toml");
    apply(&["apply"]);
    assert_eq!(field(&system, "joe", 3), "");
}

fn unfit() {
    let system = receiver("uid");
    for value in ["joe", "4294967295", "-1", "007", "1\n2"] {
        system.write("/etc/value", format!("{value}\n"));
        let run = system.holo(&["apply"]);
        let said = "!! File /usr/share/holo/users-groups/01.toml: line 3: users[0]: uid: ";
        assert!(run.status == Some(1) && run.stderr_lossy().contains(said), "{run}");
        assert_eq!(field(&system, "joe", 3), "");
    }
    system.write("/etc/value", "root\n");
    system.write("/usr/share/holo/users-groups/02.toml", "[[user]]\nname = 'joe'\ngroup = 'daemon'\n");
    system.write(
        "/usr/share/holo/users-groups/01.toml",
        "[[user]]\nname = 'joe'\nreceive = { group = 'exec:value#stdout' }\n",
    );
    let run = system.holo(&["apply"]);
    assert!(run.status == Some(1) && run.stderr_lossy().contains("conflicting login group for user:joe"), "{run}");
    assert_eq!(field(&system, "joe", 3), "");
}
