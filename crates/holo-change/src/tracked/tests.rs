//! Tests of making and restoring paths.

use super::restore::decide;
use super::*;
use crate::base_store::Remembered;
use crate::error::{Notices, PathError};
use holo_protocol::report::EntityReport;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

/// A temporary root and state directory.
pub(super) struct Lab {
    folder: tempfile::TempDir,
    pub(super) bases: BaseStore,
    pub(super) tracker: Tracker,
}

impl Lab {
    pub(super) fn new() -> Lab {
        let folder = tempfile::tempdir().unwrap();
        for name in ["root", "state", "cache"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let path = |name: &str| folder.path().join(name);
        let locations = Locations::new(path("root"), path("state"), path("cache"));
        let tracker = Tracker::open(&locations).unwrap();
        Lab { folder, bases: tracker.bases().clone(), tracker }
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("root").join(path)
    }

    fn attributes(&self, mode: u32) -> Attributes {
        let root = fs::metadata(self.path("")).unwrap();
        Attributes { mode, uid: root.uid(), gid: root.gid() }
    }

    pub(super) fn file(&self, text: &str, mode: u32) -> State {
        let content = self.tracker.contents.keep_bytes(text.as_bytes()).unwrap();
        State::File { content, attributes: self.attributes(mode) }
    }

    pub(super) fn symlink(&self, target: &str) -> State {
        let Attributes { uid, gid, .. } = self.attributes(0);
        State::Symlink { target: target.into(), uid, gid }
    }

    pub(super) fn directory(&self, mode: u32) -> State {
        State::Directory { attributes: self.attributes(mode) }
    }

    pub(super) fn make(&self, wanted: &[(&str, State)]) {
        let mut remembered = self.remembered();
        let wanted: Vec<PathChange> = wanted.iter().map(|(path, state)| PathChange::new(path, state.clone())).collect();
        self.tracker.make(&mut remembered, &wanted).unwrap();
    }

    pub(super) fn remembered(&self) -> Remembered<Tracks> {
        let record = self.bases.recall("thing:x").unwrap();
        record.unwrap_or_else(|| Remembered::new(&EntityReport::new("thing:x"), Tracks::default()))
    }

    fn decide(&self, path: &str, desired: &State) -> Decision {
        let path = Path::new(path);
        decide(self.remembered().base.get(path), &self.tracker.state(path).unwrap(), desired)
    }

    pub(super) fn restore(&self) {
        self.tracker.scrub(&mut self.remembered(), &Found::new()).unwrap();
        self.tidy();
        let left = fs::read_dir(self.folder.path().join("state")).unwrap().count();
        assert_eq!(left, 0, "nothing is left in the state directory");
    }

    pub(super) fn tidy(&self) {
        /// Panics on unreadable records.
        struct Refused;
        impl Notices for Refused {
            fn unreadable_record(&mut self, error: &PathError) {
                panic!("{error}");
            }

            fn taken_over(&mut self, _: &str, _: &str) {}
        }
        self.tracker.tidy::<Tracks>(|_| true, &mut Refused).unwrap();
    }

    /// Returns all files below the root: path, mode and content.
    pub(super) fn tree(&self) -> Vec<String> {
        let mut all = Vec::new();
        list(&self.path(""), &mut all);
        all.iter().map(|line| line.replace(&self.path("").display().to_string(), "")).collect()
    }
}

fn list(folder: &Path, all: &mut Vec<String>) {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let mode = metadata.mode() & 0o7777;
        if metadata.is_symlink() {
            all.push(format!("{} -> {}", path.display(), fs::read_link(&path).unwrap().display()));
        } else if metadata.is_dir() {
            all.push(format!("{mode:04o} {}/", path.display()));
            list(&path, all);
        } else {
            all.push(format!("{mode:04o} {}: {}", path.display(), fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn everything_comes_back_as_it_was() {
    let lab = Lab::new();
    fs::write(lab.path("file"), "old").unwrap();
    fs::set_permissions(lab.path("file"), fs::Permissions::from_mode(0o4711)).unwrap();
    symlink("file", lab.path("link")).unwrap();
    fs::create_dir(lab.path("folder")).unwrap();
    let before = lab.tree();
    lab.make(&[
        ("/file", lab.file("new", 0o640)),
        ("/link", lab.file("was a link", 0o644)),
        ("/folder", lab.directory(0o2750)),
        ("/new", lab.directory(0o700)),
        ("/new/file", lab.file("inside", 0o600)),
        ("/new/link", lab.symlink("file")),
        ("/gone/deep/file", lab.file("", 0o644)),
    ]);
    assert_eq!(
        lab.tree(),
        [
            "0640 file: new",
            "2750 folder/",
            "0755 gone/",
            "0755 gone/deep/",
            "0644 gone/deep/file: ",
            "0644 link: was a link",
            "0700 new/",
            "0600 new/file: inside",
            "new/link -> file",
        ]
    );
    // The second change keeps the original bases.
    lab.make(&[("/file", lab.file("newer", 0o600)), ("/link", State::Absent)]);
    assert!(!lab.path("link").exists());
    lab.restore();
    assert_eq!(lab.tree(), before);
}

#[test]
fn a_persons_work_is_overwritten_only_by_force() {
    let lab = Lab::new();
    let wanted = lab.file("wanted", 0o644);
    assert_eq!(lab.decide("/file", &wanted), Decision::Change);
    fs::write(lab.path("file"), "found").unwrap();
    assert_eq!(lab.decide("/file", &wanted), Decision::Change, "it will be the base");
    lab.make(&[("/file", wanted.clone())]);
    assert_eq!(lab.decide("/file", &wanted), Decision::Nothing);
    let other = lab.file("other", 0o644);
    assert_eq!(lab.decide("/file", &other), Decision::Change);
    fs::write(lab.path("file"), "mine").unwrap();
    assert_eq!(lab.decide("/file", &other), Decision::NeedsForce);
    fs::remove_file(lab.path("file")).unwrap();
    assert_eq!(lab.decide("/file", &wanted), Decision::Change, "a missing file is nobody's work");
    assert_eq!(lab.decide("/file", &State::Absent), Decision::Nothing);
}

#[test]
fn the_work_of_a_killed_run_is_not_a_persons() {
    let lab = Lab::new();
    lab.make(&[("/file", lab.file("one", 0o644))]);
    // The run was killed after the file was changed, but before this was recorded.
    let two = lab.file("two", 0o644);
    let mut remembered = lab.remembered();
    let directories = lab.tracker.directories().unwrap();
    let wanted = [PathChange::new("/file", two.clone())];
    lab.tracker.record_intents(&mut remembered.base, &wanted, &directories, &mut Vec::new()).unwrap();
    lab.bases.keep(&remembered).unwrap();
    fs::write(lab.path("file"), "two").unwrap();
    assert_eq!(lab.decide("/file", &two), Decision::Nothing);
    fs::write(lab.path("file.holonew"), "half").unwrap();
    lab.tracker.recover_intents(&mut lab.remembered()).unwrap();
    assert_eq!(lab.remembered().base.get(Path::new("/file")).unwrap().provisioned, Some(two));
    assert!(!lab.path("file.holonew").exists());
    let three = lab.file("three", 0o644);
    assert_eq!(lab.decide("/file", &three), Decision::Change);
    lab.make(&[("/file", three)]);
    assert_eq!(fs::read_to_string(lab.path("file")).unwrap(), "three");
}

#[test]
fn directories_stay_as_long_as_something_is_in_them() {
    let lab = Lab::new();
    lab.make(&[("/made", lab.directory(0o755)), ("/made/file", lab.file("x", 0o644))]);
    fs::write(lab.path("made/mine"), "a person's").unwrap();
    lab.tracker.scrub(&mut lab.remembered(), &Found::new()).unwrap();
    lab.tidy();
    assert_eq!(lab.tree(), ["0755 made/", "0644 made/mine: a person's"]);
    let mut remembered: Remembered<Tracks> = Remembered::new(&EntityReport::new("thing:y"), Tracks::default());
    let wanted = [PathChange::new("/made", lab.file("file", 0o644))];
    assert!(lab.tracker.make(&mut remembered, &wanted).is_err());
    assert_eq!(lab.tree(), ["0755 made/", "0644 made/mine: a person's"]);
    // The last user of the directory removes it.
    fs::remove_file(lab.path("made/mine")).unwrap();
    lab.tidy();
    assert_eq!(lab.tree(), [""; 0]);
}

#[test]
fn only_attributes_are_given_in_place() {
    let lab = Lab::new();
    fs::write(lab.path("log"), "text").unwrap();
    let inode = fs::metadata(lab.path("log")).unwrap().ino();
    lab.make(&[("/log", lab.file("text", 0o640))]);
    let metadata = fs::metadata(lab.path("log")).unwrap();
    assert_eq!((metadata.ino(), metadata.mode() & 0o7777), (inode, 0o640));
}

#[test]
fn special_files_are_not_opened() {
    let lab = Lab::new();
    rustix::fs::mknodat(rustix::fs::CWD, lab.path("fifo"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let error = lab.tracker.state(Path::new("/fifo")).unwrap_err();
    assert!(error.to_string().ends_with("fifo is neither a file, a symlink nor a directory"), "{error}");
}

#[test]
fn unused_contents_are_removed() {
    let lab = Lab::new();
    let large = "large".repeat(300_000);
    fs::write(lab.path("file"), "found").unwrap();
    fs::write(lab.path("large"), &large).unwrap();
    lab.make(&[("/file", lab.file("one", 0o644)), ("/large", lab.file("one", 0o644))]);
    lab.make(&[("/file", lab.file("two", 0o644))]);
    let is_kept = |text: &str| lab.tracker.contents.read(&Digest::of_bytes(text.as_bytes())).is_ok();
    assert!(["found", "one", "two", &large].into_iter().all(is_kept));
    let contents = lab.folder.path().join("state/contents");
    let file = contents.join(Digest::of_bytes(large.as_bytes()).as_str());
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    fs::write(contents.join("12-34.new"), "half").unwrap();
    lab.make(&[("/large", lab.file("two", 0o644))]);
    lab.tidy();
    assert!(!lab.folder.path().join("state/untidy").exists());
    assert!(["found", "two", &large].into_iter().all(is_kept) && !is_kept("one"));
    assert_eq!(fs::read_dir(&contents).unwrap().count(), 1);
    lab.restore();
    assert_eq!(fs::read_to_string(lab.path("large")).unwrap(), large);
    assert!(!contents.exists() && !is_kept("found"));
}

#[test]
fn a_difference_is_two_files_with_their_modes() {
    let lab = Lab::new();
    lab.make(&[("/etc/file", lab.file("one", 0o640))]);
    let remembered = lab.remembered();
    let path = Path::new("/etc/file");
    let made = remembered.base.get(path).unwrap().provisioned.as_ref();
    let pair = lab.tracker.difference("x:y", path, made).unwrap();
    assert_eq!(fs::read_to_string(&pair.from).unwrap(), "one");
    assert_eq!(fs::metadata(&pair.from).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(pair.to, lab.path("etc/file"));
    assert!(!lab.tracker.difference("x:y", Path::new("/x"), None).unwrap().from.exists());
}

#[test]
fn a_tracker_inside_of_a_directory_does_not_leave_it() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("in/real")).unwrap();
    fs::create_dir(lab.path("out")).unwrap();
    fs::write(lab.path("out/file"), "theirs").unwrap();
    symlink("../out", lab.path("in/link")).unwrap();
    let inside = lab.tracker.inside(Path::new("/in")).unwrap();
    assert_ne!(lab.tracker.state(Path::new("/in/link/file")).unwrap(), State::Absent);
    assert_eq!(inside.state(Path::new("/in/link/file")).unwrap(), State::Absent);
    let wanted = [PathChange::new("/in/real/file", lab.file("ours", 0o644))];
    inside.make(&mut lab.remembered(), &wanted).unwrap();
    let wanted = [PathChange::new("/in/link/file", lab.file("ours", 0o644))];
    assert!(inside.make(&mut lab.remembered(), &wanted).is_err());
    assert_eq!(fs::read_to_string(lab.path("in/real/file")).unwrap(), "ours");
    assert_eq!(fs::read_to_string(lab.path("out/file")).unwrap(), "theirs");
    // Paths outside of the directory are not affected, nor is a directory that does not exist.
    assert_ne!(inside.state(Path::new("/out/file")).unwrap(), State::Absent);
    assert!(lab.tracker.inside(Path::new("/new")).unwrap().inside.is_none());
    assert!(lab.tracker.inside(Path::new("/in/link")).is_err());
}

#[test]
fn a_directory_that_was_a_file_meanwhile_comes_back() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("d/deep")).unwrap();
    fs::write(lab.path("d/deep/file"), "before").unwrap();
    let before = lab.tree();
    lab.make(&[("/d/deep/file", State::Absent), ("/d/deep", State::Absent), ("/d", State::Absent)]);
    lab.make(&[("/d", lab.file("ours", 0o600))]);
    assert_eq!(lab.tree().len(), 1);
    lab.restore();
    assert_eq!(lab.tree(), before);
}

#[test]
fn the_leftovers_of_a_killed_step_are_ours() {
    let (lab, path) = (Lab::new(), PathBuf::from("/x"));
    let with_intent = |made: &State, intent: &State| {
        let mut tracks = Tracks::default();
        let new = Track::new(State::Absent);
        let track = Track { provisioned: Some(made.clone()), intent: Some(intent.clone()), ..new };
        tracks.0.insert("/x".into(), Box::new(track));
        tracks
    };
    let directory = lab.directory(0o755);
    let tracks = with_intent(&State::Absent, &directory);
    assert_eq!(decide(tracks.get(&path), &lab.directory(0o700), &directory), Decision::Change);
    // The new owner was set, but not the new mode.
    let other = |state: State, uid: u32| match state {
        State::File { content, attributes } => State::File { content, attributes: Attributes { uid, ..attributes } },
        other => other,
    };
    let (made, intent) = (lab.file("x", 0o4755), other(lab.file("x", 0o640), 4321));
    let tracks = with_intent(&made, &intent);
    for (current, expected) in [
        (other(lab.file("x", 0o755), 4321), Decision::Change),
        (other(lab.file("x", 0o700), 4321), Decision::NeedsForce),
        (other(lab.file("x", 0o755), 4322), Decision::NeedsForce),
        (other(lab.file("y", 0o755), 4321), Decision::NeedsForce),
    ] {
        assert_eq!(decide(tracks.get(&path), &current, &intent), expected, "{current:?}");
    }
    // After the recovery, the state is recorded as provisioned.
    fs::create_dir(lab.path("x")).unwrap();
    fs::set_permissions(lab.path("x"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(lab.path("x.holonew"), "half").unwrap();
    let mut remembered = lab.remembered();
    remembered.base = with_intent(&State::Absent, &directory);
    assert!(remembered.base.is_temporary(Path::new("/x.holonew")));
    assert!(!remembered.base.is_temporary(Path::new("/y.holonew")));
    lab.tracker.recover_intents(&mut remembered).unwrap();
    assert_eq!(remembered.base.get(&path).unwrap().provisioned, Some(lab.directory(0o700)));
    assert!(!lab.path("x.holonew").exists());
}

#[test]
fn a_path_can_be_forgotten_or_taken_for_ours() {
    let lab = Lab::new();
    lab.make(&[("/x", lab.file("ours", 0o644))]);
    fs::write(lab.path("x"), "of a program").unwrap();
    let (mut remembered, path) = (lab.remembered(), Path::new("/x"));
    let current = lab.tracker.state(path).unwrap();
    remembered.base.set_provisioned(path, current.clone());
    assert_eq!(decide(remembered.base.get(path), &current, &lab.file("new", 0o644)), Decision::Change);
    remembered.base.forget(path);
    lab.tracker.make(&mut remembered, &[PathChange::new(path, State::Absent)]).unwrap();
    assert_eq!(remembered.base.get(path).unwrap().base, current);
    lab.restore();
    assert_eq!(fs::read_to_string(lab.path("x")).unwrap(), "of a program");
}

#[test]
fn many_contents_are_kept_at_once() {
    let lab = Lab::new();
    let texts: Vec<String> = (0..30).map(|number| (number % 10).to_string()).collect();
    lab.tracker.keep_many(texts.iter().map(String::as_bytes)).unwrap();
    lab.tracker.keep_many(texts.iter().map(String::as_bytes)).unwrap();
    for text in &texts {
        assert_eq!(lab.tracker.content(&Digest::of_bytes(text.as_bytes())).unwrap(), text.as_bytes());
    }
}

#[test]
fn a_record_does_not_depend_on_who_runs_us() {
    let lab = Lab::new();
    let text = serde_json::to_string(&lab.file("x", 0o644)).unwrap();
    assert!(!text.contains("uid") && !text.contains("gid"), "{text}");
    assert_eq!(serde_json::from_str::<State>(&text).unwrap(), lab.file("x", 0o644));
    let other = State::Symlink { target: "x".into(), uid: 4321, gid: 4322 };
    let text = serde_json::to_string(&other).unwrap();
    assert!(text.contains("4321") && text.contains("4322"), "{text}");
    assert_eq!(serde_json::from_str::<State>(&text).unwrap(), other);
}
