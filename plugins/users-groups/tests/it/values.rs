//! The number and the home directory of a user as others receive them, and accounts that receive values.

use bstr::ByteSlice;
use holo_testing::overlay::NEEDS;
use holo_testing::{Need, Overlay, binaries::built, trial_of};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [(&str, fn()); 1] = [("users send their number and home directory", sends)];
    let needs = [NEEDS, &["useradd", "usermod"].map(Need::Program)].concat();
    cases.map(|(name, case)| trial_of(name, &needs, case)).into()
}

/// A system with these plugins, and files with definitions.
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
    // What a definition says is known before it is made.
    system.write("/usr/share/holo/users-groups/01.toml", "[[user]]\nname = 'joe'\nuid = 4321\nhome = '/srv/joe'\n");
    let check = system.holo(&["check", "--diff"]);
    assert!(check.status == Some(3) || check.status == Some(1), "{check}");
    apply(&["apply", "--force"]);
    assert_eq!((read(), field(&system, "joe", 3)), (("4321".to_owned(), "/srv/joe".to_owned()), "4321".to_owned()));
}
