//! `holo diff`: changes of downloads and extracted files.

use crate::support::samples::{Tar, gzip, zip};
use crate::support::{apply, in_little_memory, root};
use holo_testing::ScratchRoot;
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        nothing_that_is_as_it_was_extracted_is_shown,
        a_changed_text_is_shown_as_that_of_a_file,
        several_changes_are_a_list_with_the_lines_of_texts,
        what_is_no_short_text_is_listed_alone,
        without_the_archive_there_are_no_lines_of_it,
        a_copied_archive_that_was_removed_is_read_where_it_came_from,
        a_changed_download_is_listed,
        a_kept_file_is_a_persons,
        an_orphan_is_shown_too,
        an_apply_that_needs_force_shows_why,
        a_zip_and_a_hard_link_have_contents,
        a_large_file_is_never_in_memory,
    ]
}

const DEFINITION: &str = "url = \"file:///usr/share/app\"\nextract_to = \"/opt/app\"\nstrip_components = 1";

fn tar() -> Tar {
    Tar::new()
        .file_with_mode("app/bin/app", b"\x7fELF\0\0\0one", 0o755)
        .file("app/etc/app.conf", "listen 80\nname one\n")
        .file("app/share/guide", "read me")
        .symlink("app/current", "bin/app")
}

fn applied(more: &str) -> ScratchRoot {
    let root = root(&format!("{DEFINITION}\n{more}")).file("usr/share/app", gzip(&tar().end()));
    apply(&root);
    root
}

/// Returns the output, without the temporary parts of paths.
#[track_caller]
fn diff(root: &ScratchRoot) -> String {
    let run = root.holo(&["diff", "archive:/srv/app.tar"]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    run.stdout_lossy().to_string()
}

/// Returns the removed and added lines.
fn changes(root: &ScratchRoot) -> Vec<String> {
    let shown = diff(root);
    let lines = shown.lines().filter(|line| line.starts_with(['-', '+']));
    lines.filter(|line| !line.starts_with("---") && !line.starts_with("+++")).map(str::to_owned).collect()
}

fn nothing_that_is_as_it_was_extracted_is_shown() {
    let root = applied("");
    assert_eq!(diff(&root), "");
    // The owner and the time are irrelevant.
    fs::write(root.join("opt/app/etc/app.conf"), "listen 80\nname one\n").unwrap();
    root.write("opt/app/another", "a person's");
    assert_eq!(diff(&root), "");
    let never = crate::support::root(DEFINITION);
    assert_eq!(diff(&never), "");
}

fn a_changed_text_is_shown_as_that_of_a_file() {
    let root = applied("");
    root.write("opt/app/etc/app.conf", "listen 8080\nname one\n");
    let there = root.join("opt/app/etc/app.conf");
    let names = format!("--- archive:/srv/app.tar (applied)\n+++ {}\n", there.display());
    let shown = diff(&root);
    assert!(shown.contains(&names), "{shown}");
    assert!(shown.ends_with("@@ -1,2 +1,2 @@\n-listen 80\n+listen 8080\n name one\n"), "{shown}");
    fs::remove_file(&there).unwrap();
    assert_eq!(changes(&root), ["-listen 80", "-name one"]);
    assert!(diff(&root).contains("deleted file mode 100644"));
}

fn several_changes_are_a_list_with_the_lines_of_texts() {
    let root = applied("");
    root.write("opt/app/etc/app.conf", "listen 8080\nname one\n");
    fs::remove_file(root.join("opt/app/share/guide")).unwrap();
    fs::set_permissions(root.join("opt/app/bin/app"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::remove_file(root.join("opt/app/current")).unwrap();
    symlink("share", root.join("opt/app/current")).unwrap();
    let shown = changes(&root);
    let begins = [
        "-/opt/app/bin/app  0755  10 bytes  sha256:",
        "-/opt/app/current -> bin/app",
        "-/opt/app/etc/app.conf  0644  19 bytes  sha256:",
        "-/opt/app/etc/app.conf| listen 80",
        "+/opt/app/bin/app  0700  10 bytes  sha256:",
        "+/opt/app/current -> share",
        "+/opt/app/etc/app.conf  0644  21 bytes  sha256:",
        "+/opt/app/etc/app.conf| listen 8080",
        "-/opt/app/share/guide  0644  7 bytes  sha256:",
        "-/opt/app/share/guide| read me\\ without a newline at the end",
    ];
    assert_eq!(shown.len(), begins.len(), "{shown:#?}");
    for (line, begin) in shown.iter().zip(begins) {
        assert!(line.starts_with(begin), "{line:?} is not {begin:?}: {shown:#?}");
    }
}

fn what_is_no_short_text_is_listed_alone() {
    let root = applied("");
    fs::write(root.join("opt/app/bin/app"), b"\x7fELF\0\0\0two").unwrap();
    let shown = changes(&root);
    assert!(
        shown.len() == 2 && shown.iter().all(|line| line.contains("/opt/app/bin/app  0755  10 bytes")),
        "{shown:?}"
    );
    // For a text that has become long, only the original is shown.
    let root = applied("");
    root.write("opt/app/etc/app.conf", "x\n".repeat(100_000));
    let shown = changes(&root);
    assert!(shown.len() == 4 && shown[3].contains("200000 bytes"), "{shown:?}");
    assert_eq!(shown[1], "-/opt/app/etc/app.conf| listen 80");
    fs::remove_file(root.join("opt/app/etc/app.conf")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("opt/app/etc/app.conf"), 0o644.into()).unwrap();
    assert!(changes(&root)[0].starts_with("-/opt/app/etc/app.conf  0644"));
}

fn without_the_archive_there_are_no_lines_of_it() {
    let root = applied("cleanup = true");
    fs::remove_file(root.join("usr/share/app")).unwrap();
    root.write("opt/app/etc/app.conf", "listen 8080\n");
    let shown = changes(&root);
    assert!(shown.len() == 3 && shown[2] == "+/opt/app/etc/app.conf| listen 8080", "{shown:?}");
    // Nor are there lines of another archive.
    root.write("usr/share/app", gzip(&Tar::new().file("app/etc/app.conf", "another\n").end()));
    assert_eq!(changes(&root), shown);
}

fn a_copied_archive_that_was_removed_is_read_where_it_came_from() {
    let root = applied("cleanup = true");
    root.write("opt/app/etc/app.conf", "listen 8080\nname one\n");
    assert_eq!(changes(&root), ["-listen 80", "+listen 8080"]);
}

fn a_changed_download_is_listed() {
    let root = applied("");
    root.write("srv/app.tar", "a person's");
    let shown = changes(&root);
    assert!(shown.len() == 2 && shown[0].starts_with("-/srv/app.tar  (sha256:"), "{shown:?}");
    assert!(shown[1].starts_with("+/srv/app.tar  0644  10 bytes  sha256:"), "{shown:?}");
    fs::remove_file(root.join("srv/app.tar")).unwrap();
    assert_eq!(changes(&root), shown[..1]);
}

fn a_kept_file_is_a_persons() {
    let root = applied("keep = [\"*.conf\"]");
    root.write("opt/app/etc/app.conf", "a person's\n");
    assert_eq!(diff(&root), "");
}

fn an_orphan_is_shown_too() {
    let root = applied("");
    root.write("opt/app/etc/app.conf", "listen 8080\nname one\n");
    fs::remove_file(root.join("usr/share/holo/archives/10-test.toml")).unwrap();
    let shown = changes(&root);
    assert!(shown.len() == 4 && shown[0].starts_with("-/opt/app/etc/app.conf  0644  19 bytes"), "{shown:?}");
}

fn an_apply_that_needs_force_shows_why() {
    let root = applied("");
    root.write("opt/app/etc/app.conf", "listen 8080\nname one\n");
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stdout_lossy().contains("+listen 8080"), "{run}");
    assert_eq!(root.read("opt/app/etc/app.conf"), "listen 8080\nname one\n");
}

fn a_zip_and_a_hard_link_have_contents() {
    let root = root(DEFINITION).file("usr/share/app", zip(&[(b"app/etc/app.conf", 0o100_644, b"one\n")]));
    apply(&root);
    root.write("opt/app/etc/app.conf", "two\n");
    assert_eq!(changes(&root), ["-one", "+two"]);
    let root = crate::support::root(DEFINITION);
    root.write("usr/share/app", tar().hard_link("app/etc/alias", "app/etc/app.conf").end());
    apply(&root);
    fs::remove_file(root.join("opt/app/etc/alias")).unwrap();
    root.write("opt/app/etc/alias", "listen 8080\nname one\n");
    assert_eq!(changes(&root), ["-listen 80", "+listen 8080"]);
}

fn a_large_file_is_never_in_memory() {
    let root = root(DEFINITION);
    root.write("usr/share/app", gzip(&tar().file("app/large", vec![b'x'; 80 << 20]).end()));
    apply(&root);
    let large = root.join("opt/app/large");
    fs::OpenOptions::new().write(true).open(&large).unwrap().set_len(79 << 20).unwrap();
    root.write("opt/app/etc/app.conf", "listen 8080\nname one\n");
    let run = in_little_memory(&root, "diff");
    assert!(run.stderr.is_empty(), "{run}");
    let shown = run.stdout_lossy();
    assert!(shown.contains("+/opt/app/large  0644  82837504 bytes"), "{run}");
    assert!(shown.contains("+/opt/app/etc/app.conf| listen 8080"), "{run}");
}
