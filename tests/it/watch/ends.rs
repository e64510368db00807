//! The end of a watch, and its exit codes.

use super::{APP, Watching, root};
use crate::controls;
use holo_testing::ScratchRoot;
use std::fs;

fn code(root: &ScratchRoot, arguments: &[&str]) -> Option<i32> {
    root.holo(&[&["watch", "--for", "300ms", "--once"], arguments].concat()).status
}

pub(super) fn converged() {
    let root = root();
    assert_eq!(code(&root, &[]), Some(0));
    fs::write(root.join("srv/app/conf"), "port 81\n").unwrap();
    assert_eq!(code(&root, &[]), Some(3));
    assert_eq!(code(&root, &["file:/etc/motd"]), Some(0));
    assert_eq!(code(&root, &["--apply"]), Some(3));
    assert_eq!(code(&root, &["--apply", "--force"]), Some(0));
    let run = root.holo(&["watch", "--for", "1s", "file:/nothing"]);
    assert_eq!(run.status, Some(255), "{run}");
    assert!(run.stderr_lossy().contains("Unrecognized argument: file:/nothing"), "{run}");
}

pub(super) fn failed() {
    // A file is in the place of a directory.
    let never = APP.replace("/srv/app/conf", "/srv/file/below");
    let root = root().file("srv/file", "").resource("files/never.toml", &never);
    // All other entities are repaired.
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    assert_eq!(code(&root, &["--apply"]), Some(1));
    assert!(root.exists("srv/app/conf"));
    assert_eq!(code(&root, &["--apply", "file:/srv/file/below"]), Some(1));
    assert_eq!(code(&root, &["--apply", "file:/srv/app/conf"]), Some(0));
    // So does an entity that requires it.
    root.write("usr/share/holo/files/app.toml", format!("{APP}requires = [\"file:/srv/file/below\"]\n"));
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    assert_eq!(code(&root, &["--apply", "file:/srv/app/conf"]), Some(1));
    assert!(!root.exists("srv/app/conf"));
}

pub(super) fn flawed() {
    let root = root();
    root.write("usr/share/holo/files/bad.toml", "[[file]]\npath = 1\n");
    assert_eq!(code(&root, &[]), Some(1));
    // An error about other entities does not affect this one.
    assert_eq!(code(&root, &["file:/srv/app/conf"]), Some(0));
    fs::remove_file(root.join("usr/share/holo/files/bad.toml")).unwrap();
    assert_eq!(code(&root, &[]), Some(0));
    let mut watching = Watching::start(&root, &["--once"]);
    fs::write(root.join("etc/holorc.d/99-bad"), "plugn files\n").unwrap();
    watching.until("error");
    assert_eq!(watching.end(), Some(1));
}

pub(super) fn changed_meanwhile() {
    let root = controls::root("ENTITY: x:a\nPOLL: 1s\n");
    // An event every second, so there is never a quiet period of three.
    let mut watching = Watching::start(&root, &["--apply", "--for", "3s"]);
    watching.expect("repaired", "x:a");
    for round in 1..=3 {
        fs::remove_file(root.join("state/a")).unwrap();
        watching.expect("drifted", "x:a");
        if round < 3 {
            watching.expect("repaired", "x:a");
        }
    }
    watching.expect("failed", "x:a");
    // It has been repaired three times, and is abandoned in the wrong state.
    assert_eq!(watching.end(), Some(3));
    assert!(!root.exists("state/a"));
}

pub(super) fn once() {
    let root = root();
    let mut watching = Watching::start(&root, &["--once", "--apply"]);
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    watching.expect("drifted", "file:/srv/app/conf");
    watching.expect("repaired", "file:/srv/app/conf");
    assert_eq!(watching.end(), Some(0));
    let mut watching = Watching::start(&root, &["--once"]);
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    assert_eq!(watching.end(), Some(3));
}
