//! Tests of trees as text and on disk.

use super::*;
use crate::files;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

const SAMPLE: &[u8] = b"\
symlink   0777 ./a/link
../somewhere else
----------------------------------------
directory 0700 ./a/.ssh/
----------------------------------------
file      0600 ./a/.ssh/keys
key
----------------------------------------
directory 0755 ./empty/
----------------------------------------
file      4755 ./file with blanks\xff
one

\xfe
----------------------------------------
fifo      0640 ./pipe
----------------------------------------
file      0400 ./void
----------------------------------------
directory 0500 ./z/
----------------------------------------
file      0644 ./z/in
in
----------------------------------------
";

fn problem(text: &str) -> String {
    parse(text.as_bytes()).unwrap_err().to_string()
}

fn file(path: &str) -> String {
    format!("file 0644 {path}\n{}\n", DASHES.as_bstr())
}

#[test]
fn a_tree_survives_the_way_to_disk_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let tree = parse(SAMPLE).unwrap();
    materialise(&tree, dir.path()).unwrap();
    assert_eq!(dump(dir.path()).unwrap().as_bstr(), SAMPLE.as_bstr());
    assert_eq!(Tree::read(dir.path()).unwrap(), tree);
    let parent = fs::metadata(dir.path().join("a")).unwrap();
    assert_eq!(parent.permissions().mode() & 0o7777, 0o755);
    files::remove(dir.path()).unwrap();
}

#[test]
fn names_are_ordered_as_bytes_within_the_walk_and_dot_ssh_is_last() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["base/x", "base.d/x", "Z", "a", "_", ".ssh", ".bashrc", "é"];
    let text: String = names.iter().map(|name| file(&format!("./{name}"))).collect();
    materialise(&parse(text.as_bytes()).unwrap(), dir.path()).unwrap();
    let tree = Tree::read(dir.path()).unwrap();
    let order: Vec<_> = tree.sections().iter().map(|s| s.path.to_string()).collect();
    let expected = [".bashrc", "Z", "_", "a", "base/x", "base.d/x", "é", ".ssh"];
    assert_eq!(order, expected);
}

#[test]
fn a_missing_last_newline_is_supplied_but_not_to_an_empty_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "text").unwrap();
    fs::write(dir.path().join("b"), "").unwrap();
    let text = dump(dir.path()).unwrap();
    assert!(text.contains_str("./a\ntext\n-----"));
    assert!(text.contains_str("./b\n-----"));
}

#[test]
fn special_files_are_dumped_without_content() {
    let dir = tempfile::tempdir().unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("s")).unwrap();
    let tree = Tree::read(dir.path()).unwrap();
    assert_eq!(tree.get(b"s").unwrap().node, Node::Socket);
    assert!(tree.to_bytes().starts_with(b"socket    0"));
    assert_eq!(parse(&tree.to_bytes()).unwrap(), tree);

    let other = tempfile::tempdir().unwrap();
    let error = materialise(&tree, other.path()).unwrap_err().to_string();
    assert!(error.ends_with("/s: sockets and devices are not made from a tree, but env.sh may make them"));
}

#[test]
fn paths_may_be_written_loosely() {
    let text = "directory 755 ./a\n----------------------------------------\n\n\
                file  0644 a//./b\n----------------------------------------";
    let tree = parse(text.as_bytes()).unwrap();
    assert_eq!(tree.get(b"a").unwrap().mode, 0o755);
    assert!(tree.get(b"a/b").is_some());
}

#[test]
fn errors_name_the_line_and_the_way_out() {
    assert_eq!(
        problem("file 0644\n"),
        "source-tree, line 1: `file 0644` is not a section header; \
         write `TYPE MODE ./PATH`, as in `file      0644 ./etc/motd`"
    );
    let second = file("./a") + "pipe 0644 ./b\n----------------------------------------\n";
    assert_eq!(
        problem(&second),
        "source-tree, line 3: the type `pipe` is unknown; write file, symlink, directory or fifo"
    );
    assert!(problem("file 0649 ./x\n").contains("`0649` is not a mode"));
    assert!(problem("file +644 ./x\n").contains("`+644` is not a mode"));
    assert!(problem("file 0644 ./x\ntext\n").contains("no end"));
    assert!(problem(&file("./x/")).contains("ends with a slash"));
    assert!(problem(&file("./x").replace("file", "symlink")).contains("no target"));
    let full = file("./x").replace("file", "directory").replacen('\n', "\ny\n", 1);
    assert!(problem(&full).contains("a directory has no content"));
    let twice = file("./x") + &file("x");
    assert!(problem(&twice).contains("line 3: the path ./x was described in line 1 already"));
}

#[test]
fn hostile_paths_are_refused() {
    assert!(problem(&file("/etc/x")).contains("line 1: the path `/etc/x` is absolute"));
    assert!(problem(&file("./a/../../x")).contains("contains `..`"));
    assert!(problem(&file("./.")).contains("is the root itself"));
    assert!(problem(&file("./a\0b")).contains("NUL"));
    let link = "symlink 0777 ./a\n/etc\n----------------------------------------\n";
    for text in [file("./a/x") + link, link.to_owned() + &file("./a/x")] {
        let error = problem(&text);
        assert!(error.contains("./a/x goes through ./a, which is a symlink"), "{error}");
    }
    assert!(problem(&(file("./a") + &file("./a/b/c"))).contains("is below ./a"));
}

#[test]
fn nothing_is_written_through_a_symlink_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), dir.path().join("a")).unwrap();
    symlink(outside.path().join("x"), dir.path().join("b")).unwrap();
    for path in ["./a/x", "./b"] {
        let tree = parse(file(path).as_bytes()).unwrap();
        materialise(&tree, dir.path()).unwrap_err();
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}
