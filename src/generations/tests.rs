//! Generations of a scratch root throughout their lifetime.

use super::*;
use crate::entities::resources::Generated;
use crate::host::root::Root;
use holo_state::Database;
use holo_testing::ScratchRoot;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn root_of(scratch: &ScratchRoot) -> Root {
    Root::new(Some(scratch.path().into()))
}

/// Records the current inputs, and returns the number of their generation.
#[track_caller]
fn keep_some(scratch: &ScratchRoot, keep: usize) -> u32 {
    let root = root_of(scratch);
    let generated: Generated = BTreeMap::new();
    let request = Request { root, virtual_root: PathBuf::new(), generated };
    match read(request).unwrap() {
        Recorded::Same(number) => number,
        Recorded::New(reading) => reading.keep("run", "run", &[], keep).unwrap(),
    }
}

#[track_caller]
fn keep(scratch: &ScratchRoot) -> u32 {
    keep_some(scratch, 20)
}

fn scratch() -> ScratchRoot {
    ScratchRoot::new()
        .file("etc/holorc", "plugin files\n")
        .file("usr/share/holo/files/01-x/etc/motd", "one\n")
        .file("usr/share/holo/files/01-x/etc/issue", "two\n")
        .file("usr/share/holo/files/01-x/etc/issue.net", "two\n")
        .file("etc/holo/data/secret.toml", "a = 1\n")
        .mode("etc/holo/data/secret.toml", 0o600)
        .symlink("usr/share/holo/files/01-x/etc/link", "motd")
        .dir("usr/share/holo/empty")
}

fn store(scratch: &ScratchRoot) -> Store {
    Store::new(&root_of(scratch))
}

/// Checks out a generation, and returns its tree as text, without its description.
#[track_caller]
fn checked_out(scratch: &ScratchRoot, number: u32) -> String {
    let (store, folder) = (store(scratch), tempfile::tempdir().unwrap());
    let into = folder.path().join("x");
    store.check_out(&store.generation(number).unwrap(), &root_of(scratch), &into).unwrap();
    fs::remove_file(into.join("generation.json")).unwrap();
    String::from_utf8(holo_testing::tree::dump(&into).unwrap()).unwrap()
}

/// Like [`checked_out`], but for the current inputs.
fn present(scratch: &ScratchRoot) -> String {
    let folder = tempfile::tempdir().unwrap();
    let copied = std::path::absolute(folder.path()).unwrap();
    for below in ["etc", "usr"] {
        copy(&scratch.join(below), &copied.join(below));
    }
    String::from_utf8(holo_testing::tree::dump(&copied).unwrap()).unwrap()
}

fn copy(from: &Path, to: &Path) {
    let metadata = from.symlink_metadata().unwrap();
    if metadata.is_symlink() {
        std::os::unix::fs::symlink(from.read_link().unwrap(), to).unwrap();
    } else if metadata.is_dir() {
        fs::create_dir(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name();
            copy(&from.join(&name), &to.join(name));
        }
    } else {
        fs::copy(from, to).unwrap();
    }
}

#[test]
fn recorded_inputs_are_checked_out_unchanged() {
    let scratch = scratch();
    assert_eq!(keep(&scratch), 1);
    let first = present(&scratch);
    assert_eq!(keep(&scratch), 1, "nothing is kept of what is as it was");
    scratch.write("usr/share/holo/files/01-x/etc/motd", "other\n");
    fs::remove_file(scratch.join("usr/share/holo/files/01-x/etc/issue")).unwrap();
    scratch.write("etc/holo/facts.d/site", "#!/bin/sh\n");
    let second = present(&scratch);
    assert_eq!(keep(&scratch), 2);
    scratch.write("usr/share/holo/files/01-x/etc/motd", "one\n");
    assert_eq!(keep(&scratch), 3);
    assert_eq!(checked_out(&scratch, 1), first);
    assert_eq!(checked_out(&scratch, 2), second);
    let generation = store(&scratch).generation(2).unwrap();
    assert_eq!(generation.counts, Some(Counts { added: 1, changed: 1, removed: 1 }));
    assert_eq!(store(&scratch).generation(3).unwrap().counts.unwrap().changed, 1);
    for (path, mode) in [(root_of(&scratch).generations(), 0o700), (root_of(&scratch).state_database(), 0o600)] {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode, "{}", path.display());
    }
}

#[test]
fn old_generations_are_removed_but_needed_objects_stay() {
    let scratch = scratch();
    for number in 1..=5 {
        scratch.write("usr/share/holo/files/01-x/etc/motd", number.to_string());
        assert_eq!(keep_some(&scratch, 2), number);
    }
    assert_eq!(store(&scratch).numbers().unwrap(), [4, 5]);
    assert!(checked_out(&scratch, 4).contains("\n4\n"));
    let error = store(&scratch).generation(1).unwrap_err().to_string();
    assert_eq!(error, "there is no generation 1; there are 4 to 5");
    assert_eq!(store(&scratch).before(None).unwrap(), 4);
    assert_eq!(store(&scratch).before(Some(4)).unwrap_err().to_string(), "there is no generation before 4");
    // The generation in use is kept.
    Pin::set(&root_of(&scratch), &store(&scratch), 4, "run").unwrap();
    for number in 6..=8 {
        scratch.write("usr/share/holo/files/01-x/etc/motd", number.to_string());
        assert_eq!(keep_some(&scratch, 2), number);
    }
    assert_eq!(store(&scratch).numbers().unwrap(), [4, 7, 8]);
    assert!(checked_out(&scratch, 4).contains("\n4\n"));
    assert!(checked_out(&scratch, 7).contains("\n7\n"));
    // The three of them, and four that all generations have.
    assert_eq!(rows(&scratch, "blob"), 3 + 3);
    let motds = store(&scratch).database().tables().unwrap();
    assert!(motds.iter().any(|table| table.name == "generation" && table.rows == 3), "{motds:?}");
}

/// Returns the number of rows of a table.
#[track_caller]
fn rows(scratch: &ScratchRoot, table: &str) -> u64 {
    let tables = store(scratch).database().tables().unwrap();
    tables.iter().find(|size| size.name == table).unwrap().rows
}

/// Replaces text in the state database.
#[track_caller]
fn damage(scratch: &ScratchRoot, from: &str, to: &str) {
    let path = root_of(scratch).state_database();
    let mut export = Vec::new();
    Database::new(path.clone()).export(&mut export).unwrap().unwrap();
    let export = String::from_utf8(export).unwrap();
    assert!(export.contains(from), "{export}");
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", path.display()));
    }
    Database::new(path).import(&mut export.replace(from, to).as_bytes()).unwrap();
}

/// Checks out the first generation, and returns the error.
#[track_caller]
fn unusable(scratch: &ScratchRoot) -> String {
    let (store, folder) = (store(scratch), tempfile::tempdir().unwrap());
    let generation = store.generation(1).unwrap();
    store.check_out(&generation, &root_of(scratch), &folder.path().join("x")).unwrap_err().to_string()
}

#[test]
fn damaged_or_missing_content_is_reported() {
    let large = "usr/share/holo/files/01-x/etc/large";
    let scratch = scratch().file(large, vec![b'x'; (1 << 20) + 1]);
    keep(&scratch);
    assert_eq!(checked_out(&scratch, 1), present(&scratch));
    let contents = root_of(&scratch).generations().join("contents");
    let file = fs::read_dir(contents).unwrap().next().unwrap().unwrap().path();
    fs::write(&file, "y").unwrap();
    let error = unusable(&scratch);
    assert!(error.starts_with("cannot use generation 1: ") && error.ends_with(" is damaged"), "{error}");
    fs::remove_file(&file).unwrap();
    let error = unusable(&scratch);
    assert!(error.contains(file.to_str().unwrap()), "{error}");

    scratch.write(large, vec![b'x'; (1 << 20) + 1]);
    scratch.write("usr/share/holo/files/01-x/etc/motd", "other\n");
    assert_eq!(keep(&scratch), 2);
    assert_eq!(checked_out(&scratch, 2), present(&scratch), "changed contents are stored again");
    damage(&scratch, r#""content":"one\n""#, r#""content":"eno\n""#);
    let error = unusable(&scratch);
    assert!(error.contains("state.db: the content ") && error.ends_with(" is damaged"), "{error}");
    damage(&scratch, r#""path":"usr/share/holo/files/01-x/etc/motd""#, r#""path":"../etc/motd""#);
    let error = unusable(&scratch);
    assert!(error.ends_with("state.db: an input is damaged"), "{error}");
}

#[test]
fn pin_selects_the_inputs() {
    let scratch = scratch();
    keep(&scratch);
    let root = root_of(&scratch);
    assert_eq!(Pin::read(&root).unwrap(), None);
    assert!(!Pin::release(&root).unwrap());
    let pin = Pin::set(&root, &store(&scratch), 1, "a").unwrap();
    assert_eq!(Pin::read(&root).unwrap(), Some(pin.clone()));
    assert_eq!(pin.generation(&root).unwrap().number, 1);
    let again = Pin::set(&root, &store(&scratch), 1, "b").unwrap();
    assert_eq!(Pin::read(&root).unwrap(), Some(again.clone()));
    assert!(!pin.inputs(&root).exists() && again.inputs(&root).exists());
    let error = pin.generation(&root).unwrap_err().to_string();
    assert!(error.starts_with("cannot use generation 1: ") && error.contains("`holo rollback 1`"), "{error}");
    fs::write(root.pin(), "{").unwrap();
    assert!(Pin::read(&root).unwrap_err().to_string().contains("pinned.json"));
    assert!(Pin::release(&root).unwrap());
    assert!(!again.inputs(&root).exists());
    assert_eq!(Pin::read(&root).unwrap(), None);
}

#[test]
fn change_of_one_file_adds_one_row() {
    let mut scratch = ScratchRoot::in_memory().file("etc/holorc", "");
    for number in 0..2000 {
        scratch = scratch.file(format!("usr/share/holo/files/01-x/etc/{number}"), format!("value = {number}\n"));
    }
    keep(&scratch);
    let before = [rows(&scratch, "input"), rows(&scratch, "blob")];
    scratch.write("usr/share/holo/files/01-x/etc/7", "other\n");
    keep(&scratch);
    assert_eq!([rows(&scratch, "input"), rows(&scratch, "blob")], before.map(|rows| rows + 1));
}
