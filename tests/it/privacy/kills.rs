//! Private files at every moment of an apply: it is killed at each system call, and the user `nobody` then searches the whole root.

use super::SECRET;
use holo_testing::disturb::{self, Disturbance};
use holo_testing::{Need, ScratchRoot, others, trial_of};
use libtest_mimic::Trial;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// An apply that is killed.
struct Case {
    name: &'static str,
    plugin: &'static str,
    /// Prepares the root before the apply that is killed.
    before: fn(&ScratchRoot),
}

const CASES: [Case; 6] = [
    Case { name: "files", plugin: "files", before: files },
    Case { name: "scrubbed_files", plugin: "files", before: scrubbed_files },
    Case { name: "archives", plugin: "archives", before: archives },
    Case { name: "scaffolds", plugin: "scaffold", before: scaffolds },
    Case { name: "keys", plugin: "ssh-keys", before: keys },
    Case { name: "repositories", plugin: "packages", before: repositories },
];

/// The system calls between which the access to a file or its content may change.
const CALLS: [&str; 12] = [
    "write",
    "pwrite64",
    "copy_file_range",
    "fchmod",
    "fchmodat",
    "fchown",
    "fsetxattr",
    "renameat",
    "renameat2",
    "linkat",
    "unlinkat",
    "mkdirat",
];

pub(super) fn trials() -> Vec<Trial> {
    let needs = [disturb::NEEDS, &[Need::Root]].concat();
    let trial = |case: &'static Case| {
        let name = format!("private_{}_stay_private_wherever_the_apply_is_killed", case.name);
        trial_of(&name, &needs, move || kill_everywhere(case))
    };
    CASES.iter().map(trial).collect()
}

fn kill_everywhere(case: &Case) {
    let run = prepared(case).holo(&["apply"]);
    assert!(run.success(), "{run}");
    let kills = disturb::everywhere(&CALLS, |call, number| {
        let root = prepared(case);
        let (run, seen) = disturb::at(&root, &["apply"], call, number, Disturbance::Kill);
        let disclosed = others::disclosed(root.path(), SECRET.as_bytes());
        assert!(disclosed.is_empty(), "killed at {call} number {number}: others can read {disclosed:?}\n{run}");
        seen
    });
    assert!(kills > 5, "only {kills} kills: the test does not test what it says");
}

fn prepared(case: &Case) -> ScratchRoot {
    let root = disturb::configure(ScratchRoot::in_memory(), case.plugin)
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/passwd", "root:x:0:0::/root:/bin/sh\njane:x:0:0::/home/jane:/bin/sh\n")
        .dir("srv/private")
        .mode("srv/private", 0o700)
        .mode("usr/share/holo", 0o700)
        .mode("var/lib/holo", 0o700);
    (case.before)(&root);
    root
}

fn set_mode(root: &ScratchRoot, path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(root.join(path), Permissions::from_mode(mode)).unwrap();
}

/// Adds a file with a secret.
fn private(root: &ScratchRoot, path: &str, mode: u32) {
    root.write(path, format!("{SECRET} before\n"));
    set_mode(root, path, mode);
}

fn files(root: &ScratchRoot) {
    let mut definitions = String::new();
    // Only the owner can enter the first directory, and read the files in the second one.
    for (folder, mode) in [("srv/private", 0o644), ("etc", 0o600)] {
        for name in ["overlay", "declared", "edited"] {
            private(root, &format!("{folder}/{name}"), mode);
        }
        root.write(format!("usr/share/holo/files/01/{folder}/overlay"), format!("{SECRET} after\n"));
        for name in ["declared", "created"] {
            definitions += &format!(
                "[[file]]\npath = \"/{folder}/{name}\"\ncontent = \"{SECRET} after\"\nsensitive = true\nvalidate = \"true {{}}\"\n"
            );
        }
        definitions += &format!("[[line]]\npath = \"/{folder}/edited\"\nline = \"{SECRET} after\"\n");
    }
    root.write("usr/share/holo/files/a.toml", definitions);
}

fn scrubbed_files(root: &ScratchRoot) {
    files(root);
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    fs::remove_dir_all(root.join("usr/share/holo/files/01")).unwrap();
    fs::remove_file(root.join("usr/share/holo/files/a.toml")).unwrap();
}

fn archives(root: &ScratchRoot) {
    let script = format!("umask 77; cd srv/private; echo {SECRET} >file; tar cf a.tar file; rm file");
    let packed = root.run("sh", &["-c", &script]);
    assert!(packed.success(), "{packed}");
    private(root, "etc/copy.tar", 0o600);
    private(root, "etc/tree/file", 0o600);
    root.write(
        "usr/share/holo/archives/a.toml",
        "[[archive]]\npath = \"/etc/copy.tar\"\nurl = \"file:///srv/private/a.tar\"\nmode = \"0600\"\nextract_to = \"/etc/tree\"\n",
    );
}

fn scaffolds(root: &ScratchRoot) {
    private(root, "etc/tree/file", 0o600);
    for name in ["file", "created"] {
        root.write(format!("usr/share/holo/scaffold/tree/{name}"), format!("{SECRET} after\n"));
    }
    root.write(
        "usr/share/holo/scaffold/a.toml",
        "[[scaffold]]\ntarget = \"/etc/tree\"\nsource = \"tree\"\nmode = \"0600\"\nvalidate = [{ glob = \"*\", command = \"true {}\" }]\n",
    );
}

fn keys(root: &ScratchRoot) {
    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMlEihSDsXtKfjGZmUFcJVFeRT7ctkIuJqrXfdbEAr5w";
    root.write("home/jane/.ssh/authorized_keys", format!("{KEY} {SECRET} before\n"));
    set_mode(root, "home/jane/.ssh", 0o700);
    root.write("usr/share/holo/ssh-keys/jane/x.pub", format!("{KEY} {SECRET} after\n"));
}

fn repositories(root: &ScratchRoot) {
    private(root, "etc/apt/auth.conf.d/test.conf", 0o600);
    root.write("etc/os-release", "ID=debian\n");
    root.write(
        "usr/share/holo/packages/a.toml",
        format!("[[repository]]\nname = \"test\"\nuris = [\"https://user:{SECRET}@localhost/\"]\nsuites = [\"./\"]\n"),
    );
}
