//! Tests of restorations with concurrent changes, and after kills.

use super::super::tests::Lab;
use super::super::{Decision, Digest, EntityChange, PathChange, TrackStore};
use super::*;
use crate::base_store::Remembered;
use crate::group::commit;
use crate::tracked::restore::decide;
use holo_protocol::report::EntityReport;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

fn found(lab: &Lab, path: &str) -> Found {
    Found::from([(path.into(), lab.tracker.state(Path::new(path)).unwrap())])
}

#[test]
fn what_a_person_has_changed_meanwhile_stays() {
    for base in [Some("base"), None] {
        let lab = Lab::new();
        if let Some(base) = base {
            fs::write(lab.path("x"), base).unwrap();
        }
        lab.make(&[("/x", lab.file("ours", 0o644))]);
        let found = found(&lab, "/x");
        fs::write(lab.path("x"), "a person's").unwrap();
        let error = lab.tracker.put_back(&mut lab.remembered(), &["/x".into()], &found).unwrap_err();
        assert!(matches!(error, Unmanaged::Meanwhile(_)), "{error}");
        assert_eq!(lab.tree(), ["0644 x: a person's"], "and nothing is left beside it");
        lab.tracker.put_back(&mut lab.remembered(), &["/x".into()], &Found::new()).unwrap();
        assert_eq!(lab.path("x").exists(), base.is_some());
    }
}

#[test]
fn a_restoration_that_was_killed_is_not_a_persons_work() {
    let lab = Lab::new();
    fs::write(lab.path("x"), "base").unwrap();
    lab.make(&[("/x", lab.file("ours", 0o644))]);
    let mut remembered = lab.remembered();
    lab.tracker.intend_bases(&mut remembered.base, &["/x".into()], &mut Vec::new()).unwrap();
    lab.bases.keep(&remembered).unwrap();
    fs::write(lab.path("x"), "base").unwrap();
    let mut remembered = lab.remembered();
    lab.tracker.recover_intents(&mut remembered).unwrap();
    let (path, current) = (Path::new("/x"), lab.tracker.state(Path::new("/x")).unwrap());
    assert_eq!(decide(remembered.base.get(path), &current, &lab.file("ours", 0o644)), Decision::Change);
}

#[test]
fn only_files_that_are_written_over_are_kept_before() {
    for (in_place, base, is_kept) in
        [(true, Some("base"), true), (false, Some("base"), false), (true, None, false), (false, None, false)]
    {
        let lab = Lab::new();
        if let Some(base) = base {
            fs::write(lab.path("x"), base).unwrap();
        }
        let change = PathChange { in_place, ..PathChange::new("/x", lab.file("ours", 0o644)) };
        lab.tracker.make(&mut lab.remembered(), &[change]).unwrap();
        fs::write(lab.path("x"), "a person's").unwrap();
        let mut tracks = lab.remembered().base;
        let mut staged = Vec::new();
        lab.tracker.intend_bases(&mut tracks, &["/x".into(), "/unknown".into()], &mut staged).unwrap();
        assert_eq!(tracks.get(Path::new("/x")).unwrap().over.is_some(), is_kept, "{in_place} {base:?}");
        assert!(staged.is_empty(), "it is not large");
        lab.tracker.contents.flush().unwrap();
        assert_eq!(lab.tracker.contents.read(&Digest::of_bytes(b"a person's")).is_ok(), is_kept);
    }
}

#[test]
fn files_that_come_back_are_written_beside_ours_first() {
    let lab = Lab::new();
    for path in ["file", "mode", "same", "d/cut", "gone/x"] {
        fs::create_dir_all(lab.path(path).parent().unwrap()).unwrap();
        fs::write(lab.path(path), "base").unwrap();
    }
    symlink("base", lab.path("link")).unwrap();
    lab.make(&[
        ("/d", lab.directory(0o755)),
        ("/d/cut", lab.file("ours", 0o644)),
        ("/file", lab.file("ours", 0o644)),
        ("/gone/x", lab.file("ours", 0o644)),
        ("/link", lab.symlink("ours")),
        ("/mode", lab.file("base", 0o600)),
        ("/new", lab.file("ours", 0o644)),
        ("/same", lab.file("base", 0o644)),
    ]);
    fs::remove_dir_all(lab.path("gone")).unwrap();
    fs::rename(lab.path("d"), lab.path("moved")).unwrap();
    symlink("moved", lab.path("d")).unwrap();
    lab.tracker.forget_directories();
    let tracks = lab.remembered().base;
    let paths: Vec<PathBuf> = tracks.iter().map(|(path, _)| path).collect();
    let mut restoration = Restoration::default();
    let written = lab.tracker.prepare_restoration(&tracks, &paths, &Found::new(), &mut restoration).unwrap();
    let names = |places: &[PathHandle]| -> Vec<String> {
        places.iter().map(|place| place.shown().file_name().unwrap().to_string_lossy().into_owned()).collect()
    };
    assert_eq!(names(&written), ["file.holonew", "link.holonew"]);
    assert_eq!(fs::read_to_string(lab.path("file.holonew")).unwrap(), "base");
    restoration.discard();
    assert!(!lab.path("file.holonew").exists());
}

#[test]
fn a_directory_gets_its_mode_back_with_all_that_is_in_it() {
    let lab = Lab::new();
    fs::create_dir(lab.path("d")).unwrap();
    fs::set_permissions(lab.path("d"), fs::Permissions::from_mode(0o750)).unwrap();
    lab.make(&[("/d", lab.directory(0o700))]);
    fs::write(lab.path("d/x"), "a person's").unwrap();
    lab.restore();
    assert_eq!(lab.tree(), ["0750 d/", "0644 d/x: a person's"]);
}

#[test]
fn all_records_but_one_go_with_entities_restored_together() {
    let lab = Lab::new();
    let path = |number: usize| format!("/file{number}");
    let mut made = Vec::new();
    for number in 0..10 {
        fs::write(lab.path(&format!("file{number}")), format!("base {}", number.min(8))).unwrap();
        let remembered = Remembered::new(&EntityReport::new(format!("thing:{number}").as_str()), Tracks::default());
        let paths = vec![PathChange::new(path(number), lab.file("ours", 0o644))];
        made.push(EntityChange::make(remembered, paths, Vec::new()));
    }
    let store = TrackStore::open(&lab.tracker).unwrap().with_threads(4);
    assert!(commit(&store, &mut made).iter().all(std::result::Result::is_ok));
    let scrub = |change: EntityChange<Tracks>| EntityChange::scrub(change.remembered, Found::new());
    let mut scrubbed: Vec<EntityChange<Tracks>> = made.into_iter().map(scrub).collect();
    assert!(commit(&store, &mut scrubbed).iter().all(std::result::Result::is_ok));
    for number in 0..10 {
        let restored = fs::read_to_string(lab.path(&format!("file{number}"))).unwrap();
        assert_eq!(restored, format!("base {}", number.min(8)));
    }
    assert_eq!(lab.bases.ids().unwrap().len(), 1, "one is left as a reason to tidy up");
    lab.tidy();
    assert_eq!(lab.bases.ids().unwrap().len(), 0);
}

#[test]
fn many_files_that_were_made_go_with_their_directories() {
    let lab = Lab::new();
    let (mut made, mut found) = (Vec::new(), Found::new());
    for folder in ["", "/a", "/a/b", "/a/c"] {
        made.push((format!("/d{folder}"), lab.directory(0o755)));
        for number in 0..100 {
            let path = format!("/d{folder}/{number}");
            found.insert(path.clone().into(), lab.file(&format!("content of {path}"), 0o644));
        }
    }
    fs::write(lab.path("kept"), "base").unwrap();
    made.push(("/kept".to_owned(), lab.file("ours", 0o644)));
    made.extend(found.iter().map(|(path, state)| (path.display().to_string(), state.clone())));
    lab.make(&made.iter().map(|(path, state)| (path.as_str(), state.clone())).collect::<Vec<_>>());
    // One of the files has been changed: it remains until force is used, as do its parent directories.
    fs::write(lab.path("d/a/b/7"), "a person's").unwrap();
    let error = lab.tracker.scrub(&mut lab.remembered(), &found).unwrap_err();
    assert!(matches!(&error, Unmanaged::Meanwhile(path) if path.ends_with("d/a/b/7")), "{error}");
    assert_eq!(fs::read_to_string(lab.path("d/a/b/7")).unwrap(), "a person's");
    let mut remembered = lab.remembered();
    lab.tracker.recover_intents(&mut remembered).unwrap();
    lab.tracker.scrub(&mut remembered, &Found::new()).unwrap();
    lab.tidy();
    assert_eq!(lab.tree(), ["0644 kept: base"]);
}
