//! Generations of a scratch root throughout their lifetime.

use super::*;
use crate::entities::resources::Generated;
use crate::host::root::Root;
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
    let third = store(&scratch).generation(3).unwrap();
    assert_eq!((third.packs, third.counts.unwrap().changed), (vec![1, 2], 1), "its content is in the first pack");
    for (path, mode) in [("", 0o700), ("000001.pack", 0o600), ("stamps", 0o600)] {
        let path = root_of(&scratch).generations().join(path);
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
    let names = || {
        let mut names: Vec<String> = fs::read_dir(root_of(&scratch).generations())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["000001.objects", "000004.pack", "000005.pack", "stamps"]);
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
}

#[test]
fn damaged_pack_is_reported_and_not_used() {
    let scratch = scratch();
    keep(&scratch);
    let expected = checked_out(&scratch, 1);
    let pack = root_of(&scratch).generations().join("000001.pack");
    let whole = fs::read(&pack).unwrap();
    let check_out = || {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("x");
        let store = store(&scratch);
        let checked_out =
            store.generation(1).and_then(|generation| store.check_out(&generation, &root_of(&scratch), &into));
        let dump = || {
            fs::remove_file(into.join("generation.json")).unwrap();
            String::from_utf8(holo_testing::tree::dump(&into).unwrap()).unwrap()
        };
        checked_out.map(|()| dump())
    };
    for at in (0..whole.len()).step_by(3) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&pack, damaged).unwrap();
        match check_out() {
            // Damage outside of any object, such as in an unused checksum, has no effect.
            Ok(dump) => assert_eq!(dump, expected, "byte {at}"),
            Err(error) => {
                let error = error.to_string();
                assert!(error.starts_with("cannot use generation 1: "), "byte {at}: {error}");
                assert!(error.contains("000001.pack: it is damaged"), "byte {at}: {error}");
            }
        }
    }
    for length in (0..whole.len()).step_by(17) {
        fs::write(&pack, &whole[..length]).unwrap();
        assert!(check_out().unwrap_err().to_string().contains("000001.pack: it is damaged"), "{length} bytes");
    }
    // The next generation does not use it.
    scratch.write("usr/share/holo/files/01-x/etc/motd", "other\n");
    assert_eq!(keep(&scratch), 2);
    assert_eq!(checked_out(&scratch, 2), present(&scratch));
}

#[test]
fn generation_with_a_missing_pack_is_refused() {
    let scratch = scratch();
    keep(&scratch);
    scratch.write("usr/share/holo/files/01-x/etc/motd", "other\n");
    assert_eq!(keep(&scratch), 2);
    fs::remove_file(root_of(&scratch).generations().join("000001.pack")).unwrap();
    let (store, folder) = (store(&scratch), tempfile::tempdir().unwrap());
    let error = store.check_out(&store.generation(2).unwrap(), &root_of(&scratch), &folder.path().join("x"));
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("cannot use generation 2: ") && error.contains("000001.objects: no such file"),
        "{error}"
    );
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
fn many_small_files_are_one_small_pack() {
    let mut scratch = ScratchRoot::in_memory().file("etc/holorc", "");
    for number in 0..2000 {
        scratch = scratch.file(format!("usr/share/holo/files/01-x/etc/{number}"), format!("value = {number}\n"));
    }
    keep(&scratch);
    scratch.write("usr/share/holo/files/01-x/etc/7", "other\n");
    keep(&scratch);
    let size = |number| root_of(&scratch).generations().join(format!("{number:06}.pack")).metadata().unwrap().len();
    assert!(size(1) < 250_000 && size(2) < size(1), "{} {}", size(1), size(2));
}
