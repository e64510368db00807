//! `holo scrub --all`: the original state of everything comes back. And `apply --wait`, for those who cannot run it again.

use holo_testing::{ScratchRoot, binaries::built};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        original_state_comes_back,
        preview_changes_nothing,
        option_is_required,
        generations_and_status_are_those_of_the_definitions,
        apply_waits_for_another_one,
    ]
}

/// Entities of three plugins, one with a generator, and a plugin of version 3 in shell.
fn root() -> ScratchRoot {
    let plugin = |id: &str| format!("plugin {id}={}\n", built(&format!("holo-{id}")).display());
    let root = ScratchRoot::new()
        .env("HOLO_HISTORY", "1")
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/holorc", plugin("files"))
        .file("etc/holorc.d/10-archives", plugin("archives"))
        .file("etc/motd", "stock\n")
        .file("etc/hosts", "127.0.0.1 localhost\n")
        .resource("files/a/etc/motd", "ours\n")
        .resource("files/x.toml", "[[file]]\npath = \"/srv/a/b\"\ncontent = \"x\"\n[[line]]\npath = \"/etc/hosts\"\nline = \"192.0.2.7 db\"\n")
        .resource("archives/x.toml", "");
    let generator = "usr/share/holo/generators/made";
    let root = root.file(generator, "#!/bin/sh\nmkdir -p $OUT/files\nprintf '[[file]]\\npath = \"/srv/made\"\\ncontent = \"m\"\\n' >$OUT/files/made.toml\n");
    let made = root.run("chmod", &["755".as_ref(), root.path().join(generator).as_os_str()]);
    assert!(made.success(), "{made}");
    root
}

#[track_caller]
fn tree(root: &ScratchRoot) -> String {
    let list = "find . ! -path './var*' ! -path './run*' -printf '%p %y %m %s\\n' | sort; cat etc/motd etc/hosts";
    root.run("sh", &["-c", list]).stdout_lossy().into_owned()
}

#[track_caller]
fn exits(root: &ScratchRoot, arguments: &[&str], status: i32) -> String {
    let run = root.holo(arguments);
    assert_eq!(run.status, Some(status), "{run}");
    run.to_string()
}

fn original_state_comes_back() {
    let root = root();
    let before = tree(&root);
    exits(&root, &["apply"], 0);
    assert_ne!(tree(&root), before);
    let output = exits(&root, &["scrub", "--all"], 0);
    for id in ["file:/etc/motd", "file:/srv/a/b", "file:/srv/made", "line:/etc/hosts"] {
        assert!(output.contains(&format!("Scrubbing {id}")), "{id}: {output}");
    }
    assert_eq!(tree(&root), before);
    assert!(!root.exists("var/lib/holo/files/base/etc/motd"));
    // The definitions are still there.
    exits(&root, &["check"], 3);
    exits(&root, &["apply"], 0);
    exits(&root, &["check"], 0);
}

fn preview_changes_nothing() {
    let root = root();
    exits(&root, &["scrub", "--all", "--dry-run"], 0);
    exits(&root, &["apply"], 0);
    let applied = tree(&root);
    let output = exits(&root, &["scrub", "--all", "--dry-run", "--diff"], 3);
    assert!(output.contains("would remove") && output.contains("-192.0.2.7 db"), "{output}");
    assert_eq!(tree(&root), applied);
    exits(&root, &["check"], 0);
}

fn option_is_required() {
    let root = root();
    let output = exits(&root, &["scrub"], 2);
    assert!(output.contains("--all") && output.contains("Usage: holo scrub"), "{output}");
    exits(&root, &["scrub", "--all", "file:/etc/motd"], 2);
}

/// The inputs of a scrub are not those of a generation, also while a generation is in use.
fn generations_and_status_are_those_of_the_definitions() {
    let root = root();
    exits(&root, &["apply"], 0);
    root.write("usr/share/holo/files/a/etc/motd", "other\n");
    exits(&root, &["apply"], 0);
    let generations = exits(&root, &["generations"], 0);
    exits(&root, &["rollback", "1"], 0);
    exits(&root, &["scrub", "--all"], 0);
    assert_eq!(root.read("etc/motd"), "stock\n");
    assert!(exits(&root, &["status"], 3).contains("not in the desired state"));
    exits(&root, &["apply"], 0);
    assert_eq!(root.read("etc/motd"), "ours\n");
    exits(&root, &["rollback", "--release"], 0);
    assert_eq!(exits(&root, &["generations"], 0).lines().count(), generations.lines().count());
    let history = exits(&root, &["history"], 0);
    assert!(history.contains("holo scrub --all"), "{history}");
}

fn apply_waits_for_another_one() {
    let root = root();
    exits(&root, &["apply"], 0);
    let script = "#!/bin/sh\ncat >/dev/null\ntouch $HOLO_ROOT_DIR/begun\nsleep 1\necho slow\n";
    root.write("usr/share/holo/files/a/etc/issue.holoscript", script);
    root.write("etc/issue", "stock\n");
    let path = root.path().join("usr/share/holo/files/a/etc/issue.holoscript");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| exits(&root, &["apply"], 0));
        let begun = Instant::now();
        while !root.exists("begun") {
            assert!(begun.elapsed() < Duration::from_secs(30));
            thread::sleep(Duration::from_millis(10));
        }
        let refused = exits(&root, &["apply"], 255);
        assert!(refused.contains("another instance of Holo is currently running"), "{refused}");
        exits(&root, &["apply", "--wait", "30s"], 0);
        first.join().unwrap();
    });
    assert_eq!(root.read("etc/issue"), "slow\n");
    exits(&root, &["apply", "--wait", "soon"], 2);
}
