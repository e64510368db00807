//! Kills plugins at every system call that changes a file, makes calls fail, and checks that the next apply completes
//! the work.
//!
//! For plugins that store little themselves and otherwise run commands: accounts, keys, packages, units and scripts.
//! Plugins that write files have their own tests of this kind, which also check for torn files; `tests/it/crash.rs`
//! kills the dispatcher as well.

use bstr::BString;
use holo_testing::disturb::{self, Disturbance};
use holo_testing::{Need, ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// An operation on a root that is disturbed halfway.
struct Case {
    name: &'static str,
    plugin: &'static str,
    /// Prepares the root before the apply that is disturbed.
    before: fn(&ScratchRoot),
}

const CASES: [Case; 22] = [
    Case { name: "accounts are made", plugin: "users-groups", before: accounts },
    Case { name: "accounts are changed", plugin: "users-groups", before: changed_accounts },
    Case { name: "accounts are scrubbed", plugin: "users-groups", before: |root| scrubbed(root, accounts, ACCOUNTS) },
    Case { name: "keys are added", plugin: "ssh-keys", before: keys },
    Case { name: "keys are changed", plugin: "ssh-keys", before: changed_keys },
    Case { name: "keys are changed over to another set", plugin: "ssh-keys", before: moved_keys },
    Case { name: "keys are removed", plugin: "ssh-keys", before: |root| scrubbed(root, changed_keys, KEYS) },
    Case { name: "packages are said to be installed", plugin: "packages", before: packages },
    Case { name: "packages are changed", plugin: "packages", before: changed_packages },
    Case { name: "packages are changed in their names", plugin: "packages", before: renamed_packages },
    Case {
        name: "packages are as before again",
        plugin: "packages",
        before: |root| scrubbed(root, packages, PACKAGES),
    },
    Case { name: "resources are made", plugin: "ral", before: resources },
    Case { name: "resources are changed", plugin: "ral", before: changed_resources },
    Case { name: "resources are as before again", plugin: "ral", before: |root| scrubbed(root, resources, RESOURCES) },
    Case { name: "units are enabled", plugin: "services", before: units },
    Case { name: "units are enabled and disabled", plugin: "services", before: changed_units },
    Case { name: "units are changed in their names", plugin: "services", before: renamed_units },
    Case { name: "units are as before again", plugin: "services", before: |root| scrubbed(root, units, UNITS) },
    Case { name: "units of users are enabled", plugin: "services", before: users_units },
    Case { name: "units of users are changed", plugin: "services", before: changed_users_units },
    Case {
        name: "units of users are as before again",
        plugin: "services",
        before: |root| scrubbed(root, users_units, UNITS),
    },
    Case { name: "a script has succeeded", plugin: "run-scripts", before: script },
];

pub(crate) fn trials() -> Vec<Trial> {
    let needs = [disturb::NEEDS, &[Need::Program("systemctl")]].concat();
    let mut trials = Vec::new();
    for case in &CASES {
        let needs = if case.plugin == "services" { &needs[..] } else { disturb::NEEDS };
        let name = format!("{}: {} may be killed at any system call", case.name, case.plugin);
        trials.push(trial_of(&name, needs, || kill_everywhere(case)));
        // Creation covers all calls that can fail; changes use the same code.
        if case.name.contains("changed") || case.name.contains("disabled") {
            continue;
        }
        let name = format!("{}: any system call of {} may fail", case.name, case.plugin);
        trials.push(trial_of(&name, needs, || fail_everywhere(case)));
    }
    let name = "accounts get other names: users-groups may be killed at any system call";
    trials.push(trial_of(name, disturb::NEEDS, renamed_everywhere));
    trials
}

fn kill_everywhere(case: &Case) {
    let expected = undisturbed(case);
    let kills = disturb::everywhere(disturb::CALLS, |call, number| {
        let root = prepared(case);
        let (run, seen) = disturb::at(&root, &["apply"], call, number, Disturbance::Kill);
        assert!(!run.stderr_lossy().contains("panicked"), "{run}");
        settles(&root, &expected, &format!("{}, killed at {call} number {number}", case.name));
        seen
    });
    assert!(kills > 3, "only {kills} kills: the test does not test what it says");
}

fn fail_everywhere(case: &Case) {
    let expected = undisturbed(case);
    let failures = disturb::everywhere(disturb::CALLS, |call, number| {
        // Simulates a full or broken disk, not failures to read or to print.
        let error = if call == "fsync" { "EIO" } else { "ENOSPC" };
        let root = prepared(case);
        let (run, seen) = disturb::at(&root, &["apply"], call, number, Disturbance::Error(error));
        assert!(!run.stderr_lossy().contains("panicked"), "{run}");
        settles(&root, &expected, &format!("{}, {error} from {call} number {number}", case.name));
        seen
    });
    assert!(failures > 5, "only {failures} failures: the test does not test what it says");
}

fn undisturbed(case: &Case) -> BString {
    let root = prepared(case);
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    tree(&root)
}

/// Returns the tree without empty directories that systemctl leaves.
fn tree(root: &ScratchRoot) -> BString {
    let folders = ["etc/systemd/system/multi-user.target.wants", "etc/systemd/user/default.target.wants"];
    for folder in folders {
        let _ = std::fs::remove_dir(root.join(folder));
    }
    // It contains timestamps, which differ each time.
    let _ = std::fs::remove_file(root.join("var/lib/holo/ral/.providers.json"));
    root.dump()
}

/// Asserts that an undisturbed apply gives the same result as if there had been no disturbance, and that another one
/// has no work to do.
fn settles(root: &ScratchRoot, expected: &BString, moment: &str) {
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{moment}: the next apply says\n{run}");
    let tree = tree(root);
    assert!(tree == *expected, "{moment}: expected\n{expected}\nbut got\n{tree}\nafter\n{run}");
}

fn prepared(case: &Case) -> ScratchRoot {
    let us = std::fs::metadata("/proc/self").unwrap();
    let root = ScratchRoot::in_memory()
        .file("etc/os-release", "ID=unittest\n")
        .file(
            "etc/passwd",
            format!("root:x:0:0::/root:/bin/sh\njane:x:{}:{}::/home/jane:/bin/sh\n", us.uid(), us.gid()),
        )
        .file("etc/group", format!("root:x:0:\njane:x:{}:\n", us.gid()));
    let root = disturb::configure(root, case.plugin).dir(format!("var/lib/holo/{}", case.plugin));
    (case.before)(&root);
    root
}

#[track_caller]
fn applied(root: &ScratchRoot) {
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
}

/// Removes the definitions after an apply.
fn scrubbed(root: &ScratchRoot, make: fn(&ScratchRoot), definitions: &str) {
    make(root);
    applied(root);
    std::fs::remove_file(root.join(definitions)).unwrap();
}

const ACCOUNTS: &str = "usr/share/holo/users-groups/01.toml";

fn accounts(root: &ScratchRoot) {
    root.write(ACCOUNTS, "[[group]]\nname = \"jane\"\n[[user]]\nname = \"jane\"\nhome = \"/home/jane\"\n");
}

fn changed_accounts(root: &ScratchRoot) {
    accounts(root);
    applied(root);
    root.write(ACCOUNTS, "[[group]]\nname = \"jane\"\n[[user]]\nname = \"jane\"\nshell = \"/bin/sh\"\n");
}

const RESOURCES: &str = "usr/share/holo/ral/20.toml";

/// A provider that is disturbed as well: its only change is a single write.
const PROVIDER: &str = r##"#!/bin/bash
eval "$@"
file=$HOLO_ROOT_DIR/etc/row
[ $ral_action != describe ] || exec printf 'provider: {type: row, invoke: simple, suitable: true, attributes: {name: , text: }}'
set -e
[ $ral_action = find ] || echo "$text" >"$file"
printf '# simple\nname: %s\ntext: %s\n' "$name" "$(cat "$file")"
[ $ral_action = find ] || printf 'ral_was: something\n'
"##;

fn resources(root: &ScratchRoot) {
    root.write("usr/share/holo/ral/table.prov", PROVIDER);
    std::fs::set_permissions(root.join("usr/share/holo/ral/table.prov"), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    root.write("usr/share/holo/ral/10.toml", "[[provider]]\npath = \"table.prov\"\nrespects_root = true\n");
    root.write("etc/row", "theirs\n");
    root.write(RESOURCES, "[[resource]]\ntype = \"row\"\nname = \"one\"\nattributes = { text = \"a\" }\n");
}

fn changed_resources(root: &ScratchRoot) {
    resources(root);
    applied(root);
    root.write(RESOURCES, "[[resource]]\ntype = \"row\"\nname = \"one\"\nattributes = { text = \"b\" }\n");
}

/// A user and a group are renamed, on a machine where mocked commands are really run.
fn renamed_everywhere() {
    let us = std::fs::metadata("/proc/self").unwrap();
    let definitions = |user: &str, group: &str| {
        let uid = us.uid();
        format!("[[group]]\nname = \"{group}\"\ngid = 4711\n[[user]]\nname = \"{user}\"\nuid = {uid}\n")
    };
    let case = Case { name: "accounts get other names", plugin: "users-groups", before: |_| {} };
    let before = || {
        let root = prepared(&case);
        root.write("etc/passwd", format!("jane:x:{}:{}::/home/jane:/bin/sh\n", us.uid(), us.gid()));
        root.write("etc/group", format!("people:x:{}:\ncrew:x:4711:\n", us.gid()));
        root.write(ACCOUNTS, definitions("jane", "crew"));
        applied(&root);
        root.write(ACCOUNTS, definitions("joan", "team"));
        root
    };
    let finish = |root: &ScratchRoot, moment: &str| {
        let run = root.holo(&["apply"]);
        assert!(run.success() && !run.stdout_lossy().contains("Scrubbing"), "{moment}: the next apply says\n{run}");
        carry_out(root, &run);
        let run = root.holo(&["apply"]);
        assert!(run.success() && run.stdout.is_empty() && run.stderr.is_empty(), "{moment}: and then\n{run}");
        tree(root)
    };
    let expected = finish(&before(), "undisturbed");
    let kills = disturb::everywhere(disturb::CALLS, |call, number| {
        let root = before();
        let (run, seen) = disturb::at(&root, &["apply"], call, number, Disturbance::Kill);
        carry_out(&root, &run);
        let moment = format!("killed at {call} number {number}\n{run}");
        let tree = finish(&root, &moment);
        assert!(tree == expected, "{moment}: expected\n{expected}\nbut got\n{tree}");
        seen
    });
    assert!(kills > 10, "only {kills} kills: the test does not test what it says");
}

/// Runs the commands that were only printed.
fn carry_out(root: &ScratchRoot, run: &holo_testing::Run) {
    for line in run.stdout_lossy().lines().filter_map(|line| line.strip_prefix("MOCK: ")) {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(words.len() == 4 && ["--login", "--new-name"].contains(&words[1]), "{line}");
        let (tool, new, old) = (words[0], words[2], words[3]);
        let file = if tool == "usermod" { "etc/passwd" } else { "etc/group" };
        let text = root.read(file).to_string().replacen(&format!("{old}:x"), &format!("{new}:x"), 1);
        root.write(file, text);
    }
}

const KEYS: &str = "usr/share/holo/ssh-keys/jane/x.pub";
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMlEihSDsXtKfjGZmUFcJVFeRT7ctkIuJqrXfdbEAr5w";
const OTHER_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG83S2rxfSj0Lhgspevlz0VCGynAocJFmp/arZ2z3qoJ";

fn keys(root: &ScratchRoot) {
    root.write(KEYS, format!("{KEY} jane\n"));
    std::fs::create_dir_all(root.join("home/jane")).unwrap();
}

fn changed_keys(root: &ScratchRoot) {
    keys(root);
    root.write("home/jane/.ssh/authorized_keys", format!("{KEY} her own\n"));
    applied(root);
    root.write(KEYS, format!("{OTHER_KEY} jane\n"));
}

fn moved_keys(root: &ScratchRoot) {
    keys(root);
    root.write("usr/share/holo/ssh-keys/jane/x.pub", format!("{KEY} jane\n{OTHER_KEY} jane\n"));
    root.write("home/jane/.ssh/authorized_keys", format!("{KEY} her own\n"));
    applied(root);
    root.write("usr/share/holo/ssh-keys/jane/a.pub", format!("{OTHER_KEY} jane\n"));
    root.write("usr/share/holo/ssh-keys/jane/z.pub", format!("{KEY} jane\n"));
    std::fs::remove_file(root.join(KEYS)).unwrap();
}

const PACKAGES: &str = "usr/share/holo/packages/01.toml";

/// Without a package manager: requested packages are recorded like installed ones.
fn packages(root: &ScratchRoot) {
    root.write("etc/os-release", "ID=debian\n");
    root.write(
        PACKAGES,
        "[[package]]\nname = \"apple\"\n[[package]]\nname = \"bread\"\nensure = \"1.2\"\nhold = true\n[[package]]\nname = \"cheese\"\n",
    );
}

fn changed_packages(root: &ScratchRoot) {
    packages(root);
    applied(root);
    root.write(
        PACKAGES,
        "[[package]]\nname = \"apple\"\nensure = \"absent\"\n[[package]]\nname = \"bread\"\nensure = \"1.3\"\nhold = false\n[[package]]\nname = \"dates\"\n",
    );
}

fn renamed_packages(root: &ScratchRoot) {
    root.write("var/lib/dpkg/arch", "amd64\ni386\n");
    packages(root);
    applied(root);
    root.write(
        PACKAGES,
        "[[package]]\nname = \"apple:amd64\"\n[[package]]\nname = \"bread\"\narch = \"i386\"\n[[package]]\nname = \"bread:amd64\"\n[[package]]\nname = \"cheese\"\n",
    );
}

const UNITS: &str = "usr/share/holo/services/01.toml";

fn units(root: &ScratchRoot) {
    for unit in ["a", "b"] {
        let text = "[Service]\nExecStart=true\n[Install]\nWantedBy=multi-user.target\n";
        root.write(format!("usr/lib/systemd/system/{unit}.service"), text);
    }
    root.write(
        UNITS,
        "[[service]]\nname = \"a\"\nenable = true\n[[service]]\nname = \"b\"\nmask = true\nensure = \"stopped\"\n",
    );
}

fn changed_units(root: &ScratchRoot) {
    units(root);
    applied(root);
    root.write(
        UNITS,
        "[[service]]\nname = \"a\"\nenable = false\n[[service]]\nname = \"b\"\nmask = false\nenable = true\n",
    );
}

fn renamed_units(root: &ScratchRoot) {
    units(root);
    std::os::unix::fs::symlink("b.service", root.join("usr/lib/systemd/system/c.service")).unwrap();
    applied(root);
    root.write(
        UNITS,
        "[[service]]\nname = \"a.service\"\nenable = true\n[[service]]\nname = \"c\"\nmask = true\nensure = \"stopped\"\n",
    );
}

fn users_units(root: &ScratchRoot) {
    let text = "[Service]\nExecStart=true\n[Install]\nWantedBy=default.target\n";
    root.write("usr/lib/systemd/user/a.service", text);
    let table = |rest: &str| format!("[[service]]\nname = \"a\"\nscope = \"user\"\n{rest}");
    root.write(UNITS, table("enable = true\n") + &table("user = \"alice\"\nenable = true\n"));
}

fn changed_users_units(root: &ScratchRoot) {
    users_units(root);
    applied(root);
    let table = |rest: &str| format!("[[service]]\nname = \"a\"\nscope = \"user\"\n{rest}");
    root.write(UNITS, table("mask = true\nenable = false\n") + &table("user = \"alice\"\nmask = true\n"));
}

fn script(root: &ScratchRoot) {
    root.write_script(
        "usr/share/holo/run-scripts/x",
        "#!/bin/sh\n# holo: after file:/etc/x\n# holo: subscribes file:/etc/x\n: >\"$HOLO_ROOT_DIR/etc/has-run\"\n",
    );
}
