//! Tests of linked contents: the conditions for linking, and the cleanup.

use super::super::tests::Lab;
use super::super::{EntityChange, PathChange, State, TrackStore, Unmanaged};
use super::*;
use crate::base_store::Remembered;
use crate::group::commit;
use holo_protocol::report::EntityReport;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// Creates files with these contents and modes, and ten more, so that there is a journal. Returns them open, so that no
/// new file gets one of their inodes.
fn found(lab: &Lab, files: &[(&str, &str, u32)]) -> Vec<File> {
    let others: Vec<String> = (0..10).map(|number| format!("other{number}")).collect();
    let all = files.iter().copied().chain(others.iter().map(|name| (&**name, &**name, 0o644)));
    for (name, content, mode) in all {
        fs::write(lab.path(name), content).unwrap();
        fs::set_permissions(lab.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    files.iter().map(|(name, ..)| File::open(lab.path(name)).unwrap()).collect()
}

fn inodes(files: &[File]) -> Vec<u64> {
    files.iter().map(|file| file.metadata().unwrap().ino()).collect()
}

/// Replaces all files with others, each by an entity of its own.
fn replaced(lab: &Lab) {
    let mut changes = Vec::new();
    for entry in fs::read_dir(lab.path("")).unwrap() {
        let path = Path::new("/").join(entry.unwrap().file_name());
        let id = format!("thing:{}", path.display());
        let remembered = lab.bases.recall(&id).unwrap();
        let remembered = remembered.unwrap_or_else(|| Remembered::new(&EntityReport::new(&*id), Tracks::default()));
        changes.push(EntityChange::make(remembered, vec![PathChange::new(path, lab.file("ours", 0o644))], Vec::new()));
    }
    commit(&TrackStore::open(&lab.tracker).unwrap(), &mut changes).into_iter().for_each(|result| result.unwrap());
    assert!(!lab.tracker.own.place(LINKED).exists().unwrap());
}

fn content(lab: &Lab, text: &str) -> PathHandle {
    lab.tracker.contents.place(Digest::of_bytes(text.as_bytes()).as_str())
}

fn inode(content: &PathHandle) -> u64 {
    fs::metadata(content.shown()).unwrap().ino()
}

#[test]
fn a_file_that_is_replaced_becomes_its_content_itself() {
    let lab = Lab::new();
    let found = found(&lab, &[("one", "first", 0o644), ("two", "second", 0o4755)]);
    replaced(&lab);
    assert_eq!(["first", "second"].map(|text| inode(&content(&lab, text))), *inodes(&found));
    assert!(lab.tree().contains(&"0644 two: ours".to_owned()));
}

#[test]
fn one_that_somebody_could_write_to_is_copied() {
    let lab = Lab::new();
    let found = found(&lab, &[("group", "group", 0o664), ("private", "private", 0o600), ("named", "named", 0o644)]);
    fs::hard_link(lab.path("named"), lab.path("../by-another-name")).unwrap();
    replaced(&lab);
    for (text, found) in ["group", "private", "named"].into_iter().zip(inodes(&found)) {
        assert_ne!(inode(&content(&lab, text)), found, "{text}");
        assert!(lab.tracker.contents.has(&Digest::of_bytes(text.as_bytes())).unwrap(), "{text}");
    }
}

#[test]
fn a_content_of_two_paths_is_a_copy() {
    let lab = Lab::new();
    let mut files = found(&lab, &[("one", "same", 0o644), ("two", "same", 0o644)]);
    replaced(&lab);
    assert!(!inodes(&files).contains(&inode(&content(&lab, "same"))));

    let lab = Lab::new();
    files.extend(found(&lab, &[("one", "same", 0o644)]));
    replaced(&lab);
    fs::write(content(&lab, "same").shown(), "written to by the one who has it open").unwrap();
    files.extend(found(&lab, &[("later", "same", 0o644)]));
    replaced(&lab);
    assert!(!inodes(&files).contains(&inode(&content(&lab, "same"))));
    assert_eq!(fs::read_to_string(content(&lab, "same").shown()).unwrap(), "same");
}

#[test]
fn a_file_that_is_changed_before_it_is_replaced_is_no_content() {
    type Meanwhile = fn(&Lab);
    let ways: [Meanwhile; 3] = [
        |lab| fs::write(lab.path("x"), "a person's").unwrap(),
        |lab| fs::hard_link(lab.path("x"), lab.path("third")).unwrap(),
        |lab| fs::set_permissions(lab.path("x"), fs::Permissions::from_mode(0o600)).unwrap(),
    ];
    for (number, change) in ways.into_iter().enumerate() {
        let lab = Lab::new();
        found(&lab, &[("x", "base", 0o644)]);
        let wanted = [PathChange::new("/x", lab.file("ours", 0o644))];
        let (mut staged, mut linked) = (Vec::new(), Vec::new());
        let directories = lab.tracker.directories().unwrap();
        let mut tracks = Tracks::default();
        let steps =
            lab.tracker.record_intents(&mut tracks, &wanted, &directories, &mut staged, Some(&mut linked)).unwrap();
        assert_eq!((staged.len(), linked.len()), (0, 1));
        change(&lab);
        for mut step in steps {
            lab.tracker.prepare_step(&mut step).unwrap();
            let error = lab.tracker.take_step(&mut step).unwrap_err();
            assert!(matches!(error, Unmanaged::Meanwhile(_)), "{number}: {error}");
            step.discard();
        }
        assert!(lab.tracker.unlink_content(&linked[0]).unwrap());
        assert!(!content(&lab, "base").exists().unwrap() && lab.path("x").exists(), "{number}");
    }
}

#[test]
fn what_a_killed_run_has_linked_is_copied_if_it_is_open() {
    let lab = Lab::new();
    let found = found(&lab, &[("open", "first", 0o644), ("closed", "second", 0o644), ("altered", "third", 0o644)]);
    let _open = ["open", "altered"].map(|name| File::options().append(true).open(lab.path(name)).unwrap());
    let base = |path: &str| (lab.tracker.state(Path::new(path)).unwrap(), Path::new(path).to_owned());
    let bases = ["/open", "/closed", "/altered"].map(base);
    let mut tracks = Tracks::default();
    for (state, path) in bases {
        lab.tracker.begin_linking().unwrap();
        let digest = state.content().unwrap().clone();
        let stamp = Stamp::of(&lab.tracker.place(&path)).unwrap();
        assert!(lab.tracker.link_content(&path, &digest, &stamp.unwrap()).unwrap().is_some());
        fs::remove_file(lab.path(path.strip_prefix("/").unwrap().to_str().unwrap())).unwrap();
        tracks.0.insert(crate::paths::path_bytes(&path), Box::new(super::super::Track::new(state)));
    }
    fs::write(content(&lab, "third").shown(), "altered").unwrap();
    let remembered = Remembered::new(&EntityReport::new("thing:x"), tracks);
    lab.bases.keep(&remembered).unwrap();
    lab.tracker.begin().unwrap();
    lab.tidy();
    assert!(!lab.tracker.own.place(LINKED).exists().unwrap());
    let [first, second, third] = ["first", "second", "third"].map(|text| content(&lab, text));
    assert_eq!(
        [&first, &second, &third].map(inode).iter().zip(&inodes(&found)).map(|(a, b)| a == b).collect::<Vec<_>>(),
        [false, true, false]
    );
    assert_eq!(fs::read_to_string(third.shown()).unwrap(), "altered", "it is what a person has made of it");
    let has = |text: &str| lab.tracker.contents.has(&Digest::of_bytes(text.as_bytes())).unwrap();
    assert_eq!(["first", "second", "third"].map(has), [true, false, false]);
    assert!(matches!(remembered.base.get(Path::new("/open")).unwrap().base, State::File { .. }));
}
