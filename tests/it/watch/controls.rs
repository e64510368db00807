//! Entities with limits on when they may be worked on, while they are watched.

use super::Watching;
use crate::controls::{other_hours, root};
use std::fs;

pub(super) fn polled() {
    let root = root("ENTITY: x:a\nPOLL: 1s\nENTITY: x:b\n");
    let mut watching = Watching::start(&root, &["--apply"]);
    watching.expect("repaired", "x:a");
    watching.expect("repaired", "x:b");
    ["state/a", "state/b"].iter().for_each(|path| fs::remove_file(root.join(path)).unwrap());
    watching.expect("drifted", "x:a");
    watching.expect("repaired", "x:a");
    // No watched path shows the other one.
    watching.expect_silence();
    assert!(!root.exists("state/b"));
    watching.stop(&root);
}

pub(super) fn limited() {
    let root = root("ENTITY: x:a\nPOLL: 1s\nLIMIT: 1/1h\n");
    let mut watching = Watching::start(&root, &["--apply"]);
    watching.expect("repaired", "x:a");
    fs::remove_file(root.join("state/a")).unwrap();
    watching.expect("drifted", "x:a");
    let error = watching.expect("failed", "x:a")["reason"].to_string();
    assert!(error.contains("repaired once within 1h, and changed again"), "{error}");
    assert!(error.contains("It is left alone for 1h, or until"), "{error}");
    watching.expect_silence();
    watching.stop(&root);
}

pub(super) fn noop() {
    let root = root("ENTITY: x:a\nPOLL: 1s\nNOOP: yes\nENTITY: x:b\nNOTIFIES: x:c\nPOLL: 1s\nENTITY: x:c\nNOOP: yes\n");
    ["state/a", "state/b", "state/c"].iter().for_each(|path| root.write(path, ""));
    let mut watching = Watching::start(&root, &["--apply"]);
    fs::remove_file(root.join("state/a")).unwrap();
    assert_eq!(watching.expect("drifted", "x:a")["reason"], "create");
    watching.expect_silence();
    assert!(!root.exists("state/a"));
    root.write("state/a", "");
    watching.expect("returned", "x:a");
    // It is due for a refresh that is on hold.
    fs::remove_file(root.join("state/b")).unwrap();
    watching.expect("drifted", "x:b");
    watching.expect("repaired", "x:b");
    assert_eq!(watching.expect("drifted", "x:c")["reason"], "restart");
    watching.expect_silence();
    watching.stop(&root);
}

pub(super) fn scheduled() {
    let report = |hours: &str| format!("ENTITY: x:a\nPOLL: 1s\nNOTIFIES: x:b\nENTITY: x:b\nSCHEDULE: hours={hours}\n");
    let root = root(&report(&other_hours()));
    ["state/a", "state/b"].iter().for_each(|path| root.write(path, ""));
    let mut watching = Watching::start(&root, &["--apply"]);
    fs::remove_file(root.join("state/a")).unwrap();
    watching.expect("drifted", "x:a");
    watching.expect("repaired", "x:a");
    assert_eq!(watching.expect("drifted", "x:b")["reason"], "restart");
    watching.expect_silence();
    // Definitions are read again, and the schedule is open.
    root.write("report", report("0-24"));
    root.write("etc/holorc", "plugin x\n\n");
    watching.expect("repaired", "x:b");
    watching.stop(&root);
}

pub(super) fn missed() {
    let root = root("ENTITY: x:a\n");
    let plugin = root.read("usr/lib/holo/holo-x").to_string().replace(
        "info)",
        "watch) sleep 2; rm \"$HOLO_ROOT_DIR/state/a\"; echo listening >&3; cat >/dev/null ;;\ninfo) echo WATCH=1;",
    );
    let root = root.script("usr/lib/holo/holo-x", plugin);
    root.write("state/a", "");
    let mut watching = Watching::start(&root, &[]);
    watching.expect("drifted", "x:a");
    watching.stop(&root);
}
