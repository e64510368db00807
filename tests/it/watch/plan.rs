//! Entities that are checked and repaired together: requirements and dependents.

use super::Watching;
use crate::controls::root;
use holo_testing::ScratchRoot;
use std::fs;

/// Returns a root with files in `state/` for these entities, so that they are in their desired state.
fn desired(report: &str, entities: &[&str]) -> ScratchRoot {
    let root = root(report);
    entities.iter().for_each(|name| root.write(format!("state/{name}"), ""));
    root
}

#[track_caller]
fn remove(root: &ScratchRoot, path: &str) {
    fs::remove_file(root.join(path)).unwrap();
}

pub(super) fn required() {
    let report = "ENTITY: x:a\nENTITY: x:b\nREQUIRES: x:a\nENTITY: x:c\nREQUIRES: x:b\nWATCH: /state/c\n";
    let root = desired(report, &["a", "b", "c"]);
    let mut watching = Watching::start(&root, &["--apply"]);
    // No watched path shows these.
    ["state/a", "state/b"].iter().for_each(|path| remove(&root, path));
    watching.expect_silence();
    remove(&root, "state/c");
    ["x:a", "x:b", "x:c"].iter().for_each(|id| drop(watching.expect("drifted", id)));
    ["x:a", "x:b", "x:c"].iter().for_each(|id| drop(watching.expect("repaired", id)));
    watching.stop(&root);
}

pub(super) fn dependents() {
    let report = "ENTITY: x:a\nWATCH: /state/a\nENTITY: x:b\nREQUIRES: x:a\nENTITY: x:c\nAFTER: x:a\n";
    let root = desired(report, &["a", "b", "c"]);
    let mut watching = Watching::start(&root, &["--apply"]);
    ["state/b", "state/c"].iter().for_each(|path| remove(&root, path));
    remove(&root, "state/a");
    watching.expect("drifted", "x:a");
    watching.expect("repaired", "x:a");
    watching.expect("repaired", "x:b");
    // That entity follows it, but does not depend on it.
    watching.expect_silence();
    assert!(!root.exists("state/c"));
    watching.stop(&root);
}

pub(super) fn hindered() {
    let root = super::root();
    let other = super::APP.replace("/conf", "/other") + "requires = [\"file:/srv/app/conf\"]\n";
    root.write("usr/share/holo/files/other.toml", other);
    assert!(root.holo(&["apply"]).success());
    let mut watching = Watching::start(&root, &["--apply"]);
    root.write("srv/app/conf", "port 81\n");
    assert_eq!(watching.expect("drifted", "file:/srv/app/conf")["needs_force"], true);
    remove(&root, "srv/app/other");
    let error = watching.expect("failed", "file:/srv/app/other")["reason"].to_string();
    assert!(error.contains("which is not in its desired state (--force is needed)"), "{error}");
    // No event of the other one occurs by then.
    root.write("srv/app/conf", "port 80\n");
    watching.expect("returned", "file:/srv/app/conf");
    watching.expect("drifted", "file:/srv/app/other");
    watching.expect("repaired", "file:/srv/app/other");
    watching.stop(&root);
}

pub(super) fn left_alone() {
    let report = "ENTITY: x:a\nWATCH: /state/a\nENTITY: x:b\nWATCH: /state/b\nREQUIRES: x:a\nLIMIT: 1/1h\n";
    let root = desired(report, &["a", "b"]);
    let mut watching = Watching::start(&root, &["--apply"]);
    wear_out(&root, &mut watching);
    remove(&root, "state/a");
    watching.expect("drifted", "x:a");
    watching.expect("repaired", "x:a");
    watching.expect_silence();
    assert!(!root.exists("state/b"));
    watching.stop(&root);
}

/// Removes the state of `x:b`, whose limit is one repair, until it is left alone.
fn wear_out(root: &ScratchRoot, watching: &mut Watching) {
    remove(root, "state/b");
    watching.until("repaired");
    remove(root, "state/b");
    watching.until("failed");
}

pub(super) fn refreshed() {
    let report =
        "ENTITY: x:a\nWATCH: /state/a\nLIMIT: 9/1h\nENTITY: x:b\nWATCH: /state/b\nSUBSCRIBES: x:a\nLIMIT: 1/1h\n";
    let root = desired(report, &["a", "b"]);
    let mut watching = Watching::start(&root, &["--apply"]);
    // Refreshes do not count.
    for is_worn_out in [false, false, true, true] {
        if is_worn_out {
            wear_out(&root, &mut watching);
        }
        remove(&root, "state/a");
        while watching.until("repaired").last().is_none_or(|line| line["id"] != "x:b") {}
    }
    wear_out(&root, &mut watching);
    watching.stop(&root);
    // Neither is a refresh lost that another run has left.
    remove(&root, "state/a");
    let run = root.holo(&["apply", "x:a"]);
    assert!(run.success() && !root.exists("state/b"), "{run}");
    let run = root.holo(&["apply", "--unattended=15m"]);
    assert!(run.success() && root.exists("state/b"), "{run}");
}

/// A plugin whose entity is the file `state/token`. It sends the content, which differs each time.
const TOKEN: &str = r#"#!/bin/sh
token=$HOLO_ROOT_DIR/state/token
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\n' ;;
scan) printf 'ENTITY: y:token\nWATCH: /state/token\n' ;;
check) [ -e "$token" ] && echo 'not changed' >&3 || echo 'would change: make' >&3 ;;
apply)
    [ -e "$token" ] && echo 'not changed' >&3 || { date +%s.%N >"$token"; echo 'changed: made' >&3; }
    echo "send: value=$(cat "$token")" >&3 ;;
esac
"#;

pub(super) fn receivers() {
    let root = super::root().dir("state").dir("usr/share/holo/y").script("usr/lib/holo/holo-y", TOKEN);
    let root = root
        .file("etc/holorc.d/10-y", "plugin y\n")
        .resource("files/copy.toml", "[[file]]\npath = \"/srv/copy\"\nreceive = { content = \"y:token#value\" }\n");
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    let before = root.read("srv/copy");
    let mut watching = Watching::start(&root, &["--apply"]);
    remove(&root, "state/token");
    watching.expect("drifted", "y:token");
    watching.expect("repaired", "y:token");
    watching.expect("repaired", "file:/srv/copy");
    assert_ne!(root.read("srv/copy"), before);
    assert_eq!(root.read("srv/copy").trim_ascii(), root.read("state/token").trim_ascii());
    watching.expect_silence();
    watching.stop(&root);
}
