//! Tests of watched paths.

use super::{Extent, Heard, Subject, WatchedPaths};
use crate::entities::node::EntityIndex;
use std::fs::{self, Permissions};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

const ROOT: &str = "/nowhere";

fn entity(index: usize) -> Subject {
    Subject::Entity(EntityIndex::from(index))
}

fn of(paths: &WatchedPaths, index: usize) -> Vec<PathBuf> {
    paths.of(EntityIndex::from(index)).collect()
}

#[test]
fn paths_are_found_by_subject() {
    let mut paths = WatchedPaths::new(Path::new(ROOT)).expect("inotify");
    for (path, extent, subject) in [
        ("/nowhere/etc/one", Extent::Path, entity(1)),
        ("/nowhere/etc/both", Extent::Path, entity(1)),
        ("/nowhere/etc/both", Extent::Path, entity(0)),
        ("/nowhere/etc/both", Extent::Path, entity(1)),
        ("/nowhere/etc", Extent::Entries, entity(2)),
        ("/nowhere/etc/holo", Extent::Tree, Subject::Definitions),
        ("/elsewhere", Extent::Path, entity(3)),
    ] {
        paths.add(Path::new(path), extent, subject);
    }
    assert_eq!(of(&paths, 0), [Path::new("/nowhere/etc/both")]);
    assert_eq!(of(&paths, 1), [Path::new("/nowhere/etc/one"), Path::new("/nowhere/etc/both")]);
    assert_eq!(of(&paths, 2), [Path::new("/nowhere/etc")]);
    assert!(of(&paths, 3).is_empty());
    assert_eq!(of(&paths.moved(), 1), [Path::new("/nowhere/etc/one"), Path::new("/nowhere/etc/both")]);
}

#[test]
fn contents_of_entries_matter_only_if_they_are_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let (all, names) = (folder.path().join("all"), folder.path().join("names"));
    let mut paths = WatchedPaths::new(folder.path()).expect("inotify");
    for (index, (path, extent)) in [(&all, Extent::Entries), (&names, Extent::Names)].into_iter().enumerate() {
        fs::create_dir(path).expect("a directory");
        assert!(paths.add(path, extent, entity(index)) && !paths.add(path, extent, entity(index)));
    }
    paths.arm().expect("watched");
    let mut heard_of = |act: &dyn Fn(&Path)| {
        act(&all);
        act(&names);
        let mut heard = Heard::default();
        paths.take(&mut heard).expect("read");
        heard.entities.into_keys().collect::<Vec<EntityIndex>>()
    };
    let both = [0, 1].map(EntityIndex::from);
    assert_eq!(heard_of(&|path| drop(fs::File::create(path.join("new")).expect("a file"))), both);
    assert_eq!(heard_of(&|path| fs::write(path.join("new"), "content").expect("written")), both[..1]);
    let mode = |path: &Path| fs::set_permissions(path.join("new"), Permissions::from_mode(0o600)).expect("a mode");
    assert_eq!(heard_of(&mode), both);
    assert_eq!(heard_of(&|path| fs::remove_file(path.join("new")).expect("removed")), both);
}

#[test]
fn what_happened_to_a_directory_is_heard_of_after_it_was_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let (directory, other) = (folder.path().join("directory"), folder.path().join("other"));
    let file = directory.join("file");
    let mut paths = WatchedPaths::new(folder.path()).expect("inotify");
    for directory in [&directory, &other] {
        fs::create_dir(directory).expect("a directory");
    }
    fs::write(&file, "").expect("a file");
    paths.add(&file, Extent::Path, entity(0));
    paths.arm().expect("watched");
    for _ in 0..2 {
        fs::remove_dir_all(&directory).expect("removed");
        fs::create_dir(&directory).expect("a directory");
        // Others are watched before the events are read.
        paths.add(&other, Extent::Entries, entity(1));
        paths.arm().expect("watched");
        let mut heard = Heard::default();
        paths.take(&mut heard).expect("read");
        assert!(heard.entities.contains_key(&EntityIndex::from(0)));
        assert!(paths.ended.is_empty());
        fs::write(&file, "").expect("a file");
        let mut heard = Heard::default();
        paths.take(&mut heard).expect("read");
        assert!(heard.entities.contains_key(&EntityIndex::from(0)));
    }
}

#[test]
fn paths_that_come_and_go_are_too_many_some_time() {
    let mut paths = WatchedPaths::new(Path::new(ROOT)).expect("inotify");
    let add = |paths: &mut WatchedPaths, range: Range<usize>| {
        for index in range {
            paths.add(&Path::new(ROOT).join(index.to_string()), Extent::Names, entity(0));
        }
    };
    add(&mut paths, 0..5000);
    paths.are_all();
    // Those of before, and some more.
    add(&mut paths, 0..9000);
    assert!(!paths.are_too_many());
    add(&mut paths, 9000..12_000);
    assert!(paths.are_too_many());
}

#[test]
fn paths_of_an_entity_are_found_without_a_search() {
    const COUNT: usize = 20_000;
    let mut paths = WatchedPaths::new(Path::new(ROOT)).expect("inotify");
    let begin = Instant::now();
    for index in 0..COUNT {
        paths.add(&Path::new(ROOT).join(index.to_string()), Extent::Path, entity(index));
    }
    let added = begin.elapsed();
    let begin = Instant::now();
    let found: usize = (0..COUNT).map(|index| of(&paths, index).len()).sum();
    assert_eq!(found, COUNT);
    // Both times grow with the number of entities only, and a lookup is cheaper than an insertion, however busy the
    // machine is.
    assert!(begin.elapsed() < 10 * added, "{:?} after {added:?}", begin.elapsed());
}

/// A directory is moved into a new one after the event of the new one was read, and before that is watched.
#[test]
fn what_comes_into_a_directory_before_it_is_watched_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (before, after) = (folder.path().join("before"), folder.path().join("srv/app"));
    fs::create_dir(&before).expect("a directory");
    fs::write(before.join("conf"), "port 80\n").expect("a file");
    let mut paths = WatchedPaths::new(folder.path()).expect("inotify");
    paths.add(&after.join("conf"), Extent::Path, entity(1));
    paths.add(&after.join("missing"), Extent::Path, entity(2));
    paths.arm().expect("watched");

    fs::create_dir(folder.path().join("srv")).expect("a directory");
    let mut heard = Heard::default();
    let moves = paths.read(&mut heard).expect("events");
    assert!(!heard.is_event());
    fs::rename(before, &after).expect("moved");
    paths.follow(&moves, &mut heard).expect("watched");
    assert_eq!(heard.entities.into_keys().collect::<Vec<_>>(), [EntityIndex::from(1_usize)]);

    // From now on, it has events.
    fs::write(after.join("missing"), "").expect("a file");
    let mut heard = Heard::default();
    paths.take(&mut heard).expect("events");
    assert_eq!(heard.entities.into_keys().collect::<Vec<_>>(), [EntityIndex::from(2_usize)]);
}
