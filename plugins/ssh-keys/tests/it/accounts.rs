//! Tests with users of a real user database, in a chroot over a copy-on-write image of this machine.

use holo_testing::overlay::{NEEDS, Overlay};
use holo_testing::{Need, Run, binaries::built, trial_of};
use libtest_mimic::Trial;

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMlEihSDsXtKfjGZmUFcJVFeRT7ctkIuJqrXfdbEAr5w";

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [(&str, fn()); 7] = [
        ("created files belong to the user", belongs_to_the_user),
        ("a directory that only a group of the user may enter is accessible", behind_a_group),
        ("keys of root are managed", root_has_keys),
        ("files of root in a user's home stay unchanged", roots_in_a_home),
        ("an unknown user has no keys, and an orphan of one is kept", unknown_user),
        ("a full file system leaves the file unchanged", full),
        ("changes are reported in JSON output", changes_in_json),
    ];
    let needs = [NEEDS, &[Need::Program("useradd")]].concat();
    cases.map(|(name, case)| trial_of(name, &needs, case)).into()
}

/// Runs a script as root in such a system, which has the plugin, a user `jane`, and a key file for her.
fn on_a_system(script: &str) -> Run {
    let system = Overlay::new().plugin("ssh-keys").resource("ssh-keys/jane/x.pub", format!("{KEY} jane\n"));
    system.must("groupadd staff-of-jane; useradd -m -d /home/jane -G staff-of-jane -s /bin/sh jane");
    let functions = "set +e; shows() { stat -c '%A %U %G %n' $*; }";
    system.sh(&format!("{functions}; holo() {{ '{}' \"$@\"; }}\n{script}", built("holo").display()))
}

#[track_caller]
fn says(run: &Run, expected: &[&str]) {
    let text = run.stdout_lossy();
    for line in expected {
        assert!(text.lines().any(|found| found == *line), "no line {line}\n{run}");
    }
}

fn belongs_to_the_user() {
    let run = on_a_system(
        "umask 077; holo apply; echo status $?; shows /home/jane/.ssh /home/jane/.ssh/* ; cat /home/jane/.ssh/*
         holo apply; echo again $?; rm /usr/share/holo/ssh-keys/jane/x.pub; holo check; holo apply; wc -c /home/jane/.ssh/*",
    );
    let line = format!("{KEY} holo=ssh-keyset:jane/x");
    says(&run, &["status 0", "again 0", &line, "0 /home/jane/.ssh/authorized_keys"]);
    says(&run, &["drwx------ jane jane /home/jane/.ssh", "-rw------- jane jane /home/jane/.ssh/authorized_keys"]);
    assert!(run.stdout_lossy().contains("would remove key 256 SHA256:"), "{run}");
    assert_eq!(run.stderr, "", "{run}");
}

fn behind_a_group() {
    let run = on_a_system(
        "mkdir -m 0750 /srv/homes; chgrp staff-of-jane /srv/homes; usermod -m -d /srv/homes/jane jane
         holo apply; echo status $?; shows /srv/homes/jane/.ssh/*
         chgrp root /srv/homes; rm -r /srv/homes/jane/.ssh; holo apply; echo closed $?",
    );
    says(&run, &["status 0", "-rw------- jane jane /srv/homes/jane/.ssh/authorized_keys", "closed 1"]);
    let refused = "!! open /srv/homes/jane: permission denied";
    assert!(run.stderr_lossy().lines().any(|line| line == refused), "{run}");
}

fn root_has_keys() {
    let run = on_a_system(
        "mv /usr/share/holo/ssh-keys/jane /usr/share/holo/ssh-keys/root; rm -rf /root/.ssh
         holo apply; echo status $?; shows /root/.ssh/*",
    );
    says(&run, &["status 0", "-rw------- root root /root/.ssh/authorized_keys"]);
}

fn roots_in_a_home() {
    let run = on_a_system(
        "cd /home/jane; mkdir -m 0700 .ssh; holo apply; echo directory $?; chown jane .ssh
         echo root >.ssh/authorized_keys; chmod 0644 .ssh/authorized_keys; holo apply; echo file $?; shows .ssh/*; cat .ssh/*",
    );
    says(&run, &["directory 1", "file 1", "-rw-r--r-- root root .ssh/authorized_keys", "root"]);
    let errors = run.stderr_lossy();
    for path in ["/home/jane/.ssh", "/home/jane/.ssh/authorized_keys"] {
        let error = format!("!! open {path}: it belongs to another user (UID 0 instead of ");
        assert_eq!(errors.lines().filter(|line| line.starts_with(&error)).count(), 1, "{run}");
    }
}

fn unknown_user() {
    let run = on_a_system(
        "holo apply; userdel -r jane 2>/dev/null; holo check; echo check $?; holo apply; echo apply $?
         rm /usr/share/holo/ssh-keys/jane/x.pub; holo apply; echo orphan $?; cat /var/lib/holo/ssh-keys/*
         holo apply --force; echo forced $?; ls /var/lib/holo/ssh-keys/provisioned-entities 2>/dev/null || echo none",
    );
    says(&run, &["apply 1", "orphan 1", "ssh-keyset:jane/x", "forced 0"]);
    says(&run, &["none"]);
    let unknown = run.stderr_lossy().lines().filter(|line| *line == "!! user jane does not exist").count();
    assert_eq!(unknown, 2, "{run}");
}

fn full() {
    let run = on_a_system(
        "mount -t tmpfs -o size=64k,mode=0755,uid=$(id -u jane),gid=$(id -g jane) tmpfs /home/jane
         su jane -c 'mkdir -m 0700 ~/.ssh; echo mine >~/.ssh/authorized_keys; chmod 0600 ~/.ssh/authorized_keys'
         su jane -c 'cat /dev/zero >~/ballast' 2>/dev/null; holo apply; echo status $?; ls -A /home/jane/.ssh; cat /home/jane/.ssh/*
         rm /home/jane/ballast; holo apply; echo then $?; wc -l /home/jane/.ssh/*",
    );
    says(&run, &["status 1", "authorized_keys", "mine", "then 0", "2 /home/jane/.ssh/authorized_keys"]);
    let refused = "!! write /home/jane/.ssh/.authorized_keys.holonew: no space left on device";
    assert!(run.stderr_lossy().lines().any(|line| line == refused), "{run}");
    assert!(!run.stdout_lossy().contains("holonew"), "{run}");
}

fn changes_in_json() {
    let run = on_a_system(
        "holo apply --json; holo apply --json; mv /usr/share/holo/ssh-keys/jane/x.pub /usr/share/holo/ssh-keys/jane/a.pub
         holo apply --json; rm /usr/share/holo/ssh-keys/jane/a.pub; holo apply --json
         echo '# none' >/usr/share/holo/ssh-keys/jane/a.pub; holo apply",
    );
    assert_eq!(run.stderr, "", "{run}");
    let lines = run.stdout_lossy().into_owned();
    let changes: Vec<&str> =
        lines.lines().filter_map(|line| line.split_once("\"changed\":[")).map(|(_, rest)| rest).collect();
    for (line, words) in changes.iter().zip(["\"added key 256 SHA256:", "\"gave key 256 SHA256:", "\"removed key 256"])
    {
        assert!(line.starts_with(words), "{words}\n{run}");
    }
    assert!(changes.len() == 3, "{run}");
}
