//! The base of a target is out of reach of later changes to the target, even though the original file itself may become the base.

use holo_testing::disturb::{self, Disturbance};
use holo_testing::{Need, ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};

const STOCK: &str = "stock\n";
const WANTED: &str = "wanted\n";
const TARGET: &str = "etc/motd";
const RESOURCE: &str = "usr/share/holo/files/01-x/etc/motd";
const BASE: &str = "var/lib/holo/files/base/etc/motd";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial_of("the file that was there is the base, and not copied", &[], taken_over),
        trial_of("scrubbing puts back the file that was there, and no copy of it", &[], put_back),
        trial_of("a base with another name is put back as a copy", &[], base_with_other_name),
        trial_of("a target that is as it shall be is copied", &[], equal),
        trial_of("a target that cannot be provisioned is copied", &[], broken),
        trial_of("a target that has another name is copied", &[], other_name),
        trial_of("a symlink does not count as a name of its target", &[], link),
        trial_of("a target of a user is copied", &[Need::Root], of_a_user),
        trial_of("a target that others may write to is copied", &[], writable),
        trial_of("an edit after a kill does not change the base", disturb::NEEDS, killed),
    ]
}

fn root() -> ScratchRoot {
    let root = disturb::configure(ScratchRoot::new(), "files").file(TARGET, STOCK).file(RESOURCE, WANTED);
    root.write("etc/os-release", "ID=debian\n");
    root
}

fn applied(root: &ScratchRoot) {
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
}

/// Writes to the file at this path in place, which changes all of its hard links.
fn edit(root: &ScratchRoot, path: &str) {
    let file = fs::File::options().append(true).open(root.join(path));
    file.unwrap().write_all(b"edited\n").unwrap();
}

fn inode(root: &ScratchRoot, path: &str) -> u64 {
    fs::symlink_metadata(root.join(path)).unwrap().ino()
}

fn taken_over() {
    let root = root();
    let found = inode(&root, TARGET);
    applied(&root);
    assert_eq!(inode(&root, BASE), found);
    assert_eq!(fs::metadata(root.join(BASE)).unwrap().nlink(), 1);
    edit(&root, TARGET);
    assert_eq!(root.read(TARGET), format!("{WANTED}edited\n"));
    assert_eq!(root.read(BASE), STOCK);
}

fn put_back() {
    let root = root();
    let found = fs::metadata(root.join(TARGET)).unwrap();
    applied(&root);
    edit(&root, TARGET);
    fs::remove_file(root.join(RESOURCE)).unwrap();
    applied(&root);
    let back = fs::metadata(root.join(TARGET)).unwrap();
    assert_eq!((back.ino(), back.mtime_nsec()), (found.ino(), found.mtime_nsec()));
    assert_eq!(root.read(TARGET), STOCK);
    for folder in ["base/etc", "provisioned/etc", ".staged"] {
        assert!(!root.exists(format!("var/lib/holo/files/{folder}")), "{}", root.dump());
    }
}

fn base_with_other_name() {
    let root = root();
    applied(&root);
    fs::hard_link(root.join(BASE), root.join("etc/other")).unwrap();
    fs::remove_file(root.join(RESOURCE)).unwrap();
    applied(&root);
    assert_ne!(inode(&root, TARGET), inode(&root, "etc/other"));
    edit(&root, "etc/other");
    assert_eq!(root.read(TARGET), STOCK);
}

fn equal() {
    let root = root();
    root.write(RESOURCE, STOCK);
    applied(&root);
    edit(&root, TARGET);
    assert_eq!(root.read(BASE), STOCK);
}

fn broken() {
    let root = root();
    fs::remove_file(root.join(RESOURCE)).unwrap();
    let root = root.script(format!("{RESOURCE}.holoscript"), "#!/bin/sh\nexit 1\n");
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("motd.holoscript failed"), "{run}");
    edit(&root, TARGET);
    assert_eq!(root.read(BASE), STOCK);
}

fn other_name() {
    let root = root();
    fs::hard_link(root.join(TARGET), root.join("etc/other")).unwrap();
    applied(&root);
    edit(&root, "etc/other");
    assert_eq!(root.read(BASE), STOCK);
}

fn link() {
    let root = root();
    fs::remove_file(root.join(TARGET)).unwrap();
    root.write("etc/other", STOCK);
    symlink("other", root.join(TARGET)).unwrap();
    applied(&root);
    assert_eq!(fs::read_link(root.join(BASE)).unwrap().to_str(), Some("other"));
    assert_eq!(root.read("etc/other"), STOCK);
    assert_eq!(root.read(TARGET), WANTED);
}

fn of_a_user() {
    let root = root();
    std::os::unix::fs::chown(root.join(TARGET), Some(12345), None).unwrap();
    // A process that has the file open could still write to it.
    let mut open = fs::File::options().append(true).open(root.join(TARGET)).unwrap();
    applied(&root);
    open.write_all(b"later\n").unwrap();
    assert_eq!(root.read(BASE), STOCK);
    assert_eq!(fs::metadata(root.join(BASE)).unwrap().uid(), 12345);
}

fn writable() {
    let root = root().mode(TARGET, 0o664);
    let mut open = fs::File::options().append(true).open(root.join(TARGET)).unwrap();
    applied(&root);
    open.write_all(b"later\n").unwrap();
    assert_eq!(root.read(BASE), STOCK);
}

/// Between the step that stores the base and the one that replaces the target, both are the same file.
fn killed() {
    let root = root();
    let (_, seen) = disturb::at(&root, &["apply"], "renameat", 1, Disturbance::Kill);
    assert!(seen.is_disturbed() && inode(&root, BASE) == inode(&root, TARGET));
    edit(&root, TARGET);
    applied(&root);
    assert_ne!(inode(&root, BASE), inode(&root, TARGET));
    // The state equals that before any apply: the current content is the original.
    let found = format!("{STOCK}edited\n");
    assert_eq!(root.read(BASE), found);
    assert_eq!(root.read(TARGET), WANTED);
    edit(&root, TARGET);
    fs::remove_file(root.join(RESOURCE)).unwrap();
    applied(&root);
    assert_eq!(root.read(TARGET), found);

    // If no replacement is needed any more, the base is copied in the end.
    let root = self::root();
    let (_, seen) = disturb::at(&root, &["apply"], "renameat", 1, Disturbance::Kill);
    assert!(seen.is_disturbed() && inode(&root, BASE) == inode(&root, TARGET));
    root.write(RESOURCE, STOCK);
    applied(&root);
    edit(&root, TARGET);
    assert_eq!(root.read(BASE), STOCK);
}
