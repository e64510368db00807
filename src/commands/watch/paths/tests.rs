//! Tests of watched paths.

use super::{Extent, Heard, Subject, WatchedPaths};
use crate::entities::node::EntityIndex;
use std::fs;
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
