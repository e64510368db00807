//! Declared files whose witnesses are unchanged are not read, and every change that matters is noticed.

use super::record::{
    Case, EDITED, STOCK, TARGET, WANTED, command_reads, overwrite, reads, reads_with, refused, set_mode, settle,
    unchanged,
};
use bstr::ByteSlice;
use holo_testing::{Need, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::symlink;

const DEFINITIONS: &str = "usr/share/holo/files/a.toml";
const SOURCE: &str = "usr/share/holo/files/motd.source";

pub(crate) fn trials() -> Vec<Trial> {
    const STRACE: &[Need] = &[Need::Program("strace")];
    let cases: [Case; 11] = [
        ("known files are not read", STRACE, known),
        ("an edit within the same tick is noticed", &[], same_tick),
        ("an edit is noticed though size and time are as before", &[], restored_time),
        ("another mode is noticed", &[], other_mode),
        ("a file that is gone is made again", &[], gone),
        ("a changed declaration is noticed", &[], changed_declaration),
        ("a changed source is noticed", &[], changed_source),
        ("changed data of a template are noticed", &[], changed_data),
        ("another number of the owner is noticed", &[Need::Root], other_owner),
        ("a path that leads elsewhere is noticed", &[], elsewhere),
        ("a changed record of the file has it read", STRACE, changed_state),
    ];
    cases.into_iter().map(|(name, needs, test)| trial_of(name, needs, test)).collect()
}

fn declared(more: &str) -> String {
    format!("[[file]]\npath = \"/etc/motd\"\n{more}\n")
}

/// Returns a root with a declared file that is known to be unchanged.
fn settled(more: &str) -> ScratchRoot {
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .plugin("files")
        .env("HOLO_HISTORY", "1")
        .file("etc/os-release", "ID=debian\n")
        .file("etc/passwd", "root:x:0:0::/:/bin/sh\nsomeone:x:7:7::/:/bin/sh\n")
        .file("etc/group", "root:x:0:\n")
        .file(TARGET, STOCK)
        .file(SOURCE, WANTED)
        .file("usr/share/holo/files/motd.holotemplate", "{{ data.word }}\n")
        .file("etc/holo/data/common.toml", "word = \"one\"\n")
        .file(DEFINITIONS, declared(more));
    assert!(root.holo(&["apply"]).success());
    settle();
    unchanged(&root);
    root
}

fn with_content() -> ScratchRoot {
    settled(&format!("content = {WANTED:?}"))
}

/// Asserts that the next apply makes a change.
#[track_caller]
fn applied(root: &ScratchRoot) {
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stdout.contains_str("Working on file:/etc/motd"), "{run}");
    unchanged(root);
}

fn known() {
    let root = with_content();
    // A check would warn of sources that no definition mentions.
    for unused in ["motd.source", "motd.holotemplate"] {
        fs::remove_file(root.join("usr/share/holo/files").join(unused)).unwrap();
    }
    assert!(!reads(&root) && !reads(&root));
    assert!(!command_reads(&root, "check", "UNUSED=1"));
    assert!(reads_with(&root, "HOLO_VERIFY=1"));
    fs::remove_file(root.join(DEFINITIONS)).unwrap();
    assert!(root.holo(&["apply"]).success());
    assert_eq!(root.read(TARGET), STOCK);
    assert!(!root.exists("var/lib/holo/files/.declared"), "{}", root.dump());
}

fn same_tick() {
    let root = with_content();
    overwrite(&root.join(TARGET), WANTED);
    unchanged(&root);
    overwrite(&root.join(TARGET), EDITED);
    refused(&root);
}

fn restored_time() {
    let root = with_content();
    overwrite(&root.join(TARGET), EDITED);
    assert!(!root.holo(&["check"]).success());
    refused(&root);
}

fn other_mode() {
    let root = settled(&format!("content = {WANTED:?}\nmode = \"0640\""));
    set_mode(&root.join(TARGET), 0o644);
    refused(&root);
}

fn gone() {
    let root = with_content();
    fs::remove_file(root.join(TARGET)).unwrap();
    applied(&root);
    assert_eq!(root.read(TARGET), WANTED);
}

fn changed_declaration() {
    let root = with_content();
    root.write(DEFINITIONS, declared("content = \"other\\n\""));
    applied(&root);
    assert_eq!(root.read(TARGET), "other\n");
    root.write(DEFINITIONS, declared("ensure = \"absent\""));
    applied(&root);
    assert!(!root.exists(TARGET));
}

fn changed_source() {
    let root = settled("source = \"motd.source\"");
    overwrite(&root.join(SOURCE), EDITED);
    applied(&root);
    assert_eq!(root.read(TARGET), EDITED);
}

fn changed_data() {
    let root = settled("source = \"motd.holotemplate\"");
    root.write("etc/holo/data/common.toml", "word = \"two\"\n");
    applied(&root);
    assert_eq!(root.read(TARGET), "two\n");
}

fn other_owner() {
    let root = settled(&format!("content = {WANTED:?}\nowner = \"someone\""));
    root.write("etc/passwd", "root:x:0:0::/:/bin/sh\nsomeone:x:8:8::/:/bin/sh\n");
    let run = root.holo(&["apply"]);
    assert!(run.stdout.contains_str("Working on file:/etc/motd"), "{run}");
}

/// A directory is moved, and replaced by a symlink to a directory with the same content.
fn elsewhere() {
    let root = with_content();
    fs::create_dir(root.join("other")).unwrap();
    fs::rename(root.join(TARGET), root.join("other/motd")).unwrap();
    fs::rename(root.join("etc"), root.join("old")).unwrap();
    symlink("old", root.join("etc")).unwrap();
    let run = root.holo(&["apply"]);
    assert!(run.stdout.contains_str("Working on file:/etc/motd"), "{run}");
}

fn changed_state() {
    let root = with_content();
    let record = root.record("files/declared", "file:/etc/motd");
    root.write_record("files/declared", "file:/etc/motd", &format!("{record} "));
    assert!(reads(&root) && !reads(&root));
}
